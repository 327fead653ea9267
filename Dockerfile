# The examples `worker`, `jaeger` and `sql`, as docker-compose.yml runs them.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --package flightpath-examples --examples \
    && install --strip -D --target-directory /programs \
        target/debug/examples/worker target/debug/examples/jaeger target/debug/examples/sql

FROM debian:bookworm-20251117-slim
RUN useradd --uid 10001 flightpath && install --directory --owner flightpath /data
USER flightpath
COPY --from=build /programs/ /usr/local/bin/
VOLUME /data
EXPOSE 50051 9464
CMD ["worker", "--help"]

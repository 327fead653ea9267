//! Every value that planning and execution use: `flightpath.*` in `SET` and `SHOW`.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;

extensions_options! {
    /// Settings of Flightpath, under the prefix `flightpath`.
    pub struct FlightpathConfig {
        /// Whether queries are distributed at all.
        pub enabled: bool, default = true

        /// Tasks of a stage; 0 means one for each worker that the resolver knows.
        pub tasks_per_stage: usize, default = 0

        /// Rows of in-memory tables travel inside the plan, once each; above this many bytes
        /// (32 MiB) the query stays local, since sending the table would cost more than it saves.
        pub max_inline_bytes: usize, default = 33_554_432

        /// Largest encoded plan of one task, in bytes (64 MiB: a scan of 100,000 files fits).
        pub max_plan_bytes: usize, default = 67_108_864

        /// Largest message of a data stream, in bytes (1 GiB). Batches are cut by rows well below
        /// it; only a single row that is larger meets it.
        pub max_message_bytes: usize, default = 1_073_741_824

        /// Bytes that a data stream may hold between its producer and a consumer that does not
        /// read (1 MiB): the HTTP/2 window of each stream.
        pub stream_buffer_bytes: usize, default = 1_048_576

        /// Compression of batches on the network: none, lz4 or zstd.
        pub compression: String, default = "lz4".to_string()

        /// Milliseconds to wait for a connection to a worker and its greeting (5 s).
        pub connect_timeout_ms: u64, default = 5_000

        /// Milliseconds without any sign of life after which a worker counts as lost (10 s).
        pub worker_timeout_ms: u64, default = 10_000

        /// Milliseconds to wait for the reports of tasks once the query itself has ended (5 s).
        pub metrics_timeout_ms: u64, default = 5_000
    }
}

impl ConfigExtension for FlightpathConfig {
    const PREFIX: &'static str = "flightpath";
}

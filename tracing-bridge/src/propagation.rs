//! W3C trace context and baggage, as headers of tasks and streams.

use flightpath_core::Headers;
use opentelemetry::Context;
use opentelemetry::propagation::{
    Extractor, Injector, TextMapCompositePropagator, TextMapPropagator,
};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};

/// The longest `baggage` that the W3C recommendation has everyone carry. A longer one is ignored
/// as a whole: half a baggage would be another one.
const MAX_BAGGAGE_BYTES: usize = 8192;

/// What puts a context into headers, and takes it out: those that `OTEL_PROPAGATORS` names.
///
/// # Errors
/// Names the first that is unknown, and those that there are.
pub(crate) fn propagator(names: Option<&str>) -> Result<TextMapCompositePropagator, String> {
    let names = names.filter(|names| !names.trim().is_empty());
    let mut propagators: Vec<Box<dyn TextMapPropagator + Send + Sync>> = vec![];
    for name in names.unwrap_or("tracecontext,baggage").split(',') {
        match name.trim() {
            "tracecontext" => propagators.push(Box::new(TraceContextPropagator::new())),
            "baggage" => propagators.push(Box::new(BaggagePropagator::new())),
            "none" => {}
            unknown => {
                return Err(format!(
                    "OTEL_PROPAGATORS names {unknown:?}; known are tracecontext, baggage and none"
                ));
            }
        }
    }
    Ok(TextMapCompositePropagator::new(propagators))
}

/// The headers that carry a context.
pub(crate) fn inject(propagator: &TextMapCompositePropagator, context: &Context) -> Headers {
    let mut carrier = Carrier(vec![]);
    propagator.inject_context(context, &mut carrier);
    carrier.0.retain(|(_, value)| !value.is_empty());
    carrier.0
}

/// The context that headers carry; what is malformed is not in it.
pub(crate) fn extract(propagator: &TextMapCompositePropagator, headers: &Headers) -> Context {
    propagator.extract_with_context(&Context::new(), &Borrowed(headers))
}

/// Of the form that W3C Trace Context gives it, which the propagator takes less strictly: a version, 32, 16 and 2
/// digits. Later versions may go on after these.
fn is_traceparent(value: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let parts: Vec<_> = value.split('-').map(str::as_bytes).collect();
    let [version, trace, span, flags, more @ ..] = parts.as_slice() else {
        return false;
    };
    let lengths = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
    let fine = lengths
        .iter()
        .all(|(part, length)| part.len() == *length && part.iter().all(is_digit));
    fine && *version != b"ff" && (more.is_empty() || *version != b"00")
}

struct Carrier(Headers);

impl Injector for Carrier {
    fn set(&mut self, key: &str, value: String) {
        self.0.push((key.to_string(), value.into_bytes()));
    }
}

struct Borrowed<'a>(&'a Headers);

impl Extractor for Borrowed<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let (_, value) = self
            .0
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        let value = std::str::from_utf8(value).ok()?;
        let fine = match key {
            "baggage" => value.len() <= MAX_BAGGAGE_BYTES,
            "traceparent" => is_traceparent(value),
            _ => true,
        };
        fine.then_some(value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use opentelemetry::baggage::BaggageExt;
    use opentelemetry::trace::TraceContextExt;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(parent: &str, baggage: &str) -> Headers {
        vec![
            ("Traceparent".into(), parent.as_bytes().to_vec()),
            ("baggage".into(), baggage.as_bytes().to_vec()),
        ]
    }

    #[test]
    fn a_context_survives() {
        let known = propagator(None).unwrap();
        let context = extract(&known, &headers(PARENT, "user=ada"));
        assert!(context.span().span_context().is_sampled());
        let sent = inject(&known, &context);
        let again = extract(&known, &sent);
        let (one, two) = (context.span(), again.span());
        assert_eq!(one.span_context().trace_id(), two.span_context().trace_id());
        assert_eq!(one.span_context().span_id(), two.span_context().span_id());
        assert_eq!(again.baggage().get("user").unwrap().as_str(), "ada");
    }

    #[test]
    fn a_malformed_traceparent_is_no_parent() {
        let known = propagator(None).unwrap();
        for bad in [
            "",
            "nonsense",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "\u{7f}",
            "00-1-2-3",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let context = extract(&known, &headers(bad, "user=ada"));
            assert!(!context.span().span_context().is_valid(), "{bad}");
            assert_eq!(context.baggage().len(), 1);
        }
        let binary = vec![("traceparent".to_string(), vec![0xff, 0xfe])];
        assert!(!extract(&known, &binary).span().span_context().is_valid());
    }

    #[test]
    fn too_long_a_baggage_is_ignored_and_the_trace_goes_on() {
        let known = propagator(None).unwrap();
        let long = format!("user=ada,{}", "x=y,".repeat(25_000));
        let context = extract(&known, &headers(PARENT, &long));
        assert!(context.span().span_context().is_valid());
        assert!(context.baggage().is_empty());
    }

    #[test]
    fn propagators_are_chosen_by_name() {
        let none = propagator(Some("none")).unwrap();
        assert!(
            inject(
                &none,
                &extract(&propagator(None).unwrap(), &headers(PARENT, ""))
            )
            .is_empty()
        );
        let message = propagator(Some("tracecontext,b3")).unwrap_err();
        assert!(
            message.contains("\"b3\"") && message.contains("baggage"),
            "{message}"
        );
    }
}

//! DataFusion's own errors.

use datafusion::common::error::{DataFusionError, GenericError};

use super::layer::{Layer, cause, texts};
use super::{Failure, MAX_NESTED_COLLECTIONS};

texts!(DataFusionError:
    NotImplemented, Internal, Plan, Configuration, Execution, ResourcesExhausted, Substrait, Ffi,
);

pub(super) fn context(text: impl Into<String>) -> Layer {
    Layer::new("DataFusionError::Context").text(text)
}

pub(super) fn describe(error: &DataFusionError, depth: usize) -> Option<Layer> {
    let with_backtrace = |kind: &str, backtrace: &Option<String>| {
        backtrace
            .iter()
            .fold(Layer::new(kind), |layer, text| layer.text(text))
    };
    let layer = match error {
        // Both display as what is below them. Diagnostics point into SQL, which workers never see.
        DataFusionError::Shared(_) | DataFusionError::Diagnostic(..) => return None,
        DataFusionError::Context(text, _) => context(text),
        DataFusionError::External(_) => Layer::new("DataFusionError::External"),
        DataFusionError::ArrowError(_, backtrace) => {
            with_backtrace("DataFusionError::ArrowError", backtrace)
        }
        DataFusionError::SchemaError(_, backtrace) => {
            with_backtrace("DataFusionError::SchemaError", backtrace)
        }
        DataFusionError::ObjectStore(_) => Layer::new("DataFusionError::ObjectStore"),
        DataFusionError::IoError(_) => Layer::new("DataFusionError::IoError"),
        #[cfg(feature = "parquet")]
        DataFusionError::ParquetError(_) => Layer::new("DataFusionError::ParquetError"),
        #[cfg(feature = "sql")]
        DataFusionError::SQL(_, backtrace) => with_backtrace("DataFusionError::SQL", backtrace),
        DataFusionError::Collection(errors) => Layer {
            others: errors
                .iter()
                .skip(1)
                .filter(|_| depth < MAX_NESTED_COLLECTIONS)
                .map(|error| Failure::of(error, depth + 1))
                .collect(),
            ..Layer::new("DataFusionError::Collection")
        },
        // Nobody but tokio can make the JoinError of ExecutionJoin; other variants left are those
        // of DataFusion's features that this crate is built without.
        other => describe_text(other)
            .unwrap_or_else(|| Layer::new("DataFusionError::Execution").text(other.message())),
    };
    Some(layer)
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    if let Some(error) = build_text(variant, &mut layer) {
        return Box::new(error);
    }
    let backtrace = layer.texts.first().cloned();
    let error = match variant {
        "Context" => DataFusionError::from(cause(source)).context(layer.take(0)),
        "Collection" => {
            let first = DataFusionError::from(cause(source));
            let others = layer.others.into_iter().map(Failure::build);
            DataFusionError::Collection(std::iter::once(first).chain(others).collect())
        }
        "ArrowError" => over(source, |error| {
            DataFusionError::ArrowError(error, backtrace)
        }),
        "SchemaError" => over(source, |error| {
            DataFusionError::SchemaError(error, Box::new(backtrace))
        }),
        "ObjectStore" => over(source, DataFusionError::ObjectStore),
        "IoError" => over(source, |error| DataFusionError::IoError(*error)),
        #[cfg(feature = "parquet")]
        "ParquetError" => over(source, DataFusionError::ParquetError),
        #[cfg(feature = "sql")]
        "SQL" => over(source, |error| DataFusionError::SQL(error, backtrace)),
        _ => DataFusionError::External(cause(source)),
    };
    Box::new(error)
}

/// A variant over a cause of the type that it needs; over any other cause it becomes `External`.
fn over<E: std::error::Error + 'static>(
    source: Option<GenericError>,
    variant: impl FnOnce(Box<E>) -> DataFusionError,
) -> DataFusionError {
    cause(source)
        .downcast()
        .map_or_else(DataFusionError::External, variant)
}

//! Arrow's errors.

use std::io;

use datafusion::arrow::error::ArrowError;
use datafusion::common::error::GenericError;

use super::layer::{Layer, cause, texts};

texts!(ArrowError:
    NotYetImplemented, CastError, MemoryError, ParseError, SchemaError, ComputeError,
    ArithmeticOverflow, CsvError, JsonError, AvroError, IpcError, InvalidArgumentError,
    ParquetError, CDataInterface,
);

pub(super) fn describe(error: &ArrowError) -> Layer {
    match error {
        ArrowError::DivideByZero => Layer::new("ArrowError::DivideByZero"),
        ArrowError::DictionaryKeyOverflowError => {
            Layer::new("ArrowError::DictionaryKeyOverflowError")
        }
        ArrowError::RunEndIndexOverflowError => Layer::new("ArrowError::RunEndIndexOverflowError"),
        ArrowError::OffsetOverflowError(offset) => {
            Layer::new("ArrowError::OffsetOverflowError").number(*offset as u64)
        }
        ArrowError::ExternalError(_) => Layer::new("ArrowError::ExternalError"),
        ArrowError::IoError(text, _) => Layer::new("ArrowError::IoError").text(text),
        other => describe_text(other).unwrap_or_else(|| Layer::new("").text(other.to_string())),
    }
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    if let Some(error) = build_text(variant, &mut layer) {
        return Box::new(error);
    }
    Box::new(match variant {
        "DivideByZero" => ArrowError::DivideByZero,
        "DictionaryKeyOverflowError" => ArrowError::DictionaryKeyOverflowError,
        "RunEndIndexOverflowError" => ArrowError::RunEndIndexOverflowError,
        "OffsetOverflowError" => {
            ArrowError::OffsetOverflowError(usize::try_from(layer.at(0)).unwrap_or(usize::MAX))
        }
        "IoError" => {
            let source = cause(source).downcast::<io::Error>();
            let source = source.map_or_else(io::Error::other, |error| *error);
            ArrowError::IoError(layer.take(0), source)
        }
        "ExternalError" => ArrowError::ExternalError(cause(source)),
        _ => return layer.opaque(source),
    })
}

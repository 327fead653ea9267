//! Parquet's errors.

use datafusion::common::error::GenericError;
use datafusion::parquet::errors::ParquetError;

use super::layer::{Layer, cause, texts};

texts!(ParquetError: General, NYI, EOF, ArrowError);

pub(super) fn describe(error: &ParquetError) -> Layer {
    match error {
        ParquetError::IndexOutOfBound(index, bound) => Layer::new("ParquetError::IndexOutOfBound")
            .number(*index as u64)
            .number(*bound as u64),
        ParquetError::NeedMoreData(bytes) => {
            Layer::new("ParquetError::NeedMoreData").number(*bytes as u64)
        }
        ParquetError::NeedMoreDataRange(range) => Layer::new("ParquetError::NeedMoreDataRange")
            .number(range.start)
            .number(range.end),
        ParquetError::External(_) => Layer::new("ParquetError::External"),
        other => describe_text(other)
            .unwrap_or_else(|| Layer::new("ParquetError::Other").text(other.to_string())),
    }
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    if let Some(error) = build_text(variant, &mut layer) {
        return Box::new(error);
    }
    let size = |place| usize::try_from(layer.at(place)).unwrap_or(usize::MAX);
    Box::new(match variant {
        "IndexOutOfBound" => ParquetError::IndexOutOfBound(size(0), size(1)),
        "NeedMoreData" => ParquetError::NeedMoreData(size(0)),
        "NeedMoreDataRange" => ParquetError::NeedMoreDataRange(layer.at(0)..layer.at(1)),
        "External" => ParquetError::External(cause(source)),
        _ => ParquetError::External(layer.opaque(source)),
    })
}

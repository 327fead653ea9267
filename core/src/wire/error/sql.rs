//! Errors of the SQL parser.

use datafusion::common::error::GenericError;
use datafusion::logical_expr::sqlparser::parser::ParserError;

use super::layer::{Layer, texts};

texts!(ParserError: TokenizerError, ParserError);

pub(super) fn describe(error: &ParserError) -> Layer {
    describe_text(error).unwrap_or_else(|| Layer::new("ParserError::RecursionLimitExceeded"))
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    match build_text(variant, &mut layer) {
        Some(error) => Box::new(error),
        None if variant == "RecursionLimitExceeded" => {
            Box::new(ParserError::RecursionLimitExceeded)
        }
        None => layer.opaque(source),
    }
}

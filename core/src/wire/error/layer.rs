//! One layer of an error: what it adds to its cause, and the way back.
//!
//! A layer never holds the text of its cause: the error that is built from it displays that itself.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use datafusion::common::error::{DataFusionError, GenericError};

use super::{Failure, arrow, io, object_store, root, schema};

/// What one error of a chain of causes adds to it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Layer {
    /// Type and variant, such as `ArrowError::CastError`; empty for types not known here.
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) texts: Vec<String>,
    #[prost(uint64, repeated, tag = "3")]
    pub(super) numbers: Vec<u64>,
    /// The errors of a collection after its first, which is the next layer.
    #[prost(message, repeated, tag = "4")]
    pub(super) others: Vec<Failure>,
}

impl Layer {
    pub(super) fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            ..Self::default()
        }
    }

    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.texts.push(text.into());
        self
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.numbers.push(number);
        self
    }

    /// Takes the text at a place: empty if it did not come.
    pub(super) fn take(&mut self, place: usize) -> String {
        let text = self.texts.get_mut(place);
        text.map(std::mem::take).unwrap_or_default()
    }

    /// The number at a place: zero if it did not come.
    pub(super) fn at(&self, place: usize) -> u64 {
        self.numbers.get(place).copied().unwrap_or_default()
    }

    /// What is left when nothing closer can be built: an error with the text, and the cause.
    pub(super) fn opaque(self, source: Option<GenericError>) -> GenericError {
        RemoteError::boxed(self.texts.join(": "), source)
    }
}

/// An error of a type that is not known here: its text and its cause.
#[derive(Debug)]
pub(super) struct RemoteError {
    text: String,
    source: Option<GenericError>,
}

impl RemoteError {
    pub(super) fn boxed(text: impl Into<String>, source: Option<GenericError>) -> GenericError {
        let text = text.into();
        Box::new(Self { text, source })
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The cause of an error that has one; it may not have come.
pub(super) fn cause(source: Option<GenericError>) -> GenericError {
    source.unwrap_or_else(|| RemoteError::boxed("its cause did not arrive", None))
}

/// The error as one of DataFusion's, if it is: behind no pointer but the one that `find_root` knows.
pub(super) fn as_datafusion<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a DataFusionError> {
    let shared = || error.downcast_ref::<Arc<DataFusionError>>();
    error
        .downcast_ref()
        .or_else(|| shared().map(|error| error.as_ref()))
}

/// The layer of an error; `None` if it only passes on what is below it.
pub(super) fn describe(error: &(dyn Error + 'static), depth: usize) -> Option<Layer> {
    if let Some(error) = as_datafusion(error) {
        return root::describe(error, depth);
    }
    let known = None
        .or_else(|| error.downcast_ref().map(arrow::describe))
        .or_else(|| error.downcast_ref().map(object_store::describe))
        .or_else(|| error.downcast_ref().map(schema::describe))
        .or_else(|| error.downcast_ref().map(io::describe));
    #[cfg(feature = "parquet")]
    let known = known.or_else(|| error.downcast_ref().map(super::parquet::describe));
    #[cfg(feature = "sql")]
    let known = known.or_else(|| error.downcast_ref().map(super::sql::describe));
    Some(known.unwrap_or_else(|| Layer::new("").text(error.to_string())))
}

/// The error of a layer, caused by the error of the layer below it.
pub(super) fn build(layer: Layer, source: Option<GenericError>) -> GenericError {
    let kind = layer.kind.clone();
    let (family, variant) = kind.split_once("::").unwrap_or((&kind, ""));
    match family {
        "DataFusionError" => root::build(variant, layer, source),
        "ArrowError" => arrow::build(variant, layer, source),
        "ObjectStoreError" => object_store::build(variant, layer, source),
        "SchemaError" => schema::build(variant, layer, source),
        "IoError" => io::build(variant, layer, source),
        #[cfg(feature = "parquet")]
        "ParquetError" => super::parquet::build(variant, layer, source),
        #[cfg(feature = "sql")]
        "ParserError" => super::sql::build(variant, layer, source),
        _ => layer.opaque(source),
    }
}

/// Both ways between a layer and the variants that hold one text and nothing else.
macro_rules! texts {
    ($error:ident: $($variant:ident),+ $(,)?) => {
        fn describe_text(error: &$error) -> Option<super::layer::Layer> {
            match error {
                $($error::$variant(text) => Some(
                    super::layer::Layer::new(
                        concat!(stringify!($error), "::", stringify!($variant))
                    ).text(text),
                ),)+
                _ => None,
            }
        }

        fn build_text(variant: &str, layer: &mut super::layer::Layer) -> Option<$error> {
            match variant {
                $(stringify!($variant) => Some($error::$variant(layer.take(0))),)+
                _ => None,
            }
        }
    };
}
pub(super) use texts;

//! Errors of object stores.

use datafusion::common::error::GenericError;
use datafusion::object_store::{Error, path};

use super::layer::{Layer, RemoteError, cause};

/// Names under which the stores of the `object_store` crate report their errors.
///
/// A store's name is `&'static str` there, and must not be made from what a peer sends.
const STORES: [&str; 11] = [
    "S3",
    "GCS",
    "MicrosoftAzure",
    "HTTP",
    "HTTP client",
    "LocalFileSystem",
    "InMemory",
    "Config",
    "URL",
    "ObjectStoreRegistry",
    OTHER_STORE,
];

/// Stands in the place of a store's name that is not among [`STORES`].
const OTHER_STORE: &str = "remote";

pub(super) fn describe(error: &Error) -> Layer {
    let at = |variant: &str, path: &str| Layer::new(variant).text(path);
    match error {
        Error::Generic { store, .. } if STORES.contains(store) => {
            at("ObjectStoreError::Generic", store)
        }
        Error::NotFound { path, .. } => at("ObjectStoreError::NotFound", path),
        Error::AlreadyExists { path, .. } => at("ObjectStoreError::AlreadyExists", path),
        Error::Precondition { path, .. } => at("ObjectStoreError::Precondition", path),
        Error::NotModified { path, .. } => at("ObjectStoreError::NotModified", path),
        Error::PermissionDenied { path, .. } => at("ObjectStoreError::PermissionDenied", path),
        Error::Unauthenticated { path, .. } => at("ObjectStoreError::Unauthenticated", path),
        Error::NotSupported { .. } => Layer::new("ObjectStoreError::NotSupported"),
        Error::NotImplemented {
            operation,
            implementer,
        } => Layer::new("ObjectStoreError::NotImplemented")
            .text(operation)
            .text(implementer),
        Error::UnknownConfigurationKey { store, key } if STORES.contains(store) => {
            Layer::new("ObjectStoreError::UnknownConfigurationKey")
                .text(*store)
                .text(key)
        }
        Error::InvalidPath {
            source: path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. },
        } => at("ObjectStoreError::InvalidPath", path),
        other => at("ObjectStoreError::Other", &other.to_string()),
    }
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    let path = layer.take(0);
    let store = || STORES.into_iter().find(|store| *store == path);
    Box::new(match variant {
        "Generic" => Error::Generic {
            store: store().unwrap_or(OTHER_STORE),
            source: cause(source),
        },
        "NotFound" => Error::NotFound {
            path,
            source: cause(source),
        },
        "AlreadyExists" => Error::AlreadyExists {
            path,
            source: cause(source),
        },
        "Precondition" => Error::Precondition {
            path,
            source: cause(source),
        },
        "NotModified" => Error::NotModified {
            path,
            source: cause(source),
        },
        "PermissionDenied" => Error::PermissionDenied {
            path,
            source: cause(source),
        },
        "Unauthenticated" => Error::Unauthenticated {
            path,
            source: cause(source),
        },
        "NotSupported" => Error::NotSupported {
            source: cause(source),
        },
        "NotImplemented" => Error::NotImplemented {
            operation: path,
            implementer: layer.take(1),
        },
        "UnknownConfigurationKey" => Error::UnknownConfigurationKey {
            store: store().unwrap_or(OTHER_STORE),
            key: layer.take(1),
        },
        // What is wrong with a path has no public constructor, but the path is still wrong.
        "InvalidPath" => match path::Path::parse(&path) {
            Err(source) => Error::InvalidPath { source },
            Ok(_) => other(path, source),
        },
        _ => other(path, source),
    })
}

fn other(text: String, source: Option<GenericError>) -> Error {
    Error::Generic {
        store: OTHER_STORE,
        source: RemoteError::boxed(text, source),
    }
}

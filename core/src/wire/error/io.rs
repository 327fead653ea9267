//! Errors of the operating system: kind and text. Its error number means nothing elsewhere.

use std::io::{Error, ErrorKind};

use datafusion::common::error::GenericError;

use super::layer::{Layer, RemoteError};

/// The kinds that exist in stable Rust; all others arrive as [`ErrorKind::Other`].
const KINDS: [ErrorKind; 39] = [
    ErrorKind::AddrInUse,
    ErrorKind::AddrNotAvailable,
    ErrorKind::AlreadyExists,
    ErrorKind::ArgumentListTooLong,
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionAborted,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::CrossesDevices,
    ErrorKind::Deadlock,
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::ExecutableFileBusy,
    ErrorKind::FileTooLarge,
    ErrorKind::HostUnreachable,
    ErrorKind::Interrupted,
    ErrorKind::InvalidData,
    ErrorKind::InvalidFilename,
    ErrorKind::InvalidInput,
    ErrorKind::IsADirectory,
    ErrorKind::NetworkDown,
    ErrorKind::NetworkUnreachable,
    ErrorKind::NotADirectory,
    ErrorKind::NotConnected,
    ErrorKind::NotFound,
    ErrorKind::NotSeekable,
    ErrorKind::OutOfMemory,
    ErrorKind::PermissionDenied,
    ErrorKind::QuotaExceeded,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::ResourceBusy,
    ErrorKind::StaleNetworkFileHandle,
    ErrorKind::StorageFull,
    ErrorKind::TimedOut,
    ErrorKind::TooManyLinks,
    ErrorKind::UnexpectedEof,
    ErrorKind::Unsupported,
    ErrorKind::WouldBlock,
    ErrorKind::WriteZero,
    ErrorKind::Other,
];

pub(super) fn describe(error: &Error) -> Layer {
    Layer::new(format!("IoError::{:?}", error.kind())).text(error.to_string())
}

pub(super) fn build(variant: &str, mut layer: Layer, source: Option<GenericError>) -> GenericError {
    let kind = KINDS
        .into_iter()
        .find(|kind| format!("{kind:?}") == variant)
        .unwrap_or(ErrorKind::Other);
    // An io::Error passes over the error that it holds to that error's own source.
    Box::new(Error::new(kind, RemoteError::boxed(layer.take(0), source)))
}

//! Errors as gRPC statuses: a code and a message for any client, the error itself in the details.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

use datafusion::error::DataFusionError;
use datafusion::object_store::Error as ObjectStoreError;
use prost::Message;
use tonic::{Code, Status};

use super::{Failure, Origin, origin_of};

/// Bytes of details. They travel as metadata in base64, a third longer; of the 16 kB that metadata
/// may have in all this leaves a third to the message and to what others add.
const MAX_DETAILS: usize = 8 * 1024;

/// Bytes of the message, of which each may need three: it travels percent-encoded.
const MAX_MESSAGE: usize = 1024;

/// A text is not cut shorter than this.
const MIN_TEXT: usize = 16;

/// The status of a failed task, which [`from_status`] turns into the error again.
///
/// An error that is too long for metadata is cut, and says so in its outermost context.
pub(crate) fn to_status(error: &DataFusionError, origin: Option<&Origin>) -> Status {
    let text = error.strip_backtrace();
    let message = match origin.filter(|_| origin_of(error).is_none()) {
        Some(origin) => format!("{origin}: {text}"),
        None => text,
    };
    let mut failure = Failure::from_task(error, origin);
    fit(&mut failure);
    let details = failure.encode_to_vec().into();
    Status::with_details(code(error.find_root()), cut(&message, MAX_MESSAGE), details)
}

/// The error behind a status that a worker answered with.
///
/// A status that does not come from [`to_status`] is the source of the error.
pub(crate) fn from_status(status: Status, worker: &str) -> DataFusionError {
    match Failure::parse(status.details()) {
        Ok(error) if origin_of(&error).is_some() => error,
        Ok(error) => error.context(format!("on worker {worker}")),
        Err(_) => DataFusionError::External(Box::new(StatusError {
            worker: worker.to_owned(),
            status: Box::new(status),
        })),
    }
}

/// A status that says nothing of DataFusion: of a proxy, of another service, of a lost connection.
#[derive(Debug)]
struct StatusError {
    worker: String,
    status: Box<Status>,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worker, code) = (&self.worker, self.status.code());
        write!(
            f,
            "worker {worker} answered with gRPC status {code:?} ({code})"
        )?;
        match self.status.message() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

impl Error for StatusError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.status.as_ref())
    }
}

/// The closest code; it is for clients that know nothing of the details.
fn code(root: &DataFusionError) -> Code {
    match root {
        DataFusionError::Plan(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::SchemaError(..) => Code::InvalidArgument,
        DataFusionError::NotImplemented(_) => Code::Unimplemented,
        DataFusionError::ResourcesExhausted(_) => Code::ResourceExhausted,
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => Code::Internal,
        DataFusionError::ObjectStore(error) => match error.as_ref() {
            ObjectStoreError::NotFound { .. } => Code::NotFound,
            ObjectStoreError::PermissionDenied { .. }
            | ObjectStoreError::Unauthenticated { .. } => Code::PermissionDenied,
            _ => Code::Unknown,
        },
        DataFusionError::IoError(error) => match error.kind() {
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::PermissionDenied => Code::PermissionDenied,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::ResourceExhausted,
            _ => Code::Unknown,
        },
        _ => Code::Unknown,
    }
}

/// Shortens an error until it fits: what is long first, to the same length everywhere.
fn fit(failure: &mut Failure) {
    let whole = failure.encoded_len();
    if whole <= MAX_DETAILS {
        return;
    }
    failure.wrap(format!(
        "cut to fit into a gRPC status, {whole} bytes in full"
    ));
    let mut limit = MAX_DETAILS / 2;
    while failure.encoded_len() > MAX_DETAILS && limit >= MIN_TEXT {
        shorten(failure, limit);
        limit /= 2;
    }
}

/// Leaves at most this many bytes of text to each layer, and no backtrace.
fn shorten(failure: &mut Failure, limit: usize) {
    for layer in &mut failure.layers {
        layer.others.clear();
        let mut left = limit;
        let count = layer.texts.len();
        layer.texts.retain_mut(|text| {
            let kept = left > 0;
            let message = text.split(DataFusionError::BACK_TRACE_SEP).next();
            *text = cut(message.unwrap_or_default(), left);
            left = left.saturating_sub(text.len());
            kept
        });
        // Numbers may say how many of the texts belong together.
        if layer.texts.len() < count {
            layer.numbers.truncate(layer.texts.len());
        }
    }
}

/// The start of a text; one that is cut ends with an ellipsis, beyond the limit.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(limit)];
    format!("{}…", start.trim_end_matches('…'))
}

#[cfg(test)]
#[path = "status_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;

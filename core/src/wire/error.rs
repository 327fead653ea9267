//! Errors between machines: kind, message and causes stay what they were where they happened.
//!
//! An error and the sources below it form a chain, the one that [`DataFusionError::find_root`]
//! walks. Each link travels as a [`layer::Layer`] and is built again as the type that it was, so the
//! root has the same variant and the same text on the coordinator as on the worker.
//!
//! What cannot be built again arrives as the closest thing:
//!
//! - `ExecutionJoin`, and `SQL` or `ParquetError` without this crate's feature for it, as `Execution`
//!   with the same message;
//! - what `External` and other boxes hold as an error with the same text and the same causes;
//! - an [`io::Error`](std::io::Error) with its kind and text, without the number of the system;
//! - an object store's error whose store or bad path is not known here as `Generic` with its text;
//! - `Shared` and `Diagnostic` as what they hold, for they display as that.

mod arrow;
mod io;
mod layer;
mod object_store;
#[cfg(feature = "parquet")]
mod parquet;
mod root;
mod schema;
#[cfg(feature = "sql")]
mod sql;
mod status;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use datafusion::common::error::{DataFusionError, GenericError};
use prost::Message;

use layer::{Layer, RemoteError};
pub(crate) use status::{from_status, to_status};

use crate::model::stage::TaskKey;

/// Links of a chain that travel, counted from the root: of a longer one the outermost stay behind.
/// Dropping a chain recurses, so bytes must not be able to build one of any length.
const MAX_LAYERS: usize = 64;

/// How deep collections in collections keep more than their first error.
const MAX_NESTED_COLLECTIONS: usize = 8;

/// Where an error happened: on which worker, in which task.
///
/// It is the text of a [`DataFusionError::Context`] around the error, in the form
/// `task 2.1 on worker http://10.0.0.7:50051`, which [`Origin::from_str`] reads. So it shows
/// wherever errors show, every tool that knows DataFusion's errors can carry it, and `find_root`
/// sees through it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// URL of the worker.
    pub worker: String,
    /// The stage of the task.
    pub stage: usize,
    /// Its place among the stage's tasks, from 0.
    pub task: usize,
}

impl Origin {
    /// Of a task on the worker with this URL.
    pub(crate) fn of(worker: &str, key: &TaskKey) -> Self {
        Self {
            worker: worker.to_string(),
            stage: key.stage,
            task: key.task,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            worker,
            stage,
            task,
        } = self;
        write!(f, "task {stage}.{task} on worker {worker}")
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (key, worker) = text.strip_prefix("task ")?.split_once(" on worker ")?;
            let (stage, task) = key.split_once('.')?;
            Some(Self {
                worker: worker.to_owned(),
                stage: stage.parse().ok()?,
                task: task.parse().ok()?,
            })
        };
        parse().ok_or_else(|| format!("expected `task 2.1 on worker URL`, found {text:?}"))
    }
}

/// Where an error first happened; `None` if no worker has been named.
pub fn origin_of(error: &DataFusionError) -> Option<Origin> {
    links(error).fold(None, |innermost, link| {
        let origin = match layer::as_datafusion(link) {
            Some(DataFusionError::Context(text, _)) => text.parse().ok(),
            _ => None,
        };
        origin.or(innermost)
    })
}

/// The name of the root's variant of [`DataFusionError`], for spans and metrics.
pub fn kind_of(error: &DataFusionError) -> &'static str {
    match error.find_root() {
        DataFusionError::ArrowError(..) => "ArrowError",
        #[cfg(feature = "parquet")]
        DataFusionError::ParquetError(_) => "ParquetError",
        DataFusionError::ObjectStore(_) => "ObjectStore",
        DataFusionError::IoError(_) => "IoError",
        DataFusionError::NotImplemented(_) => "NotImplemented",
        DataFusionError::Internal(_) => "Internal",
        DataFusionError::Plan(_) => "Plan",
        #[cfg(feature = "sql")]
        DataFusionError::SQL(..) => "SQL",
        DataFusionError::Configuration(_) => "Configuration",
        DataFusionError::SchemaError(..) => "SchemaError",
        DataFusionError::Execution(_) => "Execution",
        DataFusionError::ExecutionJoin(_) => "ExecutionJoin",
        DataFusionError::ResourcesExhausted(_) => "ResourcesExhausted",
        DataFusionError::Substrait(_) => "Substrait",
        _ => "External",
    }
}

/// Says where an error happened, if nobody has yet: the first worker to meet it knows best.
pub(crate) fn named(error: DataFusionError, origin: &Origin) -> DataFusionError {
    match origin_of(&error) {
        Some(_) => error,
        None => error.context(origin.to_string()),
    }
}

/// An error and its causes, outermost first.
fn links(error: &DataFusionError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let link = next?;
        next = link.source();
        Some(link)
    })
}

/// An error with what caused it, outermost first.
#[derive(Clone, PartialEq, prost::Message)]
struct Failure {
    #[prost(message, repeated, tag = "1")]
    layers: Vec<Layer>,
}

impl Failure {
    fn of(error: &DataFusionError, depth: usize) -> Self {
        let mut layers: Vec<_> = links(error)
            .filter_map(|link| layer::describe(link, depth))
            .collect();
        layers.drain(..layers.len().saturating_sub(MAX_LAYERS));
        Self { layers }
    }

    /// An error as it leaves a task: one that came from another task before keeps its origin.
    fn from_task(error: &DataFusionError, origin: Option<&Origin>) -> Self {
        let mut failure = Self::of(error, 0);
        if let Some(origin) = origin.filter(|_| origin_of(error).is_none()) {
            failure.wrap(origin.to_string());
        }
        failure
    }

    fn wrap(&mut self, context: String) {
        self.layers.insert(0, root::context(context));
    }

    fn parse(bytes: &[u8]) -> Result<DataFusionError, GenericError> {
        let failure = Self::decode(bytes)?;
        if failure.layers.is_empty() {
            return Err(RemoteError::boxed("it has no content", None));
        }
        Ok(failure.build())
    }

    fn build(self) -> DataFusionError {
        // Room for the contexts that travelling adds.
        let layers = self.layers.into_iter().rev().take(MAX_LAYERS + 2);
        let error = layers.fold(None, |source, layer| Some(layer::build(layer, source)));
        DataFusionError::from(layer::cause(error))
    }
}

/// An error as bytes, wrapped in its origin if it has none yet.
pub(crate) fn encode_error(error: &DataFusionError, origin: Option<&Origin>) -> Vec<u8> {
    Failure::from_task(error, origin).encode_to_vec()
}

/// The error that [`encode_error`] wrote. Other bytes give an error about them.
pub(crate) fn decode_error(bytes: &[u8]) -> DataFusionError {
    Failure::parse(bytes).unwrap_or_else(|error| {
        DataFusionError::External(error)
            .context("an error arrived from another machine and could not be read")
    })
}

#[cfg(test)]
#[path = "error_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;

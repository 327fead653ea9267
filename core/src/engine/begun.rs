//! An execution, as hooks see it.

use std::sync::Arc;

use datafusion::common::DataFusionError;

use crate::model::hooks::{ClientLeft, Hooks};
use crate::model::stage::QueryId;

/// An execution that has begun. Hooks hear of its end in any case: if it is dropped before, its
/// client has left.
pub(crate) struct Begun {
    hooks: Arc<dyn Hooks>,
    query: QueryId,
    ended: bool,
}

impl Begun {
    pub(crate) fn new(hooks: &Arc<dyn Hooks>, query: QueryId) -> Self {
        hooks.query_begins(query);
        Self {
            hooks: Arc::clone(hooks),
            query,
            ended: false,
        }
    }

    pub(crate) fn end(mut self, result: std::result::Result<(), &DataFusionError>) {
        self.ended = true;
        self.hooks.query_ends(self.query, result);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.ended {
            let left = DataFusionError::External(Box::new(ClientLeft));
            self.hooks.query_ends(self.query, Err(&left));
        }
    }
}

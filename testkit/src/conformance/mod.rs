//! Whether a wrapper around plan nodes is transparent: a suite for its author to run.
//!
//! A wrapper stands in front of a node and acts as if it were it. [`ExecutionPlan`] has 35 methods,
//! most with a default that is right for a node and wrong for a wrapper, and one that is forgotten
//! changes plans without a word: a boundary is no longer found, a limit is lost, the wrapper itself
//! disappears. [`check`] wraps a node that answers every method like no other does, asks the
//! wrapper, and names each method whose answer is not the node's, or comes back bare; then it runs
//! a query on two workers with every node wrapped.
//!
//! ```
//! use std::sync::Arc;
//!
//! use flightpath_core::{MetricsSlot, MetricsWrapperExec};
//! use flightpath_testkit::conformance;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), conformance::Failures> {
//! let wrap = |node| Arc::new(MetricsWrapperExec::new(node, MetricsSlot::new())) as Arc<_>;
//! let deviations = conformance::check(wrap).await?;
//! assert!(deviations.is_empty(), "{deviations:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # What is checked
//!
//! | check | what must hold |
//! |---|---|
//! | every method but those below | the answer is the node's |
//! | methods that give a changed node | it is the node's, in one wrapper of the same kind |
//! | `boundaries` | a boundary is found through 1 to 5 wrappers, and keeps them when it is edited |
//! | `display` | each format shows the node and nothing else |
//! | `encoding` | the same bytes as without wrappers |
//! | `results` | a query on two workers has the stages and rows that it has without wrappers |
//!
//! Two deviations are told and tolerated, since a plan stays right with them, and only a rule of the optimizer that
//! changes a plan which is wrapped already meets them: what is left of a projection that was swapped is wrapped in place
//! of the node (`try_swapping_with_projection`), and the child of a node that removed itself is wrapped once more
//! (`handle_child_pushdown_result`). A wrapper that takes whatever comes back for its node has both, as
//! `InstrumentedExec` of datafusion-tracing does.
//!
//! `static_name` cannot be asked of a plan, and `try_to_proto` is covered by `encoding`.
//!
//! [`ExecutionPlan`]: datafusion::physical_plan::ExecutionPlan

mod failures;
mod forwarded;
mod made;
mod plans;
mod probe;
mod queries;

use std::any::{Any, TypeId};
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use flightpath_core::layers;

pub use failures::{Deviation, Failures};

/// Puts the wrapper around a node.
type Wrap = Arc<dyn Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync>;

/// What is wrong, in words that go on from the name of a method.
type Verdict = Result<(), String>;

/// A wrapper around a [probe](probe::ProbeExec).
struct Subject {
    wrap: Wrap,
    node: Arc<dyn ExecutionPlan>,
    wrapped: Arc<dyn ExecutionPlan>,
}

/// One check, under the name that it has in failures.
type Check = (&'static str, fn(&Subject) -> Verdict);

/// Checks the wrapper that `wrap` puts around a node.
///
/// It must give the same kind of wrapper each time, in as many layers. What comes back of a wrapper that passes are the
/// deviations that are tolerated, none if all is well.
///
/// # Errors
/// [`Failures`], which names each method that is not forwarded or does not come back wrapped.
pub async fn check(
    wrap: impl Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync + 'static,
) -> Result<Vec<Deviation>, Failures> {
    let wrap: Wrap = Arc::new(wrap);
    let checks = [&forwarded::CHECKS[..], &made::CHECKS, &plans::CHECKS];
    let mut failures: Vec<_> = checks
        .into_iter()
        .flat_map(|checks| deviations(&wrap, checks))
        .collect();
    failures.extend(Deviation::of("execute", queries::stream(&wrap).await));
    failures.extend(Deviation::of("results", queries::results(&wrap).await));
    Failures::none_of(failures)?;
    Ok(deviations(&wrap, &made::TOLERATED).collect())
}

/// Runs each check on a wrapper of its own.
fn deviations(wrap: &Wrap, checks: &[Check]) -> impl Iterator<Item = Deviation> {
    checks.iter().filter_map(|(name, check)| {
        let node = probe::probe();
        let subject = Subject {
            wrapped: wrap(Arc::clone(&node)),
            wrap: Arc::clone(wrap),
            node,
        };
        Deviation::of(name, check(&subject))
    })
}

/// The types of the layers of one plan node, outermost first.
fn kinds(plan: &dyn ExecutionPlan) -> Vec<TypeId> {
    layers(plan)
        .map(|layer| (layer as &dyn Any).type_id())
        .collect()
}

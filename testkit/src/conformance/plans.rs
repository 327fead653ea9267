//! Real nodes, wrapped: boundaries, and what is sent of a plan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::{IsNotNullExpr, col};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion_proto::bytes::physical_plan_to_bytes;
use flightpath_core::model::boundaries::NetworkShuffle;
use flightpath_core::{BoundaryEdit, NetworkBoundaryExec, NetworkBoundaryExt, edit_boundary};

use super::{Check, Subject, Verdict, Wrap, kinds, probe};

type Plan = Arc<dyn ExecutionPlan>;

pub(super) const CHECKS: [Check; 2] = [("boundaries", boundaries), ("encoding", encoding)];

/// How deep boundaries are looked for: a rule of the session, the coordinator's own wrappers and
/// those of two plug-ins are four.
const DEPTH: usize = 5;

/// The stage that a boundary reads once it is edited.
const EDITED: usize = 7;

fn boundaries(it: &Subject) -> Verdict {
    let mut plan = boundary().map_err(|error| error.to_string())?;
    for depth in 1..=DEPTH {
        plan = (it.wrap)(plan);
        if plan.as_network_boundary().is_none() {
            return Err(format!("are not found at depth {depth}"));
        }
        let edit = BoundaryEdit {
            boundary: None,
            stage: Some(EDITED),
        };
        let edited = edit_boundary(&plan, edit)
            .map_err(|error| format!("cannot be edited at depth {depth}: {error}"))?;
        let stage = edited
            .as_network_boundary()
            .and_then(NetworkBoundaryExec::stage);
        if stage.is_none_or(|stage| stage.id != EDITED) {
            return Err(format!("are not edited at depth {depth}"));
        }
        if kinds(edited.as_ref()) != kinds(plan.as_ref()) {
            return Err(format!(
                "lose wrappers when they are edited at depth {depth}"
            ));
        }
    }
    Ok(())
}

fn boundary() -> Result<Plan> {
    let input = leaf();
    let shuffle = NetworkShuffle::new(vec![col("partition", &input.schema())?], 2, None);
    let boundary = NetworkBoundaryExec::try_new(Arc::new(shuffle), input, 1, 2, 2)?;
    Ok(Arc::new(boundary))
}

fn leaf() -> Plan {
    Arc::new(EmptyExec::new(probe::schema("leaf")))
}

/// Wrappers are not data: they are not sent.
fn encoding(it: &Subject) -> Verdict {
    let bare: Wrap = Arc::new(|plan| plan);
    let [bare, wrapped] = [&bare, &it.wrap].map(|wrap| {
        let bytes = filter(wrap).and_then(physical_plan_to_bytes);
        bytes.map_err(|error| format!("fails: {error}"))
    });
    match bare? == wrapped? {
        true => Ok(()),
        false => Err("is not that of the node".to_string()),
    }
}

fn filter(wrap: &Wrap) -> Result<Plan> {
    let input = wrap(leaf());
    let predicate = IsNotNullExpr::new(col("partition", &input.schema())?);
    let filter = FilterExec::try_new(Arc::new(predicate), input)?;
    Ok(wrap(Arc::new(filter)))
}

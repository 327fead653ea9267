//! What any Flight client can ask of a worker: which tasks it has, how they are, to cancel them.

use std::sync::Arc;

use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::{ActionType, FlightDescriptor, FlightInfo};
use serde_json::{Value, json};
use tonic::Status;

use super::query::{Registry, WorkerQuery};
use super::task::Task;
use crate::engine::proto;
use crate::model::outcome::QUERY_GONE;
use crate::model::stage::{QueryId, TaskKey};

/// Name, and what to send and expect.
const ACTIONS: [(&str, &str); 3] = [
    (
        "version",
        "No body. Answers {\"name\", \"version\", \"protocol\"}.",
    ),
    (
        "task",
        "Body {\"query_id\", \"stage\", \"task\"}. Answers the state of that task.",
    ),
    (
        "cancel",
        "Body {\"query_id\"}, with \"stage\" and \"task\" for one task alone. Answers \
         {\"cancelled\": how many were still going}.",
    ),
];

pub(crate) fn action_types() -> Vec<ActionType> {
    let types = ACTIONS.into_iter();
    types
        .map(|(name, description)| ActionType {
            r#type: name.to_string(),
            description: description.to_string(),
        })
        .collect()
}

/// Does what an action asks, and answers in JSON.
///
/// # Errors
/// Says what was expected.
pub(crate) fn act(registry: &Registry, name: &str, body: &[u8]) -> Result<Value, Status> {
    match name {
        "version" => Ok(json!({
            "name": "flightpath",
            "version": proto::RELEASE,
            "protocol": proto::PROTOCOL_VERSION,
        })),
        "task" => {
            let wanted = Wanted::parse(body)?;
            let (stage, task) = wanted.one.ok_or_else(|| {
                Status::invalid_argument("expected \"stage\" and \"task\", both numbers")
            })?;
            Ok(state(&*find(registry, wanted.query, stage, task)?))
        }
        "cancel" => {
            let wanted = Wanted::parse(body)?;
            let query = query(registry, wanted.query)?;
            if let Some((stage, task)) = wanted.one {
                find(registry, wanted.query, stage, task)?;
            }
            let cancelled = query.stop("a client asked for it", |key| {
                wanted
                    .one
                    .is_none_or(|(stage, task)| key.stage == stage && key.task == task)
            });
            Ok(json!({ "cancelled": cancelled }))
        }
        _ => Err(Status::invalid_argument(format!(
            "expected one of the actions {}, found {name:?}",
            ACTIONS.map(|(name, _)| name).join(", ")
        ))),
    }
}

/// A query, or one task of it.
struct Wanted {
    query: QueryId,
    one: Option<(usize, usize)>,
}

impl Wanted {
    fn parse(body: &[u8]) -> Result<Self, Status> {
        let expected = |found: String| {
            Status::invalid_argument(format!(
                "expected a JSON object with \"query_id\" and, for one task, \"stage\" and \
                 \"task\"; {found}"
            ))
        };
        let body: Value =
            serde_json::from_slice(body).map_err(|error| expected(error.to_string()))?;
        let query = body
            .get("query_id")
            .and_then(Value::as_str)
            .ok_or_else(|| expected("found no \"query_id\"".to_string()))?
            .parse()
            .map_err(expected)?;
        let number = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .map(|number| Some(number as usize))
                .ok_or_else(|| expected(format!("found {value} as \"{name}\""))),
        };
        let one = match (number("stage")?, number("task")?) {
            (Some(stage), Some(task)) => Some((stage, task)),
            (None, None) => None,
            _ => {
                return Err(expected(
                    "found only one of \"stage\" and \"task\"".to_string(),
                ));
            }
        };
        Ok(Self { query, one })
    }
}

fn query(registry: &Registry, id: QueryId) -> Result<Arc<WorkerQuery>, Status> {
    registry
        .query(id)
        .ok_or_else(|| Status::not_found(format!("{QUERY_GONE}{id}")))
}

fn find(registry: &Registry, id: QueryId, stage: usize, task: usize) -> Result<Arc<Task>, Status> {
    let query = query(registry, id)?;
    // The latest attempt.
    let found = query
        .tasks
        .iter()
        .filter(|known| known.key.stage == stage && known.key.task == task)
        .max_by_key(|known| known.key.attempt)
        .map(|known| Arc::clone(&known));
    found.ok_or_else(|| {
        Status::not_found(format!(
            "query {id} has no task {stage}.{task} on this worker"
        ))
    })
}

fn state(task: &Task) -> Value {
    let TaskKey {
        query_id,
        stage,
        task: index,
        attempt,
    } = task.key;
    let progress = task.progress();
    json!({
        "query_id": query_id.to_string(),
        "stage": stage,
        "task": index,
        "attempt": attempt,
        "status": progress.status,
        "output_rows": progress.rows,
        "output_bytes": progress.bytes,
        "elapsed_ms": progress.elapsed_ms,
    })
}

/// Every task, as a flight without an endpoint: only those that it was planned for read it.
pub(crate) fn flights(registry: &Registry) -> Vec<FlightInfo> {
    let mut tasks: Vec<Arc<Task>> = registry
        .queries()
        .iter()
        .flat_map(|query| {
            query
                .tasks
                .iter()
                .map(|task| Arc::clone(&task))
                .collect::<Vec<_>>()
        })
        .collect();
    tasks.sort_by_key(|task| task.key);
    tasks.iter().map(|task| flight(task)).collect()
}

/// The flight of the task that `descriptor` names.
///
/// # Errors
/// Says what was expected.
pub(crate) fn flight_of(
    registry: &Registry,
    descriptor: &FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let expected =
        || Status::invalid_argument("expected a descriptor with the path [query id, stage, task]");
    if descriptor.r#type() != DescriptorType::Path {
        return Err(expected());
    }
    let [id, stage, task] = descriptor.path.as_slice() else {
        return Err(expected());
    };
    let id = id.parse().map_err(|_| expected())?;
    let stage = stage.parse().map_err(|_| expected())?;
    let task = task.parse().map_err(|_| expected())?;
    Ok(flight(&*find(registry, id, stage, task)?))
}

fn flight(task: &Task) -> FlightInfo {
    let path = vec![
        task.key.query_id.to_string(),
        task.key.stage.to_string(),
        task.key.task.to_string(),
    ];
    FlightInfo::new()
        .with_descriptor(FlightDescriptor::new_path(path))
        .with_app_metadata(state(task).to_string())
}

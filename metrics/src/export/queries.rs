//! Queries of a coordinator while they run, as far as instruments need to know.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flightpath_core::{BoundaryKind, QueryId, TaskReport};
use parking_lot::Mutex;

/// Each from its begin to its end, which always comes.
#[derive(Debug, Default)]
pub(super) struct Queries(Mutex<HashMap<QueryId, Query>>);

#[derive(Debug)]
struct Query {
    since: Instant,
    stages: HashMap<usize, Stage>,
}

#[derive(Debug)]
struct Stage {
    since: Instant,
    kind: BoundaryKind,
    tasks: usize,
    reported: usize,
    /// Of tasks that ran.
    durations: Vec<Duration>,
}

/// A stage all of whose tasks have reported.
pub(super) struct EndedStage {
    pub(super) kind: BoundaryKind,
    pub(super) duration: Duration,
    /// Slowest task over the median; `None` if fewer than two ran, or for no time.
    pub(super) skew: Option<f64>,
}

/// A query that has ended.
pub(super) struct EndedQuery {
    pub(super) duration: Duration,
    /// Tasks that have not reported.
    pub(super) missing: usize,
}

impl Queries {
    pub(super) fn begin(&self, query: QueryId) {
        let begun = Query {
            since: Instant::now(),
            stages: HashMap::new(),
        };
        self.0.lock().insert(query, begun);
    }

    /// Its stages do not count any more; others may follow.
    pub(super) fn retry(&self, query: QueryId) {
        if let Some(query) = self.0.lock().get_mut(&query) {
            query.stages.clear();
        }
    }

    pub(super) fn begin_stage(&self, query: QueryId, id: usize, tasks: usize, kind: BoundaryKind) {
        let begun = Stage {
            since: Instant::now(),
            kind,
            tasks,
            reported: 0,
            durations: vec![],
        };
        if let Some(query) = self.0.lock().get_mut(&query) {
            query.stages.insert(id, begun);
        }
    }

    /// Takes a report in; the stage, if it is the last of it.
    pub(super) fn report(&self, report: &TaskReport) -> Option<EndedStage> {
        let mut queries = self.0.lock();
        let query = queries.get_mut(&report.key.query_id)?;
        let stage = query.stages.get_mut(&report.key.stage)?;
        stage.reported += 1;
        // Tasks that nobody read from took no time, which says nothing about those that ran.
        if report.started.is_some() {
            stage.durations.push(report.duration);
        }
        (stage.reported == stage.tasks).then(|| EndedStage {
            kind: stage.kind,
            duration: stage.since.elapsed(),
            skew: skew(&mut stage.durations),
        })
    }

    pub(super) fn end(&self, query: QueryId) -> Option<EndedQuery> {
        let query = self.0.lock().remove(&query)?;
        let missing = query.stages.values();
        let missing = missing.map(|stage| stage.tasks.saturating_sub(stage.reported));
        Some(EndedQuery {
            duration: query.since.elapsed(),
            missing: missing.sum(),
        })
    }
}

fn skew(durations: &mut [Duration]) -> Option<f64> {
    durations.sort_unstable();
    let tasks = durations.len();
    let slowest = durations.last().filter(|_| tasks > 1)?;
    let median = (durations[(tasks - 1) / 2] + durations[tasks / 2]) / 2;
    (!median.is_zero()).then(|| slowest.as_secs_f64() / median.as_secs_f64())
}

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion::{self, Continue, Jump, Stop};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use flightpath_core::model::boundary::BoundaryKind;
use flightpath_core::model::stage::QueryId;
use flightpath_core::{
    BoundaryDetector, BoundaryView, NodeVisit, PlanVisitor, QueryReports, StageView, TaskVisit,
    stages, visit_stages, visit_stages_with,
};

use crate::plans::{
    Plan, STAGE_1, all_wrapped, coalesce, key, merge, report, shuffle, source, two_stages, wrapped,
};

/// Writes down every call, and answers some of them as told.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
    answers: Vec<(&'static str, TreeNodeRecursion)>,
    fails: Option<&'static str>,
}

#[derive(Debug)]
enum Failure {
    Own(String),
    Plan(String),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Plan(error.to_string())
    }
}

impl Recorder {
    fn call(&mut self, call: String) -> Result<TreeNodeRecursion, Failure> {
        if self.fails == Some(call.as_str()) {
            return Err(Failure::Own(call));
        }
        let told = self.answers.iter().find(|(at, _)| *at == call);
        let answer = told.map_or(Continue, |(_, answer)| *answer);
        self.calls.push(call);
        Ok(answer)
    }
}

fn node_call(node: &NodeVisit<'_>) -> String {
    let rows = node
        .metrics
        .as_ref()
        .and_then(|metrics| metrics.output_rows());
    let rows = rows.map_or(String::new(), |rows| format!(" {rows} rows"));
    match node.task {
        Some(task) => format!("{}.{task} {}{rows}", node.stage.id, node.node.name()),
        None => format!("{} {}{rows}", node.stage.id, node.node.name()),
    }
}

impl PlanVisitor for Recorder {
    type Error = Failure;

    fn pre_visit_stage(&mut self, stage: &StageView) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("> stage {}", stage.id))
    }

    fn post_visit_stage(&mut self, stage: &StageView) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("< stage {}", stage.id))
    }

    fn pre_visit_task(&mut self, task: &TaskVisit<'_>) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("> task {}.{}", task.stage.id, task.task))
    }

    fn post_visit_task(&mut self, task: &TaskVisit<'_>) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("< task {}.{}", task.stage.id, task.task))
    }

    fn pre_visit_node(&mut self, node: &NodeVisit<'_>) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("> {}", node_call(node)))
    }

    fn post_visit_node(&mut self, node: &NodeVisit<'_>) -> Result<TreeNodeRecursion, Failure> {
        self.call(format!("< {}", node_call(node)))
    }
}

/// Only opening calls, of stages and tasks.
fn outline(plan: &Plan) -> Vec<String> {
    let mut recorder = Recorder::default();
    visit_stages(plan, None, &mut recorder).unwrap();
    let mut calls = recorder.calls;
    calls.retain(|call| call.starts_with("> stage") || call.starts_with("> task"));
    calls
}

const OUTLINE: [&str; 8] = [
    "> stage 0",
    "> stage 2",
    "> task 2.0",
    "> task 2.1",
    "> stage 1",
    "> task 1.0",
    "> task 1.1",
    "> task 1.2",
];

fn visited(answers: Vec<(&'static str, TreeNodeRecursion)>) -> String {
    let plan = merge(coalesce(merge(source()), 1, 2));
    let mut recorder = Recorder {
        answers,
        ..Recorder::default()
    };
    visit_stages(&plan, None, &mut recorder).unwrap();
    recorder.calls.join("\n")
}

#[test]
fn calls_come_in_the_documented_order() {
    insta::assert_snapshot!(visited(vec![]), @r"
    > stage 0
    > 0 CoalescePartitionsExec
    > 0 NetworkCoalesceExec
    < 0 NetworkCoalesceExec
    < 0 CoalescePartitionsExec
    < stage 0
    > stage 1
    > task 1.0
    > 1.0 CoalescePartitionsExec
    > 1.0 DataSourceExec
    < 1.0 DataSourceExec
    < 1.0 CoalescePartitionsExec
    < task 1.0
    > task 1.1
    > 1.1 CoalescePartitionsExec
    > 1.1 DataSourceExec
    < 1.1 DataSourceExec
    < 1.1 CoalescePartitionsExec
    < task 1.1
    < stage 1
    ");
}

#[test]
fn jump_skips_what_is_inside() {
    let answers = vec![
        ("> 0 CoalescePartitionsExec 0 rows", Jump),
        ("> 0 CoalescePartitionsExec", Jump),
        ("> task 1.0", Jump),
        ("> 1.1 CoalescePartitionsExec", Jump),
    ];
    insta::assert_snapshot!(visited(answers), @r"
    > stage 0
    > 0 CoalescePartitionsExec
    < 0 CoalescePartitionsExec
    < stage 0
    > stage 1
    > task 1.0
    < task 1.0
    > task 1.1
    > 1.1 CoalescePartitionsExec
    < 1.1 CoalescePartitionsExec
    < task 1.1
    < stage 1
    ");
    insta::assert_snapshot!(visited(vec![("> stage 1", Jump), ("> stage 0", Jump)]), @r"
    > stage 0
    < stage 0
    > stage 1
    < stage 1
    ");
}

#[test]
fn stop_ends_the_walk_wherever_it_comes() {
    for last in [
        "> stage 0",
        "< stage 0",
        "> stage 1",
        "> task 1.0",
        "> 1.0 DataSourceExec",
        "< 1.0 DataSourceExec",
        "< 1.0 CoalescePartitionsExec",
        "< task 1.0",
        "< stage 1",
    ] {
        let calls = visited(vec![(last, Stop)]);
        assert_eq!(calls.lines().last(), Some(last));
    }
}

#[test]
fn errors_pass_through_as_they_are() {
    for at in [
        "> stage 2",
        "> task 2.1",
        "> 1.2 DataSourceExec",
        "< task 1.0",
        "< stage 1",
    ] {
        let mut recorder = Recorder {
            fails: Some(at),
            ..Recorder::default()
        };
        let error = visit_stages(&two_stages(), None, &mut recorder).unwrap_err();
        assert!(matches!(error, Failure::Own(call) if call == at));
    }
}

#[test]
fn each_stage_and_task_comes_once_through_any_number_of_wrappers() {
    for depth in 0..=3 {
        assert_eq!(outline(&all_wrapped(&two_stages(), depth)), OUTLINE);
    }
}

#[test]
fn a_stage_that_two_boundaries_read_comes_once() {
    let shared = merge(source());
    let sides = vec![coalesce(shared.clone(), 1, 2), coalesce(shared, 1, 2)];
    let plan = UnionExec::try_new(sides).unwrap();
    let once = ["> stage 0", "> stage 1", "> task 1.0", "> task 1.1"];
    assert_eq!(outline(&plan), once);
    // Each copy is wrapped by itself, and still they are one stage.
    assert_eq!(outline(&all_wrapped(&plan, 2)), once);
    assert_eq!(stages(&plan).unwrap().len(), 1);
}

#[test]
fn two_plans_under_one_stage_id_are_an_error() {
    let conflict = |left: Plan, right: Plan| {
        let plan: Plan = UnionExec::try_new(vec![left, right]).unwrap();
        let mut recorder = Recorder::default();
        match visit_stages(&plan, None, &mut recorder).unwrap_err() {
            Failure::Plan(message) => message,
            Failure::Own(call) => call,
        }
    };
    let leaf = source();
    insta::assert_snapshot!(
        conflict(coalesce(merge(leaf.clone()), 1, 2), coalesce(leaf.clone(), 1, 2)), @"Error during planning: two different plans are named stage 1: CoalescePartitionsExec and DataSourceExec: partitions=1, partition_sizes=[1]");
    insta::assert_snapshot!(conflict(coalesce(source(), 1, 2), coalesce(source(), 1, 2)), @"Error during planning: two different plans are named stage 1: DataSourceExec: partitions=1, partition_sizes=[1] and DataSourceExec: partitions=1, partition_sizes=[1]");
    insta::assert_snapshot!(
        conflict(coalesce(leaf.clone(), 1, 2), coalesce(leaf.clone(), 1, 3)), @"Error during planning: stage 1 has 2 tasks in one place and 3 in another");
    insta::assert_snapshot!(conflict(coalesce(leaf.clone(), 0, 2), leaf.clone()), @"Error during planning: NetworkCoalesceExec reads stage 0, which is what runs on the coordinator");
}

#[test]
fn stages_are_sorted_by_id() {
    let stages = stages(&two_stages()).unwrap();
    let numbers: Vec<_> = stages.iter().map(|stage| (stage.id, stage.tasks)).collect();
    assert_eq!(numbers, [(1, 3), (2, 2)]);
}

#[test]
fn nodes_come_with_what_they_measured_in_each_task() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.record(report(key(query_id, 1, 0), &STAGE_1, 7));
    reports.record(report(
        key(query_id, 1, 1),
        &["FilterExec", "DataSourceExec"],
        8,
    ));
    let mut recorder = Recorder::default();
    visit_stages(&two_stages(), Some(&reports), &mut recorder).unwrap();
    let nodes = recorder.calls.into_iter();
    let stage_1: Vec<_> = nodes.filter(|call| call.starts_with("> 1.")).collect();
    insta::assert_snapshot!(stage_1.join("\n"), @r"
    > 1.0 RepartitionExec 7 rows
    > 1.0 DataSourceExec 7 rows
    > 1.1 RepartitionExec
    > 1.1 DataSourceExec
    > 1.2 RepartitionExec
    > 1.2 DataSourceExec
    ");
}

/// Takes every `EmptyExec` for a boundary of another crate, over a plan that is no child of it.
struct Foreign(Plan);

impl BoundaryDetector for Foreign {
    fn detect(&self, node: &dyn ExecutionPlan) -> Option<BoundaryView> {
        node.is::<EmptyExec>().then(|| BoundaryView {
            name: "ShuffleReaderExec".to_owned(),
            kind: BoundaryKind::Custom,
            stage: 3,
            tasks: 1,
            input: self.0.clone(),
        })
    }
}

#[test]
fn boundaries_of_other_crates_take_part() {
    let reader: Plan = Arc::new(EmptyExec::new(source().schema()));
    let plan = merge(shuffle(wrapped(reader, 2), 1, 1, 1));
    let mut recorder = Recorder::default();
    visit_stages_with(&plan, &Foreign(merge(source())), None, &mut recorder).unwrap();
    let calls = recorder.calls.iter().filter(|call| call.starts_with('>'));
    let calls: Vec<_> = calls.map(String::as_str).collect();
    insta::assert_snapshot!(calls.join("\n"), @r"
    > stage 0
    > 0 CoalescePartitionsExec
    > 0 NetworkShuffleExec
    > stage 3
    > task 3.0
    > 3.0 CoalescePartitionsExec
    > 3.0 DataSourceExec
    > stage 1
    > task 1.0
    > 1.0 RepartitionExec
    > 1.0 EmptyExec
    ");
}

//! The tables: all that the drawings show, as text and numbers.

use maud::{Markup, html};

use super::view::{self, View};
use crate::numbers;
use crate::{StageProfile, TaskProfile};

/// A cell with a number: as people say it, exact when pointed at, and to sort by.
fn number(value: u64, text: String, unit: &str) -> Markup {
    html! { td.num data-v=(value) title={ (view::exact(value)) " " (unit) } { (text) } }
}

fn rows(value: u64) -> Markup {
    number(value, numbers::count(value), "rows")
}

fn bytes(value: u64) -> Markup {
    number(value, numbers::bytes(value), "bytes")
}

fn time(value: u64) -> Markup {
    number(value, numbers::nanos(value), "ns")
}

fn share(value: f64) -> Markup {
    let per_mille_of_percent = (value * 100_000.0).round();
    html! {
        td.num data-v=(per_mille_of_percent) title=(format!("{:.3} %", value * 100.0)) {
            (numbers::share(value))
        }
    }
}

fn nothing() -> Markup {
    html! { td.num data-v="-1" { "–" } }
}

/// A table that may be wider than the page, in a frame that scrolls.
fn framed(id: &str, label: &str, table: Markup) -> Markup {
    html! {
        div.scroll id=(id) tabindex="0" role="region" aria-label=(label) { (table) }
    }
}

pub(super) fn stages(view: &View<'_>) -> Markup {
    let headers = [
        "Tasks",
        "Rows out",
        "Bytes out",
        "Bytes in",
        "Compute",
        "Min task",
        "Median",
        "Max task",
        "Skew",
        "Spilled",
        "Max wait",
    ];
    framed(
        "stages-scroll",
        "Table of stages",
        html! {
            table.sortable #stages-table {
                thead { tr {
                    th scope="col" { "Stage" }
                    th scope="col" { "Sends by" }
                    @for header in headers { th.num scope="col" { (header) } }
                } }
                tbody { @for stage in &view.profile.stages { (stage_row(view, stage)) } }
            }
        },
    )
}

fn stage_row(view: &View<'_>, stage: &StageProfile) -> Markup {
    let numbers = view.stage(stage);
    let id = view::stage_id(stage.id);
    html! {
        tr id=(id) data-stage=(stage.id) {
            th scope="row" data-v=(stage.id) {
                i.swatch.(view::stage_class(stage.id)) {} " " a href={ "#" (id) } { (view::stage_name(stage.id)) }
                @for word in view.flags(stage.id, None) { " " span.flag { (word) } }
            }
            @match &stage.boundary {
                Some(boundary) => td { (boundary.kind) },
                None => td { "–" },
            }
            @if stage.id == 0 { (nothing()) (rows(numbers.rows)) (nothing()) } @else {
                (number(stage.tasks as u64, stage.tasks.to_string(), "tasks"))
                (rows(numbers.rows))
                (bytes(numbers.bytes))
            }
            (bytes(numbers.read_bytes))
            (share(numbers.share))
            @match numbers.durations {
                Some(durations) => { @for duration in durations { (time(duration)) } }
                None => { (nothing()) (nothing()) (nothing()) }
            }
            @match numbers.skew {
                Some(skew) => td.num data-v=(format!("{skew:.3}")) title="longest task to median" { (numbers::times(skew)) " ×" },
                None => (nothing()),
            }
            (bytes(numbers.spilled_bytes))
            (time(numbers.wait_ns))
        }
    }
}

/// The text equivalent of the drawing.
pub(super) fn operators(view: &View<'_>) -> Markup {
    framed(
        "operators-scroll",
        "Table of operators",
        html! {
            table #operators-table {
                thead { tr {
                    th scope="col" { "Operator" }
                    th.num scope="col" { "Share" }
                    th.num scope="col" { "Compute" }
                    th.num scope="col" { "Rows out" }
                    th.num scope="col" { "Spilled" }
                    th scope="col" { "As EXPLAIN shows it" }
                } }
                @for stage in &view.profile.stages {
                    tbody {
                        tr.group { th colspan="6" scope="rowgroup" {
                            i.swatch.(view::stage_class(stage.id)) {} " " (view::stage_name(stage.id))
                        } }
                        @for index in 0..stage.nodes.len() { (operator_row(view, stage, index)) }
                    }
                }
            }
        },
    )
}

fn operator_row(view: &View<'_>, stage: &StageProfile, index: usize) -> Markup {
    let node = &stage.nodes[index];
    let numbers = view.node(stage.id, index);
    let indent = format!("--depth:{}", node.depth);
    html! {
        tr id=(view::node_id(stage.id, index)) data-op={ (stage.id) "-" (index) } {
            th scope="row" {
                span.indent style=(indent) { (node.name) }
                @for word in view.flags(stage.id, Some(index)) { " " span.flag { (word) } }
            }
            (share(numbers.share))
            (time(numbers.compute_ns))
            @match numbers.rows { Some(count) => (rows(count)), None => (nothing()) }
            (bytes(numbers.spilled_bytes))
            td.text { (node.text) }
        }
    }
}

pub(super) fn tasks(view: &View<'_>) -> Markup {
    framed(
        "tasks-scroll",
        "Table of tasks",
        html! {
            table.sortable #tasks-table {
                thead { tr {
                    th scope="col" { "Task" }
                    th scope="col" { "Worker" }
                    th scope="col" { "Status" }
                    @for header in ["Sent at", "Ran", "Rows out", "Bytes out"] { th.num scope="col" { (header) } }
                } }
                tbody { @for task in &view.profile.tasks { (task_row(task)) } }
            }
        },
    )
}

fn task_row(task: &TaskProfile) -> Markup {
    let id = view::task_id(task);
    html! {
        tr id=(id) data-task=(id.trim_start_matches("task-")) {
            th scope="row" data-v=(task.stage * 1_000_000 + task.task) {
                (task) @if task.attempt > 0 { ", attempt " (task.attempt + 1) }
            }
            td { (view::worker_name(&task.worker)) }
            td { (task.status) @if let Some(error) = &task.error { ": " (error) } }
            @match task.dispatched_ns { Some(ns) => (time(ns)), None => (nothing()) }
            (time(task.duration_ns))
            (rows(task.output_rows))
            (bytes(task.output_bytes))
        }
    }
}

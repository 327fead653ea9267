//! Who did what when: a row for each worker, a bar for each task.
//!
//! All that is placed is by the coordinator's clock: when a task was sent, and when its report came.
//! How long it ran is by its worker's clock, and counted back from the report.

use maud::{Markup, html};

use super::view::{self, View};
use crate::numbers;
use crate::{QueryProfile, TaskProfile, TaskState};

/// Heights of a lane and of the bar in it, by how many lanes the busiest worker has.
const LANES: [(usize, i32, i32); 3] = [(16, 20, 16), (64, 12, 9), (usize::MAX, 7, 5)];
/// A bar of this share of the width has room for its name, in the narrowest of windows.
const NAMED: f64 = 0.1;
/// And of this share, for the words that flag it as well.
const FLAGGED: f64 = 0.4;
const AXIS: i32 = 26;
const WORKER: i32 = 24;
const GAP: i32 = 10;

/// When a task waited and worked, in nanoseconds since the query began.
struct Bar<'a> {
    index: usize,
    task: &'a TaskProfile,
    sent: u64,
    /// Its first reader came.
    started: u64,
    /// Where the part of its run that was waiting ends, as if all waiting had come first.
    working: u64,
    ended: u64,
}

pub(super) fn timeline(view: &View<'_>) -> Markup {
    let profile = view.profile;
    if profile.tasks.is_empty() {
        return html! { p.note { "No worker had a task of this query." } };
    }
    let bars: Vec<Bar<'_>> = (profile.tasks.iter().enumerate())
        .map(|(index, task)| bar(view, index, task))
        .collect();
    let ends = bars.iter().map(|bar| bar.ended);
    let total = ends.chain([profile.duration_ns, 1]).max().unwrap_or(1);
    let rows: Vec<(&str, Vec<Vec<&Bar<'_>>>)> = (profile.workers.iter())
        .map(|worker| (worker.as_str(), lanes(&bars, worker)))
        .collect();
    let busiest = rows.iter().map(|(_, lanes)| lanes.len()).max().unwrap_or(0);
    let sizes = LANES.iter().find(|(lanes, ..)| busiest <= *lanes);
    let (_, lane, thick) = sizes.copied().unwrap_or(LANES[2]);
    let mut tops = vec![0; bars.len()];
    let mut top = AXIS;
    let mut names = Vec::new();
    for (worker, lanes) in &rows {
        names.push((*worker, top));
        top += WORKER;
        for bars in lanes {
            for bar in bars {
                tops[bar.index] = top;
            }
            top += lane;
        }
        top += GAP;
    }
    let scale = Scale { total };
    html! {
        div.scroll.tall tabindex="0" role="region" aria-label="Tasks by worker over time" {
            svg #timeline-svg width="100%" height=(top) role="group"
                aria-label="Tasks by worker, from when they were sent to when their reports came" {
                defs {
                    pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse"
                        patternTransform="rotate(45)" {
                        line x1="0" y1="0" x2="0" y2="6" {}
                    }
                }
                (axis(&scale, top))
                @for (worker, y) in names { (worker_name(profile, worker, y)) }
                @for bar in &bars { (draw(view, &scale, bar, tops[bar.index], thick)) }
                (critical(view, &scale, &bars, &tops, thick))
            }
        }
        (legend(view))
    }
}

fn legend(view: &View<'_>) -> Markup {
    let stages = || view.profile.stages.iter().filter(|stage| stage.id > 0);
    html! {
        p.legend {
            span.step { i.swatch.c1 {} " works" }
            span.step { i.swatch.hatched {} " waits" }
            @if !view.critical.is_empty() { span.step { i.wire.critical {} " critical path" } }
            span.stages {
                @for stage in stages().take(8) {
                    span.step { i.swatch.(view::stage_class(stage.id)) {} " " (view::stage_name(stage.id)) }
                }
                @if stages().nth(8).is_some() { span { "and the same colours again" } }
            }
        }
        p.note {
            "A bar reaches from when the coordinator sent the task to when its report came, both by the \
             coordinator’s clock. How long the task ran and waited is by its worker’s clock, and counted \
             back from the report; waiting inside a run is drawn at its beginning."
        }
    }
}

fn bar<'a>(view: &View<'_>, index: usize, task: &'a TaskProfile) -> Bar<'a> {
    let sent = task.dispatched_ns.unwrap_or(0);
    let ended = match task.reported_ns {
        Some(reported) => reported.max(sent),
        None if task.status.has_reported() => sent.saturating_add(task.duration_ns),
        None => view.profile.duration_ns.max(sent),
    };
    let started = ended.saturating_sub(task.duration_ns).max(sent);
    let started = if task.duration_ns == 0 {
        ended
    } else {
        started
    };
    let wait = view.profile.task_figures(task).wait_ns;
    let working = started.saturating_add(wait).min(ended);
    Bar {
        index,
        task,
        sent,
        started,
        working,
        ended,
    }
}

/// The tasks of a worker, so that those in one lane do not overlap.
fn lanes<'a, 'b>(bars: &'a [Bar<'b>], worker: &str) -> Vec<Vec<&'a Bar<'b>>> {
    let mut own: Vec<&Bar<'_>> = bars
        .iter()
        .filter(|bar| bar.task.worker == worker)
        .collect();
    own.sort_by_key(|bar| (bar.sent, bar.index));
    let mut lanes: Vec<Vec<&Bar<'_>>> = Vec::new();
    for bar in own {
        let free =
            |lane: &&mut Vec<&Bar<'_>>| lane.last().is_none_or(|last| last.ended <= bar.sent);
        match lanes.iter_mut().find(free) {
            Some(lane) => lane.push(bar),
            None => lanes.push(vec![bar]),
        }
    }
    lanes
}

struct Scale {
    total: u64,
}

impl Scale {
    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.total as f64
    }

    fn at(&self, ns: u64) -> String {
        format!("{:.2}%", self.share(ns) * 100.0)
    }

    /// A round step that cuts the whole into two to four.
    fn step(&self) -> u64 {
        let mut unit = 1;
        while self.total / unit >= 100 {
            unit *= 10;
        }
        let steps = [1, 2, 5, 10, 20].map(|factor: u64| factor.saturating_mul(unit));
        let step = steps.into_iter().find(|step| self.total / step <= 4);
        step.unwrap_or(self.total)
    }
}

fn axis(scale: &Scale, height: i32) -> Markup {
    let step = scale.step();
    let ticks = (0..=scale.total / step).map(|tick| tick * step);
    html! {
        g.axis aria-hidden="true" {
            @for tick in ticks {
                @let side = match scale.share(tick) { 0.0 => "start", share if share > 0.94 => "end", _ => "middle" };
                line x1=(scale.at(tick)) x2=(scale.at(tick)) y1="18" y2=(height) {}
                text x=(scale.at(tick)) y="12" text-anchor=(side) { (tick_text(tick)) }
            }
        }
    }
}

fn tick_text(tick: u64) -> String {
    match tick {
        0 => "0".to_owned(),
        tick => {
            let text = numbers::nanos(tick);
            let (digits, unit) = text.split_once(' ').unwrap_or((&text, ""));
            let digits = match digits.contains('.') {
                true => digits.trim_end_matches('0').trim_end_matches('.'),
                false => digits,
            };
            format!("{digits} {unit}")
        }
    }
}

fn worker_name(profile: &QueryProfile, worker: &str, y: i32) -> Markup {
    let tasks = profile
        .tasks
        .iter()
        .filter(|task| task.worker == worker)
        .count();
    html! {
        text.worker x="0" y=(y + 15) {
            tspan.title { (view::worker_name(worker)) }
            tspan dx="8" { (tasks) @if tasks == 1 { " task" } @else { " tasks" } }
        }
    }
}

fn draw(view: &View<'_>, scale: &Scale, bar: &Bar<'_>, y: i32, thick: i32) -> Markup {
    let task = bar.task;
    let name = task.to_string();
    let length = |from: u64, to: u64| scale.at(to.saturating_sub(from));
    let worked = bar.ended - bar.working;
    let mut words = view.task_flags(task);
    if task.status != TaskState::Finished {
        words.insert(0, task.status.as_str());
    }
    let label = format!(
        "Task {name} on {}, {}, ran {}, waited {} before and {} during it, {} rows out",
        view::worker_name(&task.worker),
        task.status,
        numbers::nanos(task.duration_ns),
        numbers::nanos(bar.started - bar.sent),
        numbers::nanos(bar.working - bar.started),
        numbers::count(task.output_rows),
    );
    let length_of_all = scale.share(bar.ended - bar.sent);
    let named = thick >= 12 && length_of_all >= NAMED;
    let flagged = length_of_all >= FLAGGED;
    let id = view::task_id(task);
    html! {
        a.bar.(view::stage_class(task.stage)).flagged[!words.is_empty()] href={ "#" (id) } data-stage=(task.stage)
            data-task=(id.trim_start_matches("task-")) role="button" aria-label=(label) {
            title { (label) }
            rect.wait x=(scale.at(bar.sent)) width=(length(bar.sent, bar.working)) y=(y) height=(thick) {}
            rect.hatch x=(scale.at(bar.sent)) width=(length(bar.sent, bar.working)) y=(y) height=(thick) {}
            rect.work x=(scale.at(bar.working)) width=(length(0, worked)) y=(y) height=(thick) {}
            rect.frame x=(scale.at(bar.sent)) width=(length(bar.sent, bar.ended)) y=(y) height=(thick) {}
        }
        @if named {
            text.says x=(scale.at(bar.sent)) dx="5" y=(y + thick - 4) aria-hidden="true" {
                (name) @if flagged { @for word in &words { " " (word) } }
            }
        }
    }
}

fn critical(view: &View<'_>, scale: &Scale, bars: &[Bar<'_>], tops: &[i32], thick: i32) -> Markup {
    // Along the lower edges, below the names.
    let edge = |index: usize| tops[index] + thick - 1;
    let path = &view.critical;
    html! {
        g.critical aria-hidden="true" {
            @for (step, index) in path.iter().enumerate() {
                @let bar = &bars[*index];
                // It goes on where the one before had ended.
                @let from = match step.checked_sub(1) { Some(before) => bars[path[before]].ended, None => bar.started };
                @let y = edge(*index);
                line x1=(scale.at(from.min(bar.ended))) x2=(scale.at(bar.ended)) y1=(y) y2=(y) {}
                @if let Some(next) = path.get(step + 1) {
                    line x1=(scale.at(bar.ended)) x2=(scale.at(bar.ended)) y1=(y) y2=(edge(*next)) {}
                }
            }
        }
    }
}

//! The head of the page: the verdict, what the query was, and what stands out.

use chrono::DateTime;
use maud::{Markup, html};

use super::view::{self, View};
use crate::analysis::Finding;
use crate::numbers;

pub(super) fn head(view: &View<'_>, trace_url: Option<&str>) -> Markup {
    let profile = view.profile;
    html! {
        header {
            p.status { "Query " span.{ "word " (profile.status) } { (profile.status) } }
            h1 #verdict { (view.verdict) }
            @if let Some(error) = &profile.error {
                pre.error tabindex="0" aria-label="Error" { (error) }
            }
            (facts(view, trace_url))
            @if let Some(sql) = &profile.sql {
                details.sql { summary { "SQL" } pre tabindex="0" aria-label="SQL" { (sql) } }
            }
        }
    }
}

/// A number in the head, exact when pointed at.
fn fact(name: &str, text: &str, exact: &str) -> Markup {
    html! { div { dt { (name) } dd title=(exact) { (text) } } }
}

fn number(name: &str, value: u64, text: fn(u64) -> String, unit: &str) -> Markup {
    fact(
        name,
        &text(value),
        &format!("{} {unit}", view::exact(value)),
    )
}

fn facts(view: &View<'_>, trace_url: Option<&str>) -> Markup {
    let profile = view.profile;
    let stages = profile.stages.iter().filter(|stage| stage.id > 0).count() as u64;
    html! {
        dl.facts {
            (number("Wall time", profile.duration_ns, numbers::nanos, "ns"))
            (number("Rows out", profile.output_rows, numbers::count, "rows"))
            (number("Stages", stages, numbers::count, "stages on workers"))
            (number("Tasks", profile.tasks.len() as u64, numbers::count, "tasks"))
            (number("Workers", profile.workers.len() as u64, numbers::count, "workers"))
            (number("Between tasks", profile.exchanged_bytes(), numbers::bytes, "bytes"))
            @match view.peak_memory_bytes() {
                0 => (fact("Peak memory", "–", "no operator measured it")),
                peak => (number("Peak memory", peak, numbers::bytes, "bytes at most")),
            }
            (number("Spilled", view.spilled_bytes(), numbers::bytes, "bytes"))
        }
        dl.facts.ids {
            @if let Some(reason) = &profile.local_reason { (fact("Ran locally because", reason, reason)) }
            @if let Some(started) = started(profile.started_unix_ns) { (fact("Started", &started, "coordinator’s clock")) }
            @if let Some(id) = &profile.query_id { (fact("Query", id, "query id")) }
            @if let Some(id) = &profile.trace_id {
                div { dt { "Trace" } dd {
                    @match trace_url { Some(url) => a href=(url) rel="noreferrer" { (id) }, None => (id) }
                } }
            }
        }
    }
}

fn started(unix_ns: Option<u64>) -> Option<String> {
    let at = DateTime::from_timestamp_nanos(i64::try_from(unix_ns?).ok()?);
    Some(at.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string())
}

/// Everything that stands out; what it speaks of is a link.
pub(super) fn findings(view: &View<'_>) -> Markup {
    html! {
        h3 { "What stands out" }
        @if view.findings.is_empty() { p.note { "Nothing." } }
        ol.findings {
            @for finding in &view.findings {
                li {
                    span.flag { (finding.kind) } " " (finding.text)
                    @if let Some((id, name)) = subject(view, finding) {
                        " " a href={ "#" (id) } { "See " (name) "." }
                    }
                }
            }
        }
    }
}

/// Which operators computed longest.
pub(super) fn hottest(view: &View<'_>) -> Markup {
    let operators = view.profile.operators();
    let hottest: Vec<_> = operators
        .iter()
        .take(6)
        .filter(|operator| operator.share >= 0.01)
        .collect();
    html! {
        @if !hottest.is_empty() {
            h3 { "Most compute time" }
            div.bars {
                @for operator in hottest {
                    (share_bar(
                        html! { a href={ "#" (view::node_id(operator.stage, operator.node)) } { (operator.name) } },
                        operator.share,
                        operator.compute_ns,
                    ))
                }
            }
        }
    }
}

/// What the query's duration is made of, from the first task on the critical path to the last.
pub(super) fn path(view: &View<'_>) -> Markup {
    let path = view.profile.critical_path();
    if view.critical.is_empty() {
        return html! {};
    }
    let rest = view::ratio(path.rest_ns, view.profile.duration_ns);
    html! {
        h3 { "Critical path" }
        div.bars {
            @for step in path.steps.iter().rev() {
                @let task = step.task.and_then(|task| view.task(step.stage, task));
                @let name = match task {
                    Some(task) => html! { a href={ "#" (view::task_id(task)) } { "Task " (task) } },
                    None => html! { a href={ "#" (view::stage_id(step.stage)) } { (view::stage_name(step.stage)) } },
                };
                (share_bar(name, step.share, step.own_ns))
            }
            (share_bar(html! { span { "The rest" } }, rest, path.rest_ns))
        }
    }
}

fn share_bar(name: Markup, share: f64, ns: u64) -> Markup {
    html! {
        (name)
        span.track { i style=(format!("width:{:.1}%", share * 100.0)) {} }
        span.v title={ (numbers::nanos(ns)) ", " (view::exact(ns)) " ns" } { (numbers::share(share)) }
    }
}

/// What a finding speaks of, as narrowly as it says: where it stands in the page, and its name.
fn subject(view: &View<'_>, finding: &Finding) -> Option<(String, String)> {
    let stage = view.profile.stage(finding.stage?)?;
    if let Some(index) = finding.node {
        let node = stage.nodes.get(index)?;
        return Some((view::node_id(stage.id, index), node.name.clone()));
    }
    if let Some(task) = finding.task {
        let task = view.task(stage.id, task)?;
        return Some((view::task_id(task), format!("task {task}")));
    }
    Some((
        view::stage_id(stage.id),
        view::stage_name(stage.id).to_lowercase(),
    ))
}

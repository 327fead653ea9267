//! The drawing itself.

use maud::{Markup, html};

use super::layout::{FLAG_ROW, HEADER, Layout, NODE_HEIGHT, NODE_WIDTH, Place};
use crate::numbers;
use crate::report::view::{self, View};
use crate::{NodeProfile, StageProfile};

/// Letters that fit into a node in the widest of the usual system fonts.
const NAME_LETTERS: usize = 23;
const GIST_LETTERS: usize = 27;
/// How wide a letter of a flag is, and what surrounds its word.
const FLAG_LETTER: i32 = 7;
const FLAG_PADDING: i32 = 12;
/// Upper ends of the steps of the scale of shares; more than the last is one step more.
const STEPS: [f64; 6] = [0.005, 0.02, 0.05, 0.1, 0.2, 0.4];

/// The plan as SVG, with a legend under it.
pub(in crate::report) fn draw(view: &View<'_>) -> Markup {
    let profile = view.profile;
    let flag_rows = |stage: usize| (view.flags(stage, None).len() as i32 + 1) / 2;
    let layout = Layout::of(profile, flag_rows);
    let (width, height) = (layout.width, layout.height);
    html! {
        div.scroll #plan-scroll tabindex="0" role="region" aria-label="Drawing of the plan" {
            svg #plan-svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
                role="group" aria-label="The plan, with the result on top" {
                @for stage in &profile.stages { (stage_box(view, &layout, stage)) }
                g aria-hidden="true" {
                    @for stage in &profile.stages {
                        @for index in 0..stage.nodes.len() { (edges(view, &layout, stage, index)) }
                    }
                }
                @for stage in &profile.stages {
                    @for (index, node) in stage.nodes.iter().enumerate() {
                        (operator(view, layout.nodes[&(stage.id, index)], stage.id, index, node))
                    }
                }
            }
        }
        (legend())
    }
}

fn legend() -> Markup {
    html! {
        p.legend {
            span { "Rows flow upward. Share of compute time:" }
            span.scale {
                @for (step, end) in STEPS.iter().enumerate() {
                    span.step { i.swatch.{ "h" (step) } {} " < " (end * 100.0) " %" }
                }
                span.step { i.swatch.{ "h" (STEPS.len()) } {} " more" }
            }
            span.step { i.wire {} " within a task" }
            span.step { i.wire.net {} " between tasks" }
        }
    }
}

/// Texts stand beside what they are written on: its label says the same, in words that make sense
/// when they are heard.
fn stage_box(view: &View<'_>, layout: &Layout, stage: &StageProfile) -> Markup {
    let Some(at) = layout.stages.get(&stage.id) else {
        return html! {};
    };
    let name = view::stage_name(stage.id);
    let tasks = tasks(stage);
    let flags = view.flags(stage.id, None);
    let numbers = view.stage(stage);
    let label = format!(
        "{name}, {tasks}, {} of compute time, {} rows out{}",
        numbers::share(numbers.share),
        numbers::count(numbers.rows),
        spoken(&flags),
    );
    let id = view::stage_id(stage.id);
    // Above its root and not at the corners: those of a wide box may be out of sight.
    let middle = layout.nodes[&(stage.id, 0)].x;
    let (left, right) = (middle - NODE_WIDTH / 2, middle + NODE_WIDTH / 2);
    html! {
        a.stage.(view::stage_class(stage.id)) href={ "#" (id) } data-stage=(stage.id) role="button"
            aria-label=(label) {
            rect.box x=(at.x) y=(at.y) width=(at.width) height=(at.height) rx="8" {}
            rect.stripe x=(at.x) y=(at.y + 8) width="4" height=(at.height - 16) {}
        }
        g.says aria-hidden="true" {
                text.title x=(left) y=(at.y + 18) { (name) }
                text.count x=(right) y=(at.y + 18) { (tasks) }
                @for (slot, word) in flags.iter().enumerate() {
                    @let y = at.y + HEADER - 4 + FLAG_ROW * (slot as i32 / 2);
                    (flag(word, slot, left, right, y))
                }
        }
    }
}

fn tasks(stage: &StageProfile) -> String {
    match (stage.id, stage.tasks) {
        (0, _) => String::new(),
        (_, 1) => "1 task".to_owned(),
        (_, tasks) => format!("{tasks} tasks"),
    }
}

/// Words that flag something, to be read aloud after its name.
fn spoken(flags: &[&str]) -> String {
    flags.iter().map(|word| format!(", {word}")).collect()
}

/// Flags stand left and right in turn, and leave the middle to the edge.
fn flag(word: &str, slot: usize, left: i32, right: i32, y: i32) -> Markup {
    let width = word.chars().count() as i32 * FLAG_LETTER + FLAG_PADDING;
    let x = if slot.is_multiple_of(2) {
        left
    } else {
        right - width
    };
    html! {
        g.flag {
            rect x=(x) y=(y) width=(width) height="17" rx="8.5" {}
            text x=(x + width / 2) y=(y + 12) { (word) }
        }
    }
}

fn operator(view: &View<'_>, at: Place, stage: usize, index: usize, node: &NodeProfile) -> Markup {
    let numbers = view.node(stage, index);
    let share = numbers::share(numbers.share);
    let rows = numbers.rows.map(numbers::count);
    let flags = view.flags(stage, Some(index));
    let label = format!(
        "{} in {}, {share} of compute time, {} rows{}",
        node.name,
        view::stage_name(stage),
        rows.as_deref().unwrap_or("unknown"),
        spoken(&flags),
    );
    let exact = format!(
        "{}: {} ns of compute time, {} rows",
        node.name,
        view::exact(numbers.compute_ns),
        numbers.rows.map_or("unknown".to_owned(), view::exact),
    );
    let id = view::node_id(stage, index);
    let (left, right) = (10, NODE_WIDTH - 10);
    html! {
        g transform={ "translate(" (at.x - NODE_WIDTH / 2) " " (at.y) ")" } {
            a.op.{ "h" (step(numbers.share)) } href={ "#" (id) } data-op={ (stage) "-" (index) } role="button"
                aria-label=(label) {
                title { (exact) }
                rect.box width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="5" {}
            }
            g.says aria-hidden="true" {
                text.name x=(left) y="18" { (view::cut(&node.name, NAME_LETTERS)) }
                text.gist x=(left) y="34" { (view::cut(&view::gist(node), GIST_LETTERS)) }
                @if numbers.wait_ns > 0 {
                    text x=(left) y="50" { "waited " (numbers::nanos(numbers.wait_ns)) }
                } @else if numbers.compute_ns > 0 {
                    text x=(left) y="50" { (numbers::nanos(numbers.compute_ns)) }
                    text.end x=(right) y="50" { (share) }
                }
                @for (slot, word) in flags.iter().take(2).enumerate() {
                    (flag(word, slot, left, right, NODE_HEIGHT - 6))
                }
            }
        }
    }
}

fn step(share: f64) -> usize {
    STEPS.iter().take_while(|end| share >= **end).count()
}

/// What a node reads: the nodes below it, or the stage on the other side of a boundary.
fn edges(view: &View<'_>, layout: &Layout, stage: &StageProfile, index: usize) -> Markup {
    let to = layout.nodes[&(stage.id, index)];
    let below: Vec<usize> = (stage.nodes.iter().enumerate())
        .filter(|(_, node)| node.parent == Some(index))
        .map(|(child, _)| child)
        .collect();
    let read = stage.nodes[index].reads;
    let read = read.and_then(|id| view.profile.stage(id));
    html! {
        @for (slot, child) in below.iter().enumerate() {
            @let rows = view.node(stage.id, *child).rows;
            @let from = layout.nodes[&(stage.id, *child)];
            (edge(from, Place { x: arrival(to.x, slot, below.len()), ..to }, rows, false))
            @if let Some(rows) = rows { (edge_label(from.x, from.y - 8, rows, None)) }
        }
        @if let Some(read) = read {
            @let from = layout.nodes[&(read.id, 0)];
            @let numbers = view.stage(read);
            @let top = layout.stages.get(&read.id).map_or(from.y, |at| at.y);
            (edge(from, to, Some(numbers.rows), true))
            (edge_label(from.x, top - 22, numbers.rows, Some(numbers.bytes)))
        }
    }
}

/// Where the edge of one of several children meets its parent.
fn arrival(centre: i32, slot: usize, of: usize) -> i32 {
    let apart = (NODE_WIDTH - 40) / of as i32;
    centre + apart.min(40) * (2 * slot as i32 + 1 - of as i32) / 2
}

fn edge(from: Place, to: Place, rows: Option<u64>, network: bool) -> Markup {
    let (start, end) = (from.y, to.bottom());
    // Across, right below the parent, where no label is; down to the same spot for straight ones.
    let bend = end + 9;
    let path = match from.x == to.x {
        true => format!("M{} {start}V{end}", from.x),
        false => format!("M{} {start}V{bend}H{}V{end}", from.x, to.x),
    };
    // From 1 for a row to 7 for a billion.
    let width = 1.0 + rows.map_or(0.0, |rows| (rows.max(1) as f64).log10() * (6.0 / 9.0));
    html! {
        path.edge.net[network] d=(path) stroke-width=(format!("{width:.1}")) {}
    }
}

fn edge_label(x: i32, y: i32, rows: u64, bytes: Option<u64>) -> Markup {
    html! {
        text.label x=(x + 9) y=(y) {
            title { (view::exact(rows)) " rows" }
            (numbers::count(rows)) " rows"
        }
        @if let Some(bytes) = bytes {
            text.label x=(x + 9) y=(y + 14) {
                title { (view::exact(bytes)) " bytes" }
                (numbers::bytes(bytes))
            }
        }
    }
}

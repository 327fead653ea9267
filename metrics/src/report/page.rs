//! The page around the parts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::view::View;
use super::{data, facts, plan, tables, timeline};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The page asks for nothing and runs only what is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     img-src data:; base-uri 'none'; form-action 'none'";

pub(super) fn page(view: &View<'_>, trace_url: Option<&str>) -> Markup {
    let profile = view.profile;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "flightpath-metrics " (env!("CARGO_PKG_VERSION")) };
                link rel="icon" href="data:,";
                title { "Query " (profile.status) " in " (crate::numbers::nanos(profile.duration_ns)) " – Flightpath" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (facts::head(view, trace_url))
                main {
                    div.split {
                        section #plan aria-labelledby="plan-title" {
                            div.bar-title {
                                h2 #plan-title { "Plan" }
                                div #zoom hidden {
                                    button type="button" data-zoom="out" aria-label="Smaller" { "−" }
                                    button type="button" data-zoom="in" aria-label="Larger" { "+" }
                                    button type="button" data-zoom="fit" { "Fit" }
                                }
                            }
                            (plan::draw(view))
                        }
                        aside #details aria-label="Details" aria-live="polite" tabindex="0" {
                            (facts::findings(view))
                            (facts::path(view))
                            (facts::hottest(view))
                            p.note.scripted hidden {
                                "Select an operator, a stage or a task for its numbers. Arrow keys walk the plan, "
                                "Escape clears."
                            }
                        }
                        section #timeline aria-labelledby="timeline-title" {
                            h2 #timeline-title { "Timeline" }
                            (timeline::timeline(view))
                        }
                    }
                    section aria-labelledby="stages-title" {
                        h2 #stages-title { "Stages" }
                        (tables::stages(view))
                    }
                    section aria-labelledby="more-title" {
                        h2 #more-title { "Everything as text" }
                        details { summary { "Operators" } (tables::operators(view)) }
                        @if !profile.tasks.is_empty() {
                            details { summary { "Tasks" } (tables::tasks(view)) }
                        }
                    }
                }
                footer { "Written by flightpath-metrics " (env!("CARGO_PKG_VERSION")) "." }
                script #profile type="application/json" { (PreEscaped(data::json(view))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

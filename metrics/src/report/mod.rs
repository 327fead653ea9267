//! A query as one page of HTML: what stands out, the plan, who did what when, and all the numbers.
//!
//! The page is one file that asks the network for nothing. Its drawings are SVG, laid out here, and
//! its tables hold all that the drawings show: it reads without scripts, on paper and aloud. A
//! script of its own adds selection, sorting and zoom. The address keeps the selection, so that a
//! link to `report.html#op-2-3` shows whoever opens it that operator.
//!
//! ```
//! use flightpath_metrics::QueryProfile;
//! use flightpath_metrics::report::Report;
//!
//! # let text = r#"{ "format": "flightpath-profile", "version": 1, "status": "planned",
//! #   "duration_ns": 0, "output_rows": 0, "workers": [], "tasks": [], "coordinator": [[]],
//! #   "stages": [{ "id": 0, "tasks": 0, "nodes": [{ "depth": 0, "name": "EmptyExec", "text": "EmptyExec" }] }] }"#;
//! let profile = QueryProfile::from_json(text)?;
//! let page = Report::new(&profile).to_html();
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), flightpath_metrics::ProfileError>(())
//! ```

mod data;
mod facts;
mod page;
mod plan;
mod tables;
mod timeline;
mod view;

use crate::QueryProfile;

/// The page of a query.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    profile: &'a QueryProfile,
    trace_url: Option<String>,
}

impl<'a> Report<'a> {
    /// Of this profile.
    pub fn new(profile: &'a QueryProfile) -> Self {
        Self {
            profile,
            trace_url: None,
        }
    }

    /// Makes the trace id a link to this address. Addresses that are not of `http` or `https` are
    /// left out.
    pub fn with_trace_url(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        let known = url.starts_with("http://") || url.starts_with("https://");
        self.trace_url = known.then_some(url);
        self
    }

    /// The page, as one text.
    pub fn to_html(&self) -> String {
        let view = view::View::of(self.profile);
        page::page(&view, self.trace_url.as_deref()).into_string()
    }
}

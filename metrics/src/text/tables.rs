//! The stages as a table.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use crate::numbers::{bytes, count, nanos, times};
use crate::profile::QueryProfile;

pub(super) fn stages(profile: &QueryProfile, width: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header([
            "stage", "sends by", "tasks", "rows", "bytes", "min", "median", "max", "skew", "wait",
            "spill",
        ]);
    for stage in profile.stage_figures() {
        let boundary = profile
            .stage(stage.stage)
            .and_then(|stage| stage.boundary.as_ref());
        let tasks = match stage.reported == stage.tasks {
            true => stage.tasks.to_string(),
            false => format!("{} of {}", stage.reported, stage.tasks),
        };
        table.add_row([
            stage.stage.to_string(),
            boundary.map_or_else(String::new, |boundary| boundary.kind.clone()),
            tasks,
            count(stage.output_rows),
            bytes(stage.output_bytes),
            nanos(stage.min_ns),
            nanos(stage.median_ns),
            nanos(stage.max_ns),
            stage.skew().map_or("-".to_owned(), times),
            nanos(stage.max_wait_ns),
            match stage.spilled_bytes {
                0 => "-".to_owned(),
                spilled => bytes(spilled),
            },
        ]);
    }
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    for column in table.column_iter_mut() {
        // Two would not leave the room that a stage of long numbers needs.
        column.set_padding((0, 1));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(last) = table.column_iter_mut().last() {
        last.set_padding((0, 0));
    }
    table
}

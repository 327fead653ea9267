//! The plan with its numbers.

use std::fmt;

use super::cut;
use crate::analysis::OperatorTime;
use crate::numbers::{count, nanos, share};
use crate::profile::{QueryProfile, StageProfile};

/// Columns of the numbers: rows, compute time, share.
const NUMBERS: [usize; 3] = [8, 9, 6];

/// Writes the plan as EXPLAIN reads, stage in stage, with numbers aligned on the right.
pub(super) fn write(
    profile: &QueryProfile,
    width: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let tree = width - NUMBERS.iter().map(|column| column + 1).sum::<usize>();
    let [rows, time, part] = NUMBERS;
    writeln!(
        f,
        "{:tree$} {:>rows$} {:>time$} {:>part$}",
        "operator", "rows", "compute", "share"
    )?;
    let operators = profile.operators();
    let mut written = vec![];
    if let Some(coordinator) = profile.stages.first() {
        let mut lines = Lines {
            profile,
            operators: &operators,
            tree,
            written: &mut written,
        };
        lines.stage(coordinator, 0, f)?;
    }
    Ok(())
}

struct Lines<'a> {
    profile: &'a QueryProfile,
    operators: &'a [OperatorTime],
    tree: usize,
    /// Stages that are there already; others may read them too.
    written: &'a mut Vec<usize>,
}

impl Lines<'_> {
    fn stage(
        &mut self,
        stage: &StageProfile,
        indent: usize,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for (index, node) in stage.nodes.iter().enumerate() {
            let depth = indent + node.depth;
            let operator = self.operators.iter();
            let mut operator =
                operator.filter(|found| (found.stage, found.node) == (stage.id, index));
            let numbers = operator
                .next()
                .map_or([(); 3].map(|()| String::new()), |operator| {
                    match operator.compute_ns {
                        0 if operator.output_rows == 0 => [(); 3].map(|()| String::new()),
                        0 => [count(operator.output_rows), String::new(), String::new()],
                        ns => [
                            count(operator.output_rows),
                            nanos(ns),
                            share(operator.share),
                        ],
                    }
                });
            // Paths of files are long, and would hide which table they are.
            let text = match node.table() {
                Some(table) => format!("{}: {table}, {}", node.name, node.details()),
                None => node.text.clone(),
            };
            let shown = cut(&format!("{}{}", "  ".repeat(depth), text), self.tree);
            let [rows, time, part] = NUMBERS;
            let line = format!(
                "{shown:tree$} {:>rows$} {:>time$} {:>part$}",
                numbers[0],
                numbers[1],
                numbers[2],
                tree = self.tree,
            );
            writeln!(f, "{}", line.trim_end())?;
            let Some(input) = node.reads.and_then(|reads| self.profile.stage(reads)) else {
                continue;
            };
            if !self.written.contains(&input.id) {
                self.written.push(input.id);
                self.stage(input, depth + 1, f)?;
            }
        }
        Ok(())
    }
}

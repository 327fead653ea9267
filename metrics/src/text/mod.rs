//! A profile for the terminal.

mod tables;
mod tree;

use std::fmt;
use std::io::IsTerminal;

use crate::analysis::total;
use crate::numbers::{bytes, count, plural, share, time};
use crate::profile::QueryProfile;

/// Columns that every line fits into.
const WIDTH: usize = 100;

/// A profile as text of at most 100 columns: the verdict, the plan with its numbers, the stages, and
/// the findings. Made by [`QueryProfile::text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    profile: &'a QueryProfile,
    color: bool,
}

impl QueryProfile {
    /// The profile as text, without colour.
    pub fn text(&self) -> Text<'_> {
        Text {
            profile: self,
            color: false,
        }
    }
}

impl Text<'_> {
    /// Marks what is important by colour, or does not. Nothing is said by colour alone.
    pub fn with_color(mut self, color: bool) -> Self {
        self.color = color;
        self
    }

    /// In colour if `to` is a terminal and the environment does not set `NO_COLOR`.
    pub fn for_output(self, to: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.with_color(to.is_terminal() && !refused)
    }

    fn painted(&self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    fn facts(&self) -> String {
        let profile = self.profile;
        let stages = profile.stages.len().saturating_sub(1);
        let figures = profile.stage_figures();
        let mut facts = vec![
            profile.status.to_string(),
            time(profile.duration()),
            plural_rows(profile.output_rows),
        ];
        if stages > 0 {
            facts.push(plural(stages, "stage"));
            facts.push(plural(profile.tasks.len(), "task"));
            facts.push(plural(profile.workers.len(), "worker"));
            facts.push(format!("{} exchanged", bytes(profile.exchanged_bytes())));
        }
        let spilled = total(figures.iter().map(|stage| stage.spilled_bytes));
        if spilled > 0 {
            facts.push(format!("{} spilled", bytes(spilled)));
        }
        facts.join(" · ")
    }

    fn path(&self) -> String {
        let path = self.profile.critical_path();
        let mut steps: Vec<String> = (path.steps.iter())
            .map(|step| {
                let what = match step.task {
                    Some(task) => format!("task {}.{task}", step.stage),
                    None => "coordinator".to_owned(),
                };
                format!("{what} {}", share(step.share))
            })
            .collect();
        let rest = path.rest_ns as f64 / self.profile.duration_ns.max(1) as f64;
        steps.push(format!("other waiting {}", share(rest)));
        steps.join(" <- ")
    }
}

fn plural_rows(rows: u64) -> String {
    match rows {
        1 => "1 row".to_owned(),
        _ => format!("{} rows", count(rows)),
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile;
        for line in wrapped(&profile.verdict(), WIDTH) {
            writeln!(f, "{}", self.painted("1", &line))?;
        }
        for line in wrapped(&self.facts(), WIDTH) {
            writeln!(f, "{line}")?;
        }
        if let Some(trace) = &profile.trace_id {
            writeln!(f, "trace {trace}")?;
        }
        writeln!(f)?;
        tree::write(profile, WIDTH, f)?;
        if profile.stages.len() > 1 {
            writeln!(f, "\n{}", tables::stages(profile, WIDTH))?;
        }
        if profile.duration_ns > 0 && !profile.tasks.is_empty() {
            writeln!(f)?;
            let path = format!("Where the time went: {}", self.path());
            for line in wrapped(&path, WIDTH) {
                writeln!(f, "{line}")?;
            }
        }
        let findings = profile.findings();
        if !findings.is_empty() {
            writeln!(f)?;
        }
        for finding in findings {
            let text = format!("{}: {}", finding.kind, finding.text);
            for (at, line) in wrapped(&text, WIDTH - 2).into_iter().enumerate() {
                let mark = if at == 0 {
                    self.painted("33", "!")
                } else {
                    " ".to_owned()
                };
                writeln!(f, "{mark} {line}")?;
            }
        }
        Ok(())
    }
}

/// Lines of at most so many characters, broken between words where there are some.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(std::mem::replace(&mut word, rest).into_iter().collect());
            // The line that the next word goes on.
            let last = lines.len() - 1;
            lines.swap(last - 1, last);
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.extend(&word);
            used += word.len();
        }
    }
    lines
}

/// At most so many characters, with a sign where something is left out.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_inside_long_ones() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("ab cdefghijk l", 4), ["ab", "cdef", "ghij", "k l"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}

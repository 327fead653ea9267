//! Names of operators, as a bounded attribute.

use std::collections::HashMap;

use opentelemetry::KeyValue;
use parking_lot::RwLock;

use super::instruments::OPERATOR;

/// Distinct names that are told apart: DataFusion has about sixty nodes, and those of users and
/// of third parties get the rest.
const MAX_OPERATORS: usize = 100;

/// What the names that came later are called together.
const OTHER: &str = "other";

/// The first names that come are kept, so that plans cannot make ever more time series.
#[derive(Debug, Default)]
pub(super) struct Operators(RwLock<HashMap<String, KeyValue>>);

impl Operators {
    pub(super) fn attribute(&self, name: &str) -> KeyValue {
        if let Some(known) = self.0.read().get(name) {
            return known.clone();
        }
        let mut known = self.0.write();
        if known.len() >= MAX_OPERATORS && !known.contains_key(name) {
            return KeyValue::new(OPERATOR, OTHER);
        }
        let attribute = || KeyValue::new(OPERATOR, name.to_owned());
        known
            .entry(name.to_owned())
            .or_insert_with(attribute)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_beyond_the_bound_are_one() {
        let operators = Operators::default();
        let many = (0..3 * MAX_OPERATORS).map(|i| operators.attribute(&format!("Exec{i}")));
        let names: HashSet<String> = many.map(|found| found.value.to_string()).collect();
        assert_eq!(names.len(), MAX_OPERATORS + 1);
        assert!(names.contains(OTHER));
        // Those that came first keep their names.
        assert_eq!(operators.attribute("Exec0").value.as_str(), "Exec0");
    }
}

//! The dashboard that comes with Flightpath asks for what the endpoint really has.

use std::collections::{BTreeMap, BTreeSet};

use flightpath_core::{BoundaryKind, Hooks, QueryId};
use serde_json::Value;

use crate::failures::{a_stage, refused};
use crate::support::{FAILING, GROUPS, Measured, SORTED, unsent, within};

const DASHBOARD: &str = include_str!("../../../deploy/grafana/flightpath.json");

/// Labels that Prometheus itself puts on what it scrapes.
const SCRAPED: [&str; 2] = ["instance", "job"];

/// Functions, and words of the query language.
const WORDS: [&str; 6] = ["by", "histogram_quantile", "rate", "sum", "topk", "le"];

fn expressions(panel: &Value, found: &mut Vec<String>) {
    match panel {
        Value::Object(fields) => {
            if let Some(Value::String(expression)) = fields.get("expr") {
                found.push(expression.clone());
            }
            fields.values().for_each(|field| expressions(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// The words of an expression, without its texts and its `[ranges]`.
fn words(expression: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut until = None;
    for letter in expression.chars() {
        match until {
            Some(end) if letter == end => until = None,
            Some(_) => {}
            None if letter == '"' => until = Some('"'),
            None if letter == '[' => until = Some(']'),
            None => plain.push(letter),
        }
    }
    let words = plain.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let starts_as_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    words.filter(starts_as_name).map(str::to_owned).collect()
}

/// Names of the samples in an exposition, with the labels that each has.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut samples: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = samples.entry(name.to_owned()).or_default();
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let pairs = inside.map_or("", |(inside, _)| inside).split(',');
        labels.extend(pairs.filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())));
    }
    samples
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_and_label_in_it_is_served() {
    within(120, async {
        let metrics = unsent();
        let measured = Measured::start(&metrics).await;
        for sql in [GROUPS, SORTED] {
            measured.run(sql).await.0.unwrap();
        }
        assert!(measured.run(FAILING).await.0.is_err());
        refused(&measured).await;
        // No worker is lost here for it.
        let (hooks, query) = (metrics.hooks(), QueryId::new());
        hooks.query_begins(query);
        hooks.stage_begins(query, &a_stage(1), BoundaryKind::Shuffle);
        hooks.query_ends(query, Ok(()));

        let served = samples(&metrics.text().unwrap());
        let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
        let mut all = vec![];
        expressions(&dashboard, &mut all);
        assert!(all.len() >= 10, "{all:?}");
        let mut asked = BTreeSet::new();
        for expression in &all {
            let words = words(expression);
            let is_served = |word: &&String| served.contains_key(*word);
            let [name] = words.iter().filter(is_served).collect::<Vec<_>>()[..] else {
                panic!(
                    "{expression} has no name that is served, or several: {:?}",
                    served.keys()
                );
            };
            for word in &words {
                let known = word == name
                    || WORDS.contains(&word.as_str())
                    || SCRAPED.contains(&word.as_str())
                    || served[name].contains(word);
                assert!(known, "{word} in {expression}: {:?}", served[name]);
            }
            asked.insert(name.clone());
        }
        // And it shows all there is, in one form or another.
        for name in served.keys().filter(|name| name.starts_with("flightpath_")) {
            let family = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            let shown = asked.iter().any(|asked| asked.starts_with(family));
            assert!(shown, "no panel shows {name}");
        }
    })
    .await;
}

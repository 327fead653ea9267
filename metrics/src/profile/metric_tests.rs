use super::*;

fn all(values: &[Value]) -> Vec<Value> {
    let metrics: Vec<Metric> = values
        .iter()
        .enumerate()
        .map(|(partition, value)| Metric {
            name: "m".to_owned(),
            value: value.clone(),
            partition: Some(partition),
            labels: Vec::new(),
            of: MetricKind::Other,
        })
        .collect();
    let merged = merged(&metrics).into_iter();
    merged.map(|metric| metric.value).collect()
}

#[test]
fn each_kind_merges_in_its_own_way() {
    let count = |value| Value::Count { value };
    assert_eq!(all(&[count(1), count(2)]), [count(3)]);
    assert_eq!(all(&[count(u64::MAX), count(2)]), [count(u64::MAX)]);
    let gauge = |value| Value::Gauge { value };
    assert_eq!(all(&[gauge(1), gauge(2)]), [gauge(3)]);
    let time = |ns| Value::Time { ns };
    assert_eq!(all(&[time(1), time(2)]), [time(3)]);
    let start = |unix_ns| Value::Start { unix_ns };
    assert_eq!(
        all(&[start(Some(5)), start(None), start(Some(3))]),
        [start(Some(3))]
    );
    let end = |unix_ns| Value::End { unix_ns };
    assert_eq!(
        all(&[end(None), end(Some(5)), end(Some(3))]),
        [end(Some(5))]
    );
    let pruning = |pruned, matched, fully_matched| Value::Pruning {
        pruned,
        matched,
        fully_matched,
    };
    assert_eq!(
        all(&[pruning(1, 2, 3), pruning(10, 20, 30)]),
        [pruning(11, 22, 33)]
    );
}

#[test]
fn ratios_merge_as_they_say() {
    use RatioMerge::{AddBoth, AddPart, AddTotal};
    let ratio = |part, total, merge| Value::Ratio { part, total, merge };
    assert_eq!(
        all(&[ratio(1, 4, AddBoth), ratio(2, 4, AddBoth)]),
        [ratio(3, 8, AddBoth)]
    );
    assert_eq!(
        all(&[ratio(1, 4, AddPart), ratio(2, 4, AddPart)]),
        [ratio(3, 4, AddPart)]
    );
    assert_eq!(
        all(&[ratio(1, 4, AddTotal), ratio(1, 4, AddTotal)]),
        [ratio(1, 8, AddTotal)]
    );
}

#[test]
fn what_is_of_two_kinds_stays_apart_and_unknown_types_stay_side_by_side() {
    let count = Value::Count { value: 1 };
    let gauge = Value::Gauge { value: 2 };
    assert_eq!(all(&[count.clone(), gauge.clone()]), [count, gauge]);
    let custom = |text: &str| Value::Custom {
        readings: vec![Reading {
            text: text.to_owned(),
            value: 0,
        }],
    };
    let merged = all(&[custom("a"), custom("b")]);
    let [Value::Custom { readings }] = &merged[..] else {
        panic!("{merged:?}");
    };
    assert_eq!(
        readings.iter().map(|r| &*r.text).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(merged[0].number(), None);
}

#[test]
fn labels_keep_metrics_apart() {
    let metric = |label: &str| Metric {
        name: "m".to_owned(),
        value: Value::Count { value: 1 },
        partition: None,
        labels: vec![("file".to_owned(), label.to_owned())],
        of: MetricKind::Rows,
    };
    assert_eq!(merged(&[metric("a"), metric("b"), metric("a")]).len(), 2);
}

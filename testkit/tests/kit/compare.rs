use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr, expressions::col};
use flightpath_testkit::compare::{Tolerance, in_order, same_rows, same_rows_within};
use proptest::prelude::*;

const INEXACT: f64 = 0.1 + 0.2;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn ints(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn floats(values: Vec<Option<f64>>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}

fn texts(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

#[track_caller]
fn same(a: &RecordBatch, b: &RecordBatch) {
    same_rows(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap();
    same_rows(std::slice::from_ref(b), std::slice::from_ref(a)).unwrap();
}

#[track_caller]
fn different(a: &RecordBatch, b: &RecordBatch) -> String {
    same_rows(std::slice::from_ref(b), std::slice::from_ref(a)).unwrap_err();
    let error = same_rows(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap_err();
    error.to_string()
}

#[test]
fn order_of_rows_and_cuts_into_batches_do_not_matter() {
    let a = batch(vec![
        ("a", ints(vec![Some(1), Some(2), None])),
        ("b", texts(vec![None, Some("x"), Some("")])),
    ]);
    let b = batch(vec![
        ("a", ints(vec![None, Some(2), Some(1)])),
        ("b", texts(vec![Some(""), Some("x"), None])),
    ]);
    same(&a, &b);
    same_rows(&[a], &[b.slice(2, 1), b.slice(0, 0), b.slice(0, 2)]).unwrap();
}

#[test]
fn rows_are_counted() {
    let a = batch(vec![("a", ints(vec![Some(1), Some(1), Some(2)]))]);
    let b = batch(vec![("a", ints(vec![Some(1), Some(2), Some(2)]))]);
    let c = batch(vec![("a", ints(vec![Some(1), Some(2)]))]);
    different(&a, &b);
    different(&a, &c);
    same_rows(&[], &[]).unwrap();
    same_rows(&[], std::slice::from_ref(&a)).unwrap_err();
    same_rows(&[a.slice(0, 0)], &[]).unwrap();
}

#[test]
fn a_message_shows_the_first_rows_of_each_side() {
    let a = batch(vec![("a", ints((0..9).map(Some).collect()))]);
    let b = batch(vec![("a", ints(vec![Some(0), Some(70)]))]);
    insta::assert_snapshot!(different(&a, &b), @r"
    expected 9 rows, got 2
    8 missing, the first 5:
    +---+
    | a |
    +---+
    | 1 |
    | 2 |
    | 3 |
    | 4 |
    | 5 |
    +---+
    1 unexpected:
    +----+
    | a  |
    +----+
    | 70 |
    +----+
    ");
}

#[test]
fn names_and_types_matter() {
    let a = batch(vec![("a", ints(vec![Some(1)]))]);
    let b = batch(vec![("b", ints(vec![Some(1)]))]);
    let c = batch(vec![("a", floats(vec![Some(1.0)]))]);
    insta::assert_snapshot!(different(&a, &b), @"columns differ: expected [a Int64], got [b Int64]");
    insta::assert_snapshot!(different(&a, &c), @"columns differ: expected [a Int64], got [a Float64]");
}

#[test]
fn floats_may_differ_in_their_last_digits_only() {
    let of = |value| batch(vec![("x", floats(vec![Some(value)]))]);
    same(&of(0.3), &of(INEXACT));
    same(&of(1e300), &of(1e300 * (1.0 + 1e-12)));
    same(&of(0.0), &of(-0.0));
    same(&of(0.0), &of(1e-13));
    different(&of(0.3), &of(0.3001));
    different(&of(1e300), &of(1.000001e300));
    different(&of(1.0), &of(-1.0));
}

#[test]
fn null_nan_and_infinity_equal_only_themselves() {
    let values = [
        None,
        Some(f64::NAN),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
        Some(f64::MAX),
        Some(0.0),
    ];
    for a in values {
        for b in values {
            let (left, right) = (
                batch(vec![("x", floats(vec![a]))]),
                batch(vec![("x", floats(vec![b]))]),
            );
            if a.map(f64::to_bits) == b.map(f64::to_bits) {
                same(&left, &right);
            } else {
                different(&left, &right);
            }
        }
    }
}

/// Sorted as whole rows, the second floats of these would face each other crosswise.
#[test]
fn last_digits_do_not_decide_which_rows_face_each_other() {
    let a = batch(vec![
        ("x", floats(vec![Some(0.3), Some(INEXACT)])),
        ("y", floats(vec![Some(5.0), Some(3.0)])),
    ]);
    let b = batch(vec![
        ("x", floats(vec![Some(0.3), Some(INEXACT)])),
        ("y", floats(vec![Some(3.0), Some(5.0)])),
    ]);
    same(&a, &b);
}

#[test]
fn single_precision_is_compared_as_such() {
    let of = |value| {
        batch(vec![(
            "x",
            Arc::new(Float32Array::from(vec![value])) as ArrayRef,
        )])
    };
    same(&of(0.1 + 0.2), &of(0.3));
    same(&of(1e9), &of(1e9_f32.next_up()));
    different(&of(0.3), &of(0.30001));
}

#[test]
fn floats_inside_lists_and_structs_are_floats() {
    let list = |values: Vec<Option<Vec<Option<f64>>>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values))
    };
    let of = |values| batch(vec![("l", list(values))]);
    same(
        &of(vec![Some(vec![Some(0.3), None]), None]),
        &of(vec![None, Some(vec![Some(INEXACT), None])]),
    );
    different(
        &of(vec![Some(vec![Some(0.3)])]),
        &of(vec![Some(vec![Some(0.3), Some(0.3)])]),
    );
    different(&of(vec![Some(vec![])]), &of(vec![None]));

    let fields = || {
        vec![
            Field::new("a", DataType::Int64, true),
            Field::new("x", DataType::Float64, true),
        ]
    };
    let of = |a, x| {
        let columns = vec![ints(vec![Some(a)]), floats(vec![Some(x)])];
        batch(vec![(
            "s",
            Arc::new(StructArray::new(fields().into(), columns, None)) as ArrayRef,
        )])
    };
    same(&of(1, 0.3), &of(1, INEXACT));
    different(&of(1, 0.3), &of(2, 0.3));
}

#[test]
fn text_that_runs_together_is_kept_apart() {
    let of = |a, b| {
        batch(vec![
            ("a", texts(vec![Some(a)])),
            ("b", texts(vec![Some(b)])),
        ])
    };
    different(&of("a", "bc"), &of("ab", "c"));
}

#[test]
fn tolerance_can_be_chosen() {
    let of = |value| [batch(vec![("x", floats(vec![Some(value)]))])];
    let tolerance = Tolerance {
        relative: 0.1,
        absolute: 0.0,
    };
    same_rows_within(&of(100.0), &of(109.0), tolerance).unwrap();
    same_rows_within(&of(100.0), &of(120.0), tolerance).unwrap_err();
}

#[test]
fn order_is_checked_by_its_keys_alone() {
    let rows = batch(vec![
        ("a", ints(vec![Some(1), Some(1), Some(2)])),
        ("b", ints(vec![Some(2), Some(1), Some(0)])),
    ]);
    let by = |name| {
        LexOrdering::new([PhysicalSortExpr::new_default(
            col(name, &rows.schema()).unwrap(),
        )])
        .unwrap()
    };
    in_order(&[rows.slice(0, 2), rows.slice(2, 1)], &by("a")).unwrap();
    let error = in_order(std::slice::from_ref(&rows), &by("b"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("rows 0 and 1"), "{error}");
}

proptest! {
    /// Shuffled and disturbed in the last digits: equal. One float changed for good: not.
    #[test]
    fn shuffled_rows_are_equal_and_changed_ones_are_not(
        rows in prop::collection::vec((0i64..3, -4i32..4, -4i32..4), 1..40),
        seed in any::<u64>(),
    ) {
        let build = |rows: &[(i64, f64, f64)]| batch(vec![
            ("a", ints(rows.iter().map(|r| Some(r.0)).collect())),
            ("x", floats(rows.iter().map(|r| Some(r.1)).collect())),
            ("y", floats(rows.iter().map(|r| Some(r.2)).collect())),
        ]);
        let rows: Vec<_> = rows.iter().map(|r| (r.0, f64::from(r.1), f64::from(r.2))).collect();
        let mut other = rows.clone();
        let length = other.len();
        other.rotate_left(seed as usize % length);
        for (at, row) in other.iter_mut().enumerate() {
            row.1 *= 1.0 + 1e-13 * ((seed >> (at % 60)) & 3) as f64;
        }
        same(&build(&rows), &build(&other));
        other[0].2 += 0.5;
        different(&build(&rows), &build(&other));
    }
}

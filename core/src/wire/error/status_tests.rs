use std::mem::discriminant;

use datafusion::common::{Column, SchemaError};
use datafusion::object_store;

use super::super::layer::RemoteError;
use super::super::{decode_error, encode_error, links};
use super::*;

const WORKER: &str = "http://10.0.0.7:50051";

fn origin() -> Origin {
    Origin {
        worker: WORKER.to_owned(),
        stage: 2,
        task: 1,
    }
}

#[test]
fn codes_fit() {
    let denied = std::io::ErrorKind::PermissionDenied;
    let missing = object_store::Error::NotFound {
        path: "a".to_owned(),
        source: RemoteError::boxed("404", None),
    };
    let cases = [
        (DataFusionError::Plan(String::new()), Code::InvalidArgument),
        (
            DataFusionError::ResourcesExhausted(String::new()).context("sorting"),
            Code::ResourceExhausted,
        ),
        (
            DataFusionError::IoError(denied.into()),
            Code::PermissionDenied,
        ),
        (missing.into(), Code::NotFound),
        (DataFusionError::Internal(String::new()), Code::Internal),
        (
            DataFusionError::External(RemoteError::boxed("x", None)),
            Code::Unknown,
        ),
    ];
    for (error, code) in cases {
        assert_eq!(to_status(&error, None).code(), code, "{error}");
    }
}

/// Bytes of a status in HTTP/2 headers.
fn header_bytes(status: &Status) -> usize {
    let headers = status.clone().into_http::<()>().into_parts().0.headers;
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32)
        .sum()
}

#[test]
fn long_errors_are_cut_to_fit_a_status_and_say_so() {
    let long = "ü".repeat(100_000);
    let columns = (0..20_000).map(|n| Column::new(Some("table"), format!("column_{n}")));
    let unknown = SchemaError::FieldNotFound {
        field: Box::new(Column::new_unqualified("x")),
        valid_fields: columns.collect(),
    };
    let deep = DataFusionError::Execution(long.clone());
    let deep = (0..200).fold(deep, |error, _| error.context("y".repeat(1000)));
    let errors = [
        DataFusionError::Execution(long.clone()),
        DataFusionError::Collection(vec![
            DataFusionError::Plan("first".to_owned()),
            DataFusionError::Plan(long),
        ]),
        DataFusionError::SchemaError(Box::new(unknown), Box::new(None)),
        deep,
    ];
    for error in errors {
        let status = to_status(&error, Some(&origin()));
        assert!(header_bytes(&status) < 15_000, "{}", header_bytes(&status));
        let arrived = from_status(status, WORKER);
        let text = arrived.to_string();
        assert!(
            text.starts_with("cut to fit into a gRPC status, "),
            "{text}"
        );
        assert_eq!(origin_of(&arrived), Some(origin()));
        assert_eq!(
            discriminant(arrived.find_root()),
            discriminant(error.find_root())
        );
        // A message has no such limit.
        let whole = decode_error(&encode_error(&error, None));
        assert_eq!(whole.find_root().to_string(), error.find_root().to_string());
    }
}

#[test]
fn an_error_that_just_fits_travels_whole() {
    let error = DataFusionError::Execution("x".repeat(8_000));
    let arrived = from_status(to_status(&error, Some(&origin())), WORKER);
    assert_eq!(arrived.find_root().to_string(), error.to_string());
}

#[test]
fn a_status_without_an_error_is_kept() {
    let error = from_status(Status::unavailable("no route"), WORKER);
    assert_eq!(
        error.to_string(),
        "External error: worker http://10.0.0.7:50051 answered with gRPC status Unavailable \
         (The service is currently unavailable): no route"
    );
    let found = links(&error).find_map(|link| link.downcast_ref::<Status>());
    assert_eq!(found.map(Status::code), Some(Code::Unavailable));
}

#[test]
fn an_error_without_a_task_names_the_worker() {
    let status = to_status(&DataFusionError::Plan("no such function".to_owned()), None);
    assert_eq!(
        from_status(status, WORKER).to_string(),
        "on worker http://10.0.0.7:50051\ncaused by\nError during planning: no such function"
    );
}

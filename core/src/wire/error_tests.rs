use std::mem::discriminant;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, Diagnostic, SchemaError, TableReference};
use datafusion::object_store::{self, path::Path};
use proptest::prelude::*;

use super::*;

const WORKER: &str = "http://10.0.0.7:50051";

fn origin() -> Origin {
    Origin {
        worker: WORKER.to_owned(),
        stage: 2,
        task: 1,
    }
}

fn trip(error: &DataFusionError) -> DataFusionError {
    decode_error(&encode_error(error, Some(&origin())))
}

fn boxed(text: &str) -> GenericError {
    text.into()
}

/// Asserts that an error arrives as it left, by both ways, with its origin around it.
#[track_caller]
fn assert_arrives(error: DataFusionError) {
    let status = to_status(&error, Some(&origin()));
    for arrived in [trip(&error), from_status(status, "http://proxy:1")] {
        let (root, expected) = (arrived.find_root(), error.find_root());
        assert_eq!(root.to_string(), expected.to_string());
        assert_eq!(discriminant(root), discriminant(expected));
        assert_eq!(
            arrived.to_string(),
            format!("{}\ncaused by\n{error}", origin())
        );
        assert_eq!(origin_of(&arrived), Some(origin()));
    }
}

#[test]
fn texts_keep_their_kind() {
    let kinds = [
        DataFusionError::NotImplemented,
        DataFusionError::Internal,
        DataFusionError::Plan,
        DataFusionError::Configuration,
        DataFusionError::Execution,
        DataFusionError::ResourcesExhausted,
        DataFusionError::Substrait,
        DataFusionError::Ffi,
    ];
    for kind in kinds {
        assert_arrives(kind("naïve\ntext".to_owned()));
        assert_arrives(kind(format!(
            "text{}0: main",
            DataFusionError::BACK_TRACE_SEP
        )));
        assert_arrives(kind(String::new()));
    }
}

#[test]
fn arrow_errors_arrive() {
    let text = || "text".to_owned();
    let errors = [
        ArrowError::NotYetImplemented(text()),
        ArrowError::CastError(text()),
        ArrowError::MemoryError(text()),
        ArrowError::ParseError(text()),
        ArrowError::SchemaError(text()),
        ArrowError::ComputeError(text()),
        ArrowError::DivideByZero,
        ArrowError::ArithmeticOverflow(text()),
        ArrowError::CsvError(text()),
        ArrowError::JsonError(text()),
        ArrowError::AvroError(text()),
        ArrowError::IoError(text(), std::io::ErrorKind::BrokenPipe.into()),
        ArrowError::IpcError(text()),
        ArrowError::InvalidArgumentError(text()),
        ArrowError::ParquetError(text()),
        ArrowError::CDataInterface(text()),
        ArrowError::DictionaryKeyOverflowError,
        ArrowError::RunEndIndexOverflowError,
        ArrowError::OffsetOverflowError(7),
        ArrowError::ExternalError(boxed("text")),
    ];
    for error in errors {
        let variant = discriminant(&error);
        let error = DataFusionError::ArrowError(Box::new(error), None);
        match trip(&error).find_root() {
            DataFusionError::ArrowError(arrived, None) => {
                assert_eq!(discriminant(arrived.as_ref()), variant)
            }
            other => panic!("{error:?} arrived as {other:?}"),
        }
        assert_arrives(error);
    }
    let backtrace = format!("{}0: main", DataFusionError::BACK_TRACE_SEP);
    let error = Box::new(ArrowError::DivideByZero);
    assert_arrives(DataFusionError::ArrowError(error, Some(backtrace)));
}

#[test]
fn the_root_below_arrow_is_the_root() {
    let inner = DataFusionError::ResourcesExhausted("64 MB".to_owned()).context("sorting");
    let arrow = ArrowError::ExternalError(Box::new(inner));
    let error = DataFusionError::ArrowError(Box::new(arrow), None);
    assert!(matches!(
        trip(&error).find_root(),
        DataFusionError::ResourcesExhausted(_)
    ));
    assert_arrives(error);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_errors_arrive() {
    use datafusion::parquet::errors::ParquetError;
    let text = || "text".to_owned();
    let errors = [
        ParquetError::General(text()),
        ParquetError::NYI(text()),
        ParquetError::EOF(text()),
        ParquetError::ArrowError(text()),
        ParquetError::IndexOutOfBound(3, 2),
        ParquetError::NeedMoreData(5),
        ParquetError::NeedMoreDataRange(5..9),
        ParquetError::External(boxed("text")),
        ParquetError::External(Box::new(DataFusionError::Plan(text()))),
    ];
    for error in errors {
        assert_arrives(DataFusionError::ParquetError(Box::new(error)));
    }
}

#[test]
fn object_store_errors_arrive() {
    use object_store::Error;
    let path = || "data/part-1.parquet".to_owned();
    let source = || boxed("HTTP 4xx");
    let errors = [
        Error::Generic {
            store: "S3",
            source: source(),
        },
        Error::NotFound {
            path: path(),
            source: source(),
        },
        Error::AlreadyExists {
            path: path(),
            source: source(),
        },
        Error::Precondition {
            path: path(),
            source: source(),
        },
        Error::NotModified {
            path: path(),
            source: source(),
        },
        Error::PermissionDenied {
            path: path(),
            source: source(),
        },
        Error::Unauthenticated {
            path: path(),
            source: source(),
        },
        Error::NotSupported { source: source() },
        Error::NotImplemented {
            operation: "copy".to_owned(),
            implementer: "Mine".to_owned(),
        },
        Error::UnknownConfigurationKey {
            store: "GCS",
            key: "key".to_owned(),
        },
        Path::parse("a//b").unwrap_err().into(),
        Path::parse("a/../b").unwrap_err().into(),
    ];
    for error in errors {
        let variant = discriminant(&error);
        let error = DataFusionError::ObjectStore(Box::new(error));
        match trip(&error).find_root() {
            DataFusionError::ObjectStore(arrived) => {
                assert_eq!(discriminant(arrived.as_ref()), variant)
            }
            other => panic!("{error:?} arrived as {other:?}"),
        }
        assert_arrives(error);
    }
}

#[test]
fn an_unknown_object_store_keeps_its_text() {
    let error = object_store::Error::Generic {
        store: "Mine",
        source: boxed("no"),
    };
    let arrived = trip(&error.into());
    assert_eq!(
        arrived.find_root().to_string(),
        "Object Store error: Generic remote error: Generic Mine error: no"
    );
}

#[test]
fn io_errors_keep_their_kind() {
    use std::io::{Error, ErrorKind};
    assert_arrives(DataFusionError::IoError(ErrorKind::UnexpectedEof.into()));
    assert_arrives(DataFusionError::IoError(Error::from_raw_os_error(2)));
    let error = DataFusionError::IoError(Error::new(ErrorKind::StorageFull, "disk 7"));
    match trip(&error).find_root() {
        DataFusionError::IoError(arrived) => assert_eq!(arrived.kind(), ErrorKind::StorageFull),
        other => panic!("arrived as {other:?}"),
    }
    assert_arrives(error);
    // An io::Error hides what it holds from `find_root`, before and after.
    let hidden = DataFusionError::Plan("hidden".to_owned());
    assert_arrives(DataFusionError::IoError(Error::other(hidden)));
}

#[test]
fn schema_errors_arrive() {
    let full = TableReference::full("c", "S", "t");
    let partial = TableReference::partial("s", "t");
    let field = |relation, name: &str| Box::new(Column::new(relation, name));
    let errors = [
        SchemaError::AmbiguousReference {
            field: field(None::<TableReference>, "a"),
        },
        SchemaError::AmbiguousReference {
            field: field(Some(partial.clone()), "a"),
        },
        SchemaError::DuplicateQualifiedField {
            qualifier: Box::new(full.clone()),
            name: "A".to_owned(),
        },
        SchemaError::DuplicateUnqualifiedField {
            name: "a.b".to_owned(),
        },
        SchemaError::FieldNotFound {
            field: field(Some("t".into()), "id"),
            valid_fields: vec![
                Column::new(Some(full), "ID"),
                Column::new(Some(partial), "idx"),
                Column::new_unqualified("b"),
            ],
        },
    ];
    for error in errors {
        assert_arrives(DataFusionError::SchemaError(
            Box::new(error),
            Box::new(Some(String::new())),
        ));
    }
}

#[cfg(feature = "sql")]
#[test]
fn parser_errors_arrive() {
    use datafusion::logical_expr::sqlparser::parser::ParserError;
    let errors = [
        ParserError::TokenizerError("text".to_owned()),
        ParserError::ParserError("text".to_owned()),
        ParserError::RecursionLimitExceeded,
    ];
    for error in errors {
        assert_arrives(DataFusionError::SQL(Box::new(error), None));
    }
}

#[test]
fn external_errors_keep_text_and_causes() {
    assert_arrives(DataFusionError::External(boxed("text")));
    let root = || DataFusionError::Execution("root".to_owned());
    assert_arrives(DataFusionError::External(Box::new(root())));
    assert_arrives(DataFusionError::External(Box::new(Arc::new(root()))));
    let other = std::fmt::Error;
    assert_arrives(DataFusionError::External(Box::new(other)).context("formatting"));
}

#[test]
fn wrappers_that_display_nothing_are_left_out() {
    let root = || DataFusionError::Plan("root".to_owned());
    assert_arrives(DataFusionError::Shared(Arc::new(root().context("shared"))));
    assert_arrives(root().with_diagnostic(Diagnostic::new_error("here", None)));
}

#[test]
fn collections_keep_all_their_errors() {
    let of = |text: &str| DataFusionError::Execution(text.to_owned());
    let nested = DataFusionError::Collection(vec![of("c"), of("d")]);
    let error = DataFusionError::Collection(vec![of("a"), of("b").context("x"), nested]);
    let arrived = decode_error(&encode_error(&error, None));
    let texts = |error: &DataFusionError| error.iter().map(|e| e.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&arrived), texts(&error));
    assert_arrives(error);
}

#[tokio::test]
async fn a_panic_of_a_task_arrives_as_an_execution_error() {
    let joined = tokio::spawn(async { panic!("boom") }).await;
    let error = DataFusionError::ExecutionJoin(Box::new(joined.unwrap_err()));
    match trip(&error).find_root() {
        DataFusionError::Execution(text) => assert_eq!(*text, error.message()),
        other => panic!("arrived as {other:?}"),
    }
}

#[test]
fn the_first_origin_stays_the_only_one() {
    let error = DataFusionError::Execution("x".to_owned()).context("reading");
    let consumer = Origin {
        worker: "http://10.0.0.8:50051".to_owned(),
        stage: 3,
        task: 0,
    };
    let once = trip(&error);
    let twice = decode_error(&encode_error(&once, Some(&consumer)));
    assert_eq!(twice.to_string(), once.to_string());
    assert_eq!(origin_of(&twice), Some(origin()));
    let status = to_status(&twice, Some(&consumer));
    assert_eq!(status.message(), once.to_string());
    assert_eq!(from_status(status, WORKER).to_string(), once.to_string());
    // Seen through boxes as well, and never guessed.
    let boxed = DataFusionError::External(Box::new(Arc::new(once)));
    assert_eq!(origin_of(&boxed), Some(origin()));
    assert_eq!(origin_of(&error), None);
}

#[test]
fn origins_can_be_read() {
    let text = origin().to_string();
    assert_eq!(text, "task 2.1 on worker http://10.0.0.7:50051");
    assert_eq!(text.parse(), Ok(origin()));
    for text in ["", "task", "task 2 on worker x", "task a.b on worker x"] {
        assert!(text.parse::<Origin>().is_err(), "{text}");
    }
}

#[test]
fn very_long_chains_keep_their_root() {
    let root = DataFusionError::ResourcesExhausted("root".to_owned());
    let error = (0..100_000).fold(root, |error, n| error.context(format!("{n}")));
    let arrived = trip(&error);
    assert_eq!(arrived.find_root().to_string(), "Resources exhausted: root");
    assert_eq!(origin_of(&arrived), Some(origin()));
    // Dropping a chain recurses, and this one would not fit into the stack of a test.
    std::mem::forget(error);
}

#[test]
fn unreadable_bytes_are_an_error_that_says_so() {
    for bytes in [&b""[..], b"\xff\xff", b"hello"] {
        let text = decode_error(bytes).to_string();
        assert!(text.contains("could not be read"), "{text}");
    }
}

#[test]
fn bytes_cannot_build_a_chain_of_any_length() {
    let layers = vec![Layer::new("DataFusionError::Context"); 1_000_000];
    let error = decode_error(&Failure { layers }.encode_to_vec());
    assert!(links(&error).count() < 100);
}

/// Layers of every kind with contents that make no sense.
fn any_failure() -> impl Strategy<Value = Failure> {
    let family = prop::sample::select(vec![
        "DataFusionError",
        "ArrowError",
        "ParquetError",
        "ObjectStoreError",
        "SchemaError",
        "ParserError",
        "IoError",
        "Other",
    ]);
    let variant = prop::sample::select(vec![
        "ArrowError",
        "AmbiguousReference",
        "Collection",
        "Context",
        "DuplicateQualifiedField",
        "External",
        "FieldNotFound",
        "Generic",
        "IndexOutOfBound",
        "InvalidPath",
        "IoError",
        "NeedMoreDataRange",
        "NotFound",
        "ObjectStore",
        "OffsetOverflowError",
        "ParquetError",
        "SchemaError",
        "SQL",
        "",
    ]);
    let texts = prop::collection::vec(".{0,8}", 0..4);
    let numbers = prop::collection::vec(any::<u64>(), 0..4);
    let layer =
        (family, variant, texts, numbers).prop_map(|(family, variant, texts, numbers)| Layer {
            kind: format!("{family}::{variant}"),
            texts,
            numbers,
            others: vec![Failure::default()],
        });
    prop::collection::vec(layer, 0..6).prop_map(|layers| Failure { layers })
}

proptest! {
    #[test]
    fn any_bytes_decode_to_some_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_error(&bytes).to_string();
    }

    #[test]
    fn any_layers_decode_to_an_error_that_arrives_again(failure in any_failure()) {
        let error = decode_error(&failure.encode_to_vec());
        let again = decode_error(&encode_error(&error, None));
        prop_assert_eq!(again.to_string(), error.to_string());
        let status = to_status(&error, Some(&origin()));
        let _ = from_status(status, WORKER).to_string();
    }
}

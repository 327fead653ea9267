//! What command-line programs say besides their results.

use datafusion::common::DataFusionError;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Shows events from `level` up on stderr, where they do not mix with results.
///
/// `RUST_LOG` says otherwise, as a list such as `warn,flightpath_core=debug`. Once per process.
pub fn init_logging(level: LevelFilter) {
    let usual = Targets::new().with_default(level);
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = match asked.parse::<Targets>() {
        _ if asked.is_empty() => usual,
        Ok(targets) => targets,
        Err(error) => {
            eprintln!("RUST_LOG is ignored: {error}");
            usual
        }
    };
    tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
        .with(filter)
        .init();
}

/// Ends the process with what went wrong on stderr and the exit code 1, if something did.
pub fn exit_on_error(outcome: Result<(), DataFusionError>) {
    if let Err(error) = outcome {
        eprintln!("error: {}", explain(&error));
        std::process::exit(1);
    }
}

/// An error in one line for people: what was being done, then why it failed, without a backtrace
/// and without kinds such as "Execution error" that say nothing.
pub fn explain(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Context(doing, cause) => format!("{doing}: {}", explain(cause)),
        DataFusionError::Diagnostic(_, cause) => explain(cause),
        DataFusionError::Shared(cause) => explain(cause),
        DataFusionError::Execution(text) => {
            match text.split_once(DataFusionError::BACK_TRACE_SEP) {
                Some((text, _)) => text.to_string(),
                None => text.clone(),
            }
        }
        DataFusionError::Configuration(text) => text.clone(),
        DataFusionError::SQL(cause, _) => cause.to_string(),
        DataFusionError::IoError(cause) => cause.to_string(),
        DataFusionError::External(cause) => cause.to_string(),
        other => other.strip_backtrace(),
    }
}

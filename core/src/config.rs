//! Every value that planning and execution use: `flightpath.*` in `SET` and `SHOW`.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ExtensionOptions, Visit,
};
use datafusion::common::{
    DataFusionError, Result, config_datafusion_err, config_err, config_namespace,
};
use datafusion::config::ConfigOptions;

use crate::model::trace::{TraceDetail, TraceOptions};

config_namespace! {
    /// Settings of Flightpath, under the prefix `flightpath`.
    pub struct FlightpathConfig {
        /// Whether queries are distributed at all.
        pub enabled: bool, default = true

        /// Tasks of a stage. 0 means one for each worker that the resolver knows.
        pub tasks_per_stage: usize, default = 0

        /// Largest in-memory table that travels inside plans, in bytes (32 MiB). With a larger one
        /// the query stays local: sending the table would cost more than it saves.
        pub max_inline_bytes: usize, default = 33_554_432

        /// Largest encoded plan of one task, in bytes (64 MiB: a scan of 100,000 files fits).
        pub max_plan_bytes: usize, default = 67_108_864

        /// Largest message of a data stream, in bytes (1 GiB). Batches are cut by rows well below
        /// it, so only a single row that is larger meets it.
        pub max_message_bytes: usize, default = 1_073_741_824

        /// Bytes that a data stream may hold between its producer and a consumer that does not
        /// read (1 MiB): the HTTP/2 window of each stream.
        pub stream_buffer_bytes: usize, default = 1_048_576

        /// Compression of batches on the network: none, lz4 or zstd. On the largest tables of TPC-H
        /// lz4 leaves 36% of the bytes for about 1.2 s of CPU time per GB, and zstd 21% for 3.1 s:
        /// lz4 pays up to about 4 Gbit/s per core that sends, and zstd only below 0.6 Gbit/s.
        pub compression: Compression, default = Compression::Lz4

        /// How long to wait for a connection to a worker and its greeting, such as 500ms or 5s.
        pub connect_timeout: Timeout, default = Timeout::seconds(5)

        /// How long a worker may give no sign of life before it counts as lost.
        pub worker_timeout: Timeout, default = Timeout::seconds(10)

        /// How long to wait for the reports of tasks once the query itself has ended.
        pub metrics_timeout: Timeout, default = Timeout::seconds(5)

        /// Down to which level a trace has spans: query, stage, task, operator or rpc.
        pub trace_detail: TraceDetail, default = TraceDetail::Operator

        /// How many spans of operators and requests a query may have; tasks above that have only
        /// their own span. Few queries come near it, and viewers show no more well.
        pub trace_span_budget: usize, default = 10_000

        /// Whether traces show the SQL of queries, and their nodes as EXPLAIN does. Off because
        /// both hold literals of the query.
        pub trace_sql: bool, default = false

        /// How many rows of each node's output traces show. None, because rows are data that
        /// would leave the workers.
        pub trace_preview_rows: usize, default = 0
    }
}

impl FlightpathConfig {
    /// The settings of a session; the defaults where it has not registered any.
    pub fn of(options: &ConfigOptions) -> Self {
        options.extensions.get().cloned().unwrap_or_default()
    }

    /// What traces show.
    pub fn trace_options(&self) -> TraceOptions {
        TraceOptions {
            detail: self.trace_detail,
            sql: self.trace_sql,
            preview_rows: self.trace_preview_rows,
        }
    }
}

impl ConfigExtension for FlightpathConfig {
    const PREFIX: &'static str = "flightpath";
}

impl ExtensionOptions for FlightpathConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        ConfigField::set(self, key, value).map_err(|error| {
            let name = format!("{}.{key}", Self::PREFIX);
            let known = self.entries();
            let Some(setting) = known.iter().find(|known| known.key == name) else {
                let known: Vec<_> = known.iter().map(|known| known.key.as_str()).collect();
                let known = known.join(", ");
                return config_datafusion_err!("{name} is no setting; known are {known}");
            };
            let what = setting.description.split_once(". ");
            let what = what.map_or(setting.description, |(first, _)| first);
            error.context(format!(
                "{name} cannot be {value:?} ({})",
                what.trim().trim_end_matches('.')
            ))
        })
    }

    /// With the prefix in each key, which is how `SHOW` looks for them.
    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries(vec![]);
        self.visit(&mut entries, Self::PREFIX, "");
        entries.0
    }
}

struct Entries(Vec<ConfigEntry>);

impl Visit for Entries {
    fn some<V: fmt::Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.0.push(ConfigEntry {
            key: key.to_string(),
            value: Some(value.to_string()),
            description,
        });
    }

    fn none(&mut self, key: &str, description: &'static str) {
        self.0.push(ConfigEntry {
            key: key.to_string(),
            value: None,
            description,
        });
    }
}

/// How batches are compressed on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4 frames.
    #[default]
    Lz4,
    /// Zstandard.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl FromStr for Compression {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            _ => config_err!("flightpath.compression is none, lz4 or zstd, not {text:?}"),
        }
    }
}

impl ConfigField for Compression {
    fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
        v.some(key, self, description);
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        *self = value.parse()?;
        Ok(())
    }
}

/// A length of time as a setting, written with its unit: `500ms`, `10s`, `2m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeout(pub Duration);

impl Timeout {
    /// This many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl FromStr for Timeout {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match humantime::parse_duration(text) {
            Ok(duration) if !duration.is_zero() => Ok(Self(duration)),
            _ => config_err!("expected a time above zero, such as 500ms or 10s, found {text:?}"),
        }
    }
}

impl ConfigField for Timeout {
    fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
        v.some(key, self, description);
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        *self = value.parse()?;
        Ok(())
    }
}

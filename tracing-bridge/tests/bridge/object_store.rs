//! Spans that object stores of users open on workers.

use std::fmt;
use std::sync::Arc;

use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{FlightpathConfig, SessionStateBuilderExt, TraceDetail};
use flightpath_testkit::Cluster;
use flightpath_tracing_bridge::TracedSql;
use futures::stream::BoxStream;
use tracing::Instrument;

use super::collector::{Trace, caller, collector};
use super::traces::{ended, hooks};

const URL: &str = "traced://store";

const READ: &str = "read from the store";

/// Files in memory; each read by a worker is a span.
#[derive(Debug)]
struct TracedStore(Arc<InMemory>);

impl fmt::Display for TracedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TracedStore")
    }
}

#[async_trait::async_trait]
impl ObjectStore for TracedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let span = tracing::info_span!(READ);
        self.0.get_opts(location, options).instrument(span).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

fn environment(store: Arc<dyn ObjectStore>) -> Arc<RuntimeEnv> {
    let environment = RuntimeEnv::default();
    environment.register_object_store(&URL.try_into().unwrap(), store);
    Arc::new(environment)
}

/// Two workers that read from such a store, and a session that reads from the same files.
async fn reading(detail: TraceDetail) -> (Cluster, SessionContext) {
    let files = Arc::new(InMemory::new());
    for part in 0..4 {
        let path = Path::from(format!("t/{part}.csv"));
        files.put(&path, "g,v\n1,2\n3,4\n".into()).await.unwrap();
    }
    let traced = Arc::new(TracedStore(Arc::clone(&files)));
    let configure = move |builder: flightpath_core::WorkerBuilder| {
        let session = SessionStateBuilder::new()
            .with_default_features()
            .with_runtime_env(environment(traced.clone()))
            .build();
        builder.with_session_state(session).with_hooks(hooks())
    };
    let cluster = Cluster::start_with(2, configure).await.unwrap();
    let settings = FlightpathConfig {
        trace_detail: detail,
        ..Default::default()
    };
    let config = SessionConfig::new()
        .with_target_partitions(4)
        .with_option_extension(settings);
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(environment(files))
        .with_flightpath(cluster.coordinator().unwrap().with_hooks(hooks()))
        .build();
    let ctx = SessionContext::new_with_state(state);
    let options = ListingOptions::new(Arc::new(CsvFormat::default())).with_file_extension("csv");
    let url = format!("{URL}/t/");
    ctx.register_listing_table("t", url, options, None, None)
        .await
        .unwrap();
    (cluster, ctx)
}

async fn trace_of(detail: TraceDetail, complete: impl Fn(&Trace) -> bool) -> Trace {
    let collector = collector();
    let (cluster, ctx) = reading(detail).await;
    let (root, id) = caller();
    let rows = async {
        let frame = ctx.traced_sql("SELECT g, sum(v) FROM t GROUP BY g").await;
        frame.unwrap().count().await.unwrap()
    };
    assert_eq!(rows.instrument(root).await, 2);
    cluster.stop().await.unwrap();
    collector.trace(id, complete).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_below_the_scan_that_makes_them() {
    let trace = trace_of(TraceDetail::Operator, |trace| ended(trace, "caller")).await;
    let reads = trace.named(READ);
    assert!(reads.len() >= 4, "{}", trace.draw());
    for read in reads {
        assert_eq!(
            read.parent().unwrap().name,
            "DataSourceExec",
            "{}",
            trace.draw()
        );
        assert!(read.above("task").is_ok(), "{}", trace.draw());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_task_is_shown_its_reads_were_traces_of_their_own() {
    let whole = |trace: &Trace| trace.is_complete() && trace.root("caller").is_ok();
    let trace = trace_of(TraceDetail::Stage, whole).await;
    assert!(trace.named(READ).is_empty(), "{}", trace.draw());
    let all = collector().sent().await.traces();
    let alone = all.iter().find(|trace| trace.root(READ).is_ok());
    assert!(alone.is_none(), "{}", alone.unwrap().draw());
}

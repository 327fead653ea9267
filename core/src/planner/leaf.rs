//! Leaves: into how many partitions they can be cut, and the share of one task.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::{Result, internal_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    CsvSource, FileGroup, FileScanConfig, FileScanConfigBuilder,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::config::FlightpathConfig;
use crate::wire::compact::weigh_batch;

/// Cuts leaves of some type into shares, one for each task.
///
/// For user-defined leaves; files and in-memory tables come built in. A leaf that nobody can cut
/// runs in one task. [`expand`](Self::expand) is optional and there for speed only.
pub trait LeafSplitter: Debug + Send + Sync {
    /// Whether this splitter knows such a leaf. Of the first that does, the other methods are
    /// called.
    fn splits(&self, leaf: &dyn ExecutionPlan) -> bool;

    /// The same leaf with up to `partitions` partitions, if it can have more than it has.
    ///
    /// # Errors
    /// If the leaf must not be sent at all; the query then runs locally and the message is the
    /// reason.
    fn expand(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        _partitions: usize,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(leaf))
    }

    /// A leaf of exactly `ceil(partitions / tasks)` partitions: number `p` is partition
    /// `p * tasks + task` of `leaf`, or empty where `leaf` has no such partition.
    ///
    /// # Errors
    /// If it cannot be built.
    fn narrow(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        task: usize,
        tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>>;
}

/// The user's splitters, then the built-in ones.
#[derive(Clone, Debug)]
pub(crate) struct LeafSplitters(Vec<Arc<dyn LeafSplitter>>);

impl LeafSplitters {
    pub(crate) fn new(user: &[Arc<dyn LeafSplitter>]) -> Self {
        let mut all = user.to_vec();
        all.push(Arc::new(FileSplitter));
        all.push(Arc::new(MemorySplitter));
        Self(all)
    }

    pub(crate) fn find(&self, leaf: &dyn ExecutionPlan) -> Option<&Arc<dyn LeafSplitter>> {
        self.0.iter().find(|splitter| splitter.splits(leaf))
    }

    pub(crate) fn narrow(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        task: usize,
        tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(splitter) = self.find(leaf.as_ref()) else {
            return internal_err!("nothing can cut {} into shares", leaf.name());
        };
        let share = splitter.narrow(leaf, task, tasks)?;
        let expected = leaf.output_partitioning().partition_count().div_ceil(tasks);
        let found = share.output_partitioning().partition_count();
        if found != expected {
            return internal_err!(
                "a share of {} must have {expected} partitions, and {splitter:?} made {found}",
                leaf.name()
            );
        }
        Ok(share)
    }
}

/// Deals `items` out: task `task` gets every `tasks`-th, padded so that all get equally many.
fn share<T: Clone>(items: &[T], task: usize, tasks: usize, empty: impl Fn() -> T) -> Vec<T> {
    (0..items.len().div_ceil(tasks))
        .map(|p| items.get(p * tasks + task).cloned().unwrap_or_else(&empty))
        .collect()
}

fn rebuilt(
    leaf: &Arc<dyn ExecutionPlan>,
    source: Arc<dyn datafusion::datasource::source::DataSource>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match leaf.downcast_ref::<DataSourceExec>() {
        // A new source has a queue of its own, so tasks in one process do not share work.
        Some(scan) => Ok(Arc::new(scan.clone().with_data_source(source))),
        None => internal_err!("{} is no DataSourceExec", leaf.name()),
    }
}

fn source_of<T: datafusion::datasource::source::DataSource>(
    leaf: &dyn ExecutionPlan,
) -> Option<&T> {
    leaf.downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<T>()
}

/// Scans of files.
#[derive(Debug)]
struct FileSplitter;

impl LeafSplitter for FileSplitter {
    fn splits(&self, leaf: &dyn ExecutionPlan) -> bool {
        source_of::<FileScanConfig>(leaf).is_some()
    }

    fn expand(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        partitions: usize,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(scan) = source_of::<FileScanConfig>(leaf.as_ref()) else {
            return Ok(Arc::clone(leaf));
        };
        check_fields_survive(scan)?;
        if scan.output_partitioning.is_some() {
            // Whole groups keep the claim true, but not the count of partitions that it names:
            // dealt out to tasks, the leaf claims nothing.
            let unclaimed = FileScanConfigBuilder::from(scan.clone())
                .with_output_partitioning(None)
                .build();
            return rebuilt(leaf, Arc::new(unclaimed));
        }
        if let Some(more) = leaf.repartitioned(partitions, options)? {
            return Ok(more);
        }
        // Too small to be cut within files, which still can be dealt out whole.
        let files: Vec<_> = scan.file_groups.iter().flat_map(FileGroup::iter).collect();
        if scan.file_groups.len() >= partitions
            || files.len() <= scan.file_groups.len()
            || !scan.output_ordering.is_empty()
        {
            return Ok(Arc::clone(leaf));
        }
        let files = FileGroup::new(files.into_iter().cloned().collect());
        let dealt = FileScanConfigBuilder::from(scan.clone())
            .with_file_groups(files.split_files(partitions))
            .build();
        rebuilt(leaf, Arc::new(dealt))
    }

    fn narrow(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        task: usize,
        tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(scan) = source_of::<FileScanConfig>(leaf.as_ref()) else {
            return internal_err!("{} is no scan of files", leaf.name());
        };
        let groups = share(&scan.file_groups, task, tasks, || FileGroup::new(vec![]));
        let narrowed = FileScanConfigBuilder::from(scan.clone())
            .with_file_groups(groups)
            .with_statistics(scan.statistics().to_inexact())
            .build();
        rebuilt(leaf, Arc::new(narrowed))
    }
}

/// Refuses scans of which datafusion-proto loses a part that changes their rows.
fn check_fields_survive(scan: &FileScanConfig) -> Result<()> {
    let source = scan.file_source();
    let kind = source.file_type();
    if scan.file_compression_type != FileCompressionType::UNCOMPRESSED {
        return plan_err!("the compression of {kind} files is lost in encoding");
    }
    if source
        .downcast_ref::<CsvSource>()
        .is_some_and(|csv| csv.terminator().is_some())
    {
        return plan_err!("the line terminator of csv files is lost in encoding");
    }
    if scan.preserve_order {
        return plan_err!("the order of a scan of {kind} files is lost in encoding");
    }
    if scan.expr_adapter_factory.is_some() {
        return plan_err!("the expression adapter of a scan of {kind} files cannot be encoded");
    }
    let extended =
        |file: &datafusion::datasource::listing::PartitionedFile| !file.extensions.is_empty();
    if scan
        .file_groups
        .iter()
        .flat_map(FileGroup::iter)
        .any(extended)
    {
        return plan_err!("extensions of {kind} files (such as access plans) cannot be encoded");
    }
    Ok(())
}

/// In-memory tables.
#[derive(Debug)]
struct MemorySplitter;

impl LeafSplitter for MemorySplitter {
    fn splits(&self, leaf: &dyn ExecutionPlan) -> bool {
        source_of::<MemorySourceConfig>(leaf).is_some()
    }

    fn expand(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        partitions: usize,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(table) = source_of::<MemorySourceConfig>(leaf.as_ref()) else {
            return Ok(Arc::clone(leaf));
        };
        let limit = FlightpathConfig::of(options).max_inline_bytes;
        let bytes: usize = table
            .partitions()
            .iter()
            .flatten()
            .map(|batch| {
                let weight = weigh_batch(batch);
                weight.rows + weight.dictionary
            })
            .sum();
        if bytes > limit {
            return plan_err!(
                "an in-memory table of {bytes} bytes is above flightpath.max_inline_bytes = {limit}"
            );
        }
        if table.projection().is_some() && !table.sort_information().is_empty() {
            return plan_err!("the order of a projected in-memory table is lost in encoding");
        }
        Ok(leaf
            .repartitioned(partitions, options)?
            .unwrap_or_else(|| Arc::clone(leaf)))
    }

    fn narrow(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        task: usize,
        tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(table) = source_of::<MemorySourceConfig>(leaf.as_ref()) else {
            return internal_err!("{} is no in-memory table", leaf.name());
        };
        let partitions = share(table.partitions(), task, tasks, Vec::new);
        let mut narrowed = MemorySourceConfig::try_new(
            &partitions,
            table.original_schema(),
            table.projection().clone(),
        )?
        .with_show_sizes(table.show_sizes())
        .with_limit(leaf.fetch());
        if !table.sort_information().is_empty() {
            narrowed = narrowed.try_with_sort_information(table.sort_information().to_vec())?;
        }
        rebuilt(leaf, Arc::new(narrowed))
    }
}

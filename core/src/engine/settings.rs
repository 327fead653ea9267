//! Session settings on their way to workers.

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::prelude::SessionConfig;
use std::collections::HashMap;

use super::proto::Setting;
use crate::config::FlightpathConfig;

/// What a worker needs to answer as the coordinator would: every option that is not at its
/// default, and all of the registered extensions.
pub(crate) fn collect(options: &ConfigOptions) -> Vec<Setting> {
    let defaults: HashMap<String, Option<String>> = ConfigOptions::default()
        .entries()
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    let own = options
        .entries()
        .into_iter()
        .filter(|entry| {
            defaults
                .get(&entry.key)
                .is_some_and(|value| *value != entry.value)
        })
        .map(|entry| (entry.key, entry.value));
    let extensions = options.extensions.iter().flat_map(|(prefix, extension)| {
        let entries = extension.entries().into_iter();
        entries.map(move |entry| (prefixed(prefix, entry.key), entry.value))
    });
    own.chain(extensions)
        .filter_map(|(key, value)| Some(Setting { key, value: value? }))
        .collect()
}

/// The key under which an option of an extension is set: most extensions leave the prefix out of
/// the keys that they list.
fn prefixed(prefix: &str, key: String) -> String {
    match key.strip_prefix(prefix) {
        Some(rest) if rest.starts_with('.') => key,
        _ => format!("{prefix}.{key}"),
    }
}

/// `context` with another config, for a task if `task_id` is given.
pub(crate) fn derived(
    context: &TaskContext,
    config: SessionConfig,
    task_id: Option<String>,
) -> TaskContext {
    TaskContext::new(
        task_id.or_else(|| context.task_id()),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}

/// Applies what [`collect`] found.
///
/// # Errors
/// If this worker's DataFusion does not know an option. Extensions it does not know it leaves
/// out: nothing here could read them.
pub(crate) fn apply(settings: &[Setting], options: &mut ConfigOptions) -> Result<()> {
    if options.extensions.get::<FlightpathConfig>().is_none() {
        options.extensions.insert(FlightpathConfig::default());
    }
    for Setting { key, value } in settings {
        let known = key.starts_with("datafusion.") || key.starts_with("flightpath.");
        match options.set(key, value) {
            Err(error) if known => {
                return Err(error.context(format!("setting {key} of the coordinator")));
            }
            Err(error) => tracing::debug!(key, %error, "a setting is unknown here"),
            Ok(()) => {}
        }
    }
    Ok(())
}

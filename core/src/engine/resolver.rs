//! Which workers there are.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::config_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use parking_lot::RwLock;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};
use url::{Host, Url};

/// How long an answer of the name service may take; its own limits are often far longer.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Tells the planner which workers there are at this moment.
///
/// Rules of the optimizer ask, and they are synchronous: an answer is a snapshot, given at once.
/// What takes time, such as asking a name service, happens behind it.
pub trait WorkerResolver: fmt::Debug + Send + Sync {
    /// URLs of the workers, without doubles; none if queries should run locally.
    ///
    /// Keep the order from one call to the next, so that the same tasks go to the same workers.
    fn workers(&self) -> Result<Vec<Url>>;
}

/// Workers that are known from the start.
#[derive(Clone, Debug, Default)]
pub struct StaticWorkers {
    urls: Vec<Url>,
}

impl StaticWorkers {
    /// Takes URLs such as `http://10.0.0.7:50051`, in this order; doubles are left out.
    ///
    /// An empty list is fine: it means that there are no workers.
    pub fn new(urls: impl IntoIterator<Item: AsRef<str>>) -> Result<Self> {
        let mut workers = Self::default();
        for url in urls {
            let url = parse(url.as_ref())?;
            if !workers.urls.contains(&url) {
                workers.urls.push(url);
            }
        }
        Ok(workers)
    }
}

impl WorkerResolver for StaticWorkers {
    fn workers(&self) -> Result<Vec<Url>> {
        Ok(self.urls.clone())
    }
}

/// Workers behind one DNS name, one for each of its addresses, as a headless Kubernetes service
/// has them.
///
/// The name is asked for again and again until this is dropped. While that fails, the last good
/// answer stays. Workers are known by their addresses, so with `https` it is those that their
/// certificates must be valid for.
#[derive(Debug)]
pub struct DnsWorkers {
    name: Url,
    snapshot: Arc<Snapshot>,
    /// Ends when dropped.
    _refresh: SpawnedTask<()>,
}

impl DnsWorkers {
    /// Resolves the host of a URL such as `http://workers.example:50051` now, which must succeed,
    /// and then every `refresh`.
    pub async fn new(url: &str, refresh: Duration) -> Result<Self> {
        if refresh.is_zero() {
            return Err(config_datafusion_err!(
                "workers of {url} cannot be refreshed every 0 s: expected a longer time"
            ));
        }
        let name = parse(url)?;
        let first = resolve(&name).await.map_err(|error| {
            DataFusionError::IoError(error).context(format!("looking for workers at {name}"))
        })?;
        let snapshot = Arc::new(Snapshot::new(first));
        let task = keep_fresh(name.clone(), refresh, Arc::clone(&snapshot));
        Ok(Self {
            name,
            snapshot,
            _refresh: SpawnedTask::spawn(task),
        })
    }

    /// The URL whose host is resolved.
    pub fn name(&self) -> &Url {
        &self.name
    }
}

impl WorkerResolver for DnsWorkers {
    fn workers(&self) -> Result<Vec<Url>> {
        Ok(self.snapshot.urls.read().clone())
    }
}

/// The last good answer.
#[derive(Debug)]
struct Snapshot {
    urls: RwLock<Vec<Url>>,
}

impl Snapshot {
    fn new(urls: Vec<Url>) -> Self {
        Self {
            urls: RwLock::new(urls),
        }
    }

    /// Takes over an answer; of failures it logs the first, and then each that differs.
    fn update(&self, name: &Url, answer: io::Result<Vec<Url>>, failing: &mut Option<String>) {
        match answer {
            Ok(urls) => {
                if failing.take().is_some() {
                    tracing::info!(%name, workers = urls.len(), "workers are resolved again");
                }
                *self.urls.write() = urls;
            }
            Err(error) => {
                let failure = error.to_string();
                if failing.as_ref() != Some(&failure) {
                    let workers = self.urls.read().len();
                    tracing::warn!(%name, workers, error = %failure, "workers cannot be resolved, the last ones stay");
                    *failing = Some(failure);
                }
            }
        }
    }
}

async fn keep_fresh(name: Url, every: Duration, snapshot: Arc<Snapshot>) {
    let mut failing = None;
    loop {
        sleep(every).await;
        snapshot.update(&name, resolve(&name).await, &mut failing);
    }
}

/// One URL for each address of the host, in the order of the addresses.
async fn resolve(name: &Url) -> io::Result<Vec<Url>> {
    // Not `host_str`: it puts IPv6 addresses in brackets, which lookups do not know.
    let host = match name.host() {
        Some(Host::Domain(domain)) => domain.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    let port = name.port_or_known_default().unwrap_or_default();
    let addresses = timeout(LOOKUP_TIMEOUT, lookup_host((host, port))).await??;
    let mut addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let at = |address| {
        let mut url = name.clone();
        url.set_ip_host(address).ok().map(|()| url)
    };
    Ok(addresses.into_iter().filter_map(at).collect())
}

/// A worker's URL: scheme, host and port, nothing else, so that equal workers have equal URLs.
fn parse(text: &str) -> Result<Url> {
    let bad = |found: &dyn fmt::Display| {
        config_datafusion_err!(
            "bad worker URL {text:?}: {found}; expected http://host:port or https://host:port"
        )
    };
    let url = Url::parse(text).map_err(|error| bad(&error))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(&format_args!("its scheme is {:?}", url.scheme())));
    }
    if url.host().is_none() {
        return Err(bad(&"it has no host"));
    }
    let has_extras = url.path() != "/"
        || url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some();
    if has_extras {
        return Err(bad(&"it has more than a scheme, a host and a port"));
    }
    if url.port().is_none() && !names_default_port(text, &url) {
        return Err(bad(&"it has no port"));
    }
    Ok(url)
}

/// Whether the text ends in the scheme's own port, which a parsed URL does not show.
fn names_default_port(text: &str, url: &Url) -> bool {
    let port = text.trim().trim_end_matches('/').rsplit_once(':');
    let port = port.and_then(|(_, port)| port.parse().ok());
    port.is_some() && port == url.port_or_known_default()
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;

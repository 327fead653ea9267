//! What a session needs to send queries to workers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;

use super::leaf::{LeafSplitter, LeafSplitters};
use super::{BoundaryPlanner, DistributedRule};
use crate::config::FlightpathConfig;
use crate::engine::connect::{Connections, Connector, TcpConnector};
use crate::engine::resolver::WorkerResolver;
use crate::model::hooks::{Both, Hooks, NoHooks};
use crate::model::metric_codec::{MetricCodec, MetricCodecs};

/// The coordinator's side of Flightpath: where workers are, and what plugs in.
///
/// Handed to a session with [`SessionStateBuilderExt::with_flightpath`].
#[derive(Clone, Debug)]
pub struct Coordinator {
    parts: Parts,
    splitters: Vec<Arc<dyn LeafSplitter>>,
}

/// What planning and execution share of a [`Coordinator`].
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) resolver: Arc<dyn WorkerResolver>,
    pub(crate) codec: Option<Arc<dyn PhysicalExtensionCodec>>,
    pub(crate) metric_codecs: MetricCodecs,
    pub(crate) splitters: LeafSplitters,
    pub(crate) boundaries: Vec<Arc<dyn BoundaryPlanner>>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) connections: Connections,
    pub(crate) runtime: Arc<RuntimeEnv>,
}

impl Coordinator {
    /// Sends queries to the workers that `resolver` names.
    pub fn new(resolver: impl WorkerResolver + 'static) -> Self {
        Self {
            parts: Parts {
                resolver: Arc::new(resolver),
                codec: None,
                metric_codecs: MetricCodecs::new(),
                splitters: LeafSplitters::new(&[]),
                boundaries: vec![],
                hooks: Arc::new(NoHooks),
                connections: Connections::new(Arc::new(TcpConnector)),
                runtime: Arc::default(),
            },
            splitters: vec![],
        }
    }

    /// Encodes plan nodes, expressions and functions that datafusion-proto does not know. Workers
    /// need the same codec.
    pub fn with_codec(mut self, codec: Arc<dyn PhysicalExtensionCodec>) -> Self {
        self.parts.codec = Some(codec);
        self
    }

    /// Restores user-defined metrics that workers report. Workers need the same codec.
    pub fn with_metric_codec(mut self, codec: Arc<dyn MetricCodec>) -> Self {
        self.parts.metric_codecs = self.parts.metric_codecs.with_codec(codec);
        self
    }

    /// Cuts user-defined leaves into shares of tasks. Asked before the splitters added earlier.
    pub fn with_leaf_splitter(mut self, splitter: Arc<dyn LeafSplitter>) -> Self {
        self.splitters.insert(0, splitter);
        self.parts.splitters = LeafSplitters::new(&self.splitters);
        self
    }

    /// Chooses boundaries in place of the built-in ones. The first planner with an answer wins.
    pub fn with_boundary_planner(mut self, planner: Arc<dyn BoundaryPlanner>) -> Self {
        self.parts.boundaries.push(planner);
        self
    }

    /// Reaches workers another way than over plain TCP.
    pub fn with_connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.parts.connections = Connections::new(connector);
        self
    }

    /// Takes part in every query of the session, after the hooks added earlier.
    pub fn with_hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.parts.hooks = Arc::new(Both(self.parts.hooks, hooks));
        self
    }
}

/// Makes a session distribute its queries.
pub trait SessionStateBuilderExt: Sized {
    /// Registers the `flightpath.*` settings and puts [`DistributedRule`] last among the physical
    /// optimizer rules.
    ///
    /// Call it after `with_default_features`, `with_config`, `with_runtime_env` and
    /// `with_physical_optimizer_rules`, all of which replace what is there.
    fn with_flightpath(self, coordinator: Coordinator) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_flightpath(mut self, coordinator: Coordinator) -> Self {
        let mut parts = coordinator.parts;
        parts.runtime = Arc::clone(self.runtime_env().get_or_insert_default());
        let extensions = &mut self
            .config()
            .get_or_insert_default()
            .options_mut()
            .extensions;
        if extensions.get::<FlightpathConfig>().is_none() {
            extensions.insert(FlightpathConfig::default());
        }
        self.with_physical_optimizer_rule(Arc::new(DistributedRule::new(parts)))
    }
}

impl Parts {
    /// URLs of the workers, as the resolver knows them now.
    pub(crate) fn workers(&self) -> Result<Vec<url::Url>> {
        self.resolver.workers()
    }
}

//! The boundaries that come with Flightpath.

mod broadcast;
mod coalesce;
mod shuffle;

pub use broadcast::{BroadcastExec, NetworkBroadcast};
pub use coalesce::NetworkCoalesce;
pub use shuffle::NetworkShuffle;

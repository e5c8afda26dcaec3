//! Faults and attacks that sessions withstand. One behaviour a file, all on virtual time.

mod any_history;
mod flood;
mod lossy_network;
mod rekey;
mod restart;
mod roaming;
mod simultaneous_initiation;

use culvert_sim::NodeId;
use std::time::Duration;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

/// The longest that two ends may take to find each other again. §6.4 takes 15 s without an answer,
/// or 5 s between two attempts, each with its jitter, and a few round trips. The sum is doubled,
/// for ends whose first attempts cross.
const RECOVERY_MAX: Duration = Duration::from_secs(2 * (15 + 5 + 1));

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

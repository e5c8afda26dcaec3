//! The gateway without I/O: the grants in force, and their effect on peers and packets.
//!
//! [`Gateway`] gets connections, messages, resolved names and the time through `handle_*`. Its outputs
//! come from [`Gateway::poll_output`]. Call any `handle_*`, then
//! [`Gateway::poll_output`] until it returns `None`, and carry out the outputs in that order; then
//! sleep until [`Gateway::poll_timeout`] at the latest and call [`Gateway::handle_timeout`].
//!
//! Instants are those of the host's boot-time clock ([`BootTime`](culvert_base::BootTime)), by which the gates of the
//! data plane are asked too.

#![forbid(unsafe_code)]

mod admissions;
mod backlog;
mod clients;
mod counters;
mod data_plane;
mod dns;
mod endpoints;
mod flows;
mod gateway;
mod grant_log;
mod grant_table;
mod grants;
mod host_addresses;
mod inbound;
mod journal;
mod log;
mod log_limit;
mod names;
mod network;
mod options;
mod other_sites;
mod output;
mod outputs;
mod paths;
mod persisted;
mod persistence;
mod plain_dns;
mod portal;
mod questions;
mod services;
mod site_dns;
mod site_names;
pub mod status;
mod verify;

pub use clients::PeerUpdate;
pub use counters::Counters;
pub use endpoints::HeardDevice;
pub use flows::MAX_WAITING_FLOWS;
pub use gateway::{Gateway, NotReady, View};
pub use grant_log::{
    GrantLens, LogFault, LogMark, ReadLog, append_to_log, begin_log, compact_log, log_generation,
    read_log,
};
pub use names::{MAX_NAMES, RESOLVE_LIMIT_MS, Resolution};
pub use options::Options;
pub use output::{Ending, Output};
pub use persisted::{GrantChanges, PersistedGrant, PersistedGrants, PersistedNetwork};
pub use plain_dns::MAX_LOOKUPS;
pub use questions::{MAX_QUESTIONS, MAX_QUESTIONS_PER_CLIENT, MAX_WAITING_PER_CLIENT};
pub use site_dns::NotAsked;
pub use site_names::MAX_ASKED_ELSEWHERE;
pub use verify::{CLOCK_SKEW, GrantFault};

//! Clients, gateways and the portal: the shipped cores, the shipped gate, and a reference model.
//!
//! A [`World`] holds one portal, clients and gateways on one virtual clock, control connections and
//! packets between them, applications and resources at the ends. Packets that a gateway lets pass are
//! compared with a second, plainest reading of `docs/access.md`: `rules` tells the allowed accesses,
//! and `ledger` the time until which they may still pass. Everything else is plain: the database is a
//! map, a tunnel is a message with the keys of its ends in it, the DNS is a table.
//!
//! One seed gives one run, down to the last message. A violation panics.

mod affected;
mod application;
mod catalog;
mod client;
mod config;
mod expectation;
mod gateway;
mod history;
mod intent;
mod ledger;
mod names;
mod net;
mod packets;
mod portal;
pub mod rows;
mod rules;
mod several;
mod tally;
mod trace;
mod tunnel;
mod wire_id;
mod world;

pub use application::Log;
pub use catalog::{
    Destination, HOME, Machine, START_UNIX_MS, Wanted, actor, client_token, gateway_token, group,
    membership, policy, resource, site,
};
pub use config::{Config, Edit};
pub use expectation::QUIET_MS;
pub use history::{run_day, run_history};
pub use names::NameServers;
pub use net::Weather;
pub use rules::window;
pub use several::Leads;
pub use tally::Tally;
pub use world::{ApplicationId, Layout, Strike, World};

//! The gateway's core against the rules of `docs/access.md`, on a clock that the tests hold.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

mod admitted_dns;
mod any_order;
mod backlog;
mod devices;
mod drain;
mod flows;
mod grant_log;
mod grants;
mod host_addresses;
mod inbound;
mod names;
mod persisted;
mod plain_dns;
mod play;
mod portals;
mod questions;
mod relays;
mod report;
mod room;
mod session;
mod site_dns;
mod site_names;
mod verification;
mod within;

//! The hub against clients and gateways that do what they are told, and against a reference that
//! knows what may be in force: no clock, no network, no database.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod applications;
mod clock;
mod dns_rules;
mod ended_access;
mod flows;
mod gateways;
mod inbound;
mod model;
mod pages;
mod plain_dns;
mod plain_endpoints;
mod plain_grants;
mod portals;
mod reference;
mod relays;
mod requests;
mod restart;
mod returning;
mod revocation;
mod rows;
mod scale;
mod sessions;
mod sim_client;
mod sim_gateway;
mod sim_relay;
mod site_names;
mod verification;
mod within;
mod world;

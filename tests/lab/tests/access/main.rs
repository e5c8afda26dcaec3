//! The access product in namespaces: portal, gateways, a client, and a private network.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod applications;
mod asking;
mod browser_opened;
mod browser_sign_in;
mod clean_up;
mod commands;
mod common;
mod conditions;
#[path = "../../../fixtures/country_file.rs"]
mod country_file;
mod daemon_logs;
mod database;
mod disk;
mod disk_console;
mod domains;
mod draining;
mod enrolment;
mod failover;
mod flow_log;
mod forgery;
mod guard;
mod icmp_errors;
mod killed;
mod limits;
mod live_conditions;
mod marks;
mod moving;
mod names;
mod narrow_path;
mod netcheck;
mod networks;
mod odd_packets;
mod one_time;
mod options;
mod outage;
mod private_keys;
mod privileges;
mod proxies;
mod proxy_scene;
mod reach;
mod readiness;
mod records;
mod resolver;
mod resolver_scene;
mod restart;
mod revocation;
mod search;
mod silence;
mod spread;
mod starting;
mod trace_log;
mod twice;
mod verified_gateways;
mod workers;

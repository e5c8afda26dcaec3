//! The portal as its users meet it: a real server on loopback, TLS 1.3, and SQLite in a file.

#![expect(
    clippy::unwrap_used,
    reason = "what helpers of a test unwrap, the test asserts"
)]

mod account;
mod advisories;
mod after_writes;
mod apply;
mod armed;
mod armed_console;
mod armed_routes;
#[path = "../../../../tests/fixtures/authenticator.rs"]
mod authenticator;
mod behind_a_proxy;
mod bounds;
mod browser;
mod console;
mod console_answers;
mod console_choices;
mod console_conditions;
mod console_enrolment;
mod console_explain;
mod console_faults;
mod console_forms;
mod console_lists;
mod console_live;
mod console_logs;
mod console_machines;
mod console_notices;
mod console_overview;
mod console_pages;
mod console_questions;
mod console_roles;
mod console_routes;
mod console_safety;
mod console_selected;
mod console_trials;
mod devices;
mod document;
mod door;
mod encrypted;
mod exports;
mod factors;
mod fresh_proof;
mod held_store;
mod identities;
mod invitations;
mod known_browsers;
mod late_forms;
mod lifetimes;
mod lists;
mod live;
mod live_machines;
mod log_search;
mod log_secrets;
mod logs;
mod names;
mod openid;
mod openid_faults;
mod openid_identities;
mod openid_provider;
mod openid_settings;
mod openid_shapes;
mod own_access;
mod passkeys;
mod passwords;
mod person_roles;
mod policies;
mod problems;
mod queries;
mod resources;
mod roles;
mod scripted_provider;
mod secrets;
mod served;
mod setup;
mod sign_in_races;
mod sinks;
mod statements;
mod strangers;
mod support;
mod things;
mod verified_gateways;
mod versions;
mod writes;

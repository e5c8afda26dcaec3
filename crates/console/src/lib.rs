//! The web console: pages for people, made on the server. It asks the same service as the API, as the same
//! kind of caller, and works without a script (docs/console.md).

#![forbid(unsafe_code)]

mod allowed;
mod asked;
mod assets;
mod change_lines;
mod change_log;
mod chart;
mod choices;
mod clients;
mod condition_fields;
mod confirm;
mod content_policy;
mod cookies;
mod device;
mod difference;
mod dns;
mod drawing;
mod edit;
mod explain;
mod exports;
mod factors;
mod fields;
mod first;
mod first_steps;
mod flows;
mod forms;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateways;
mod groups;
mod guard;
mod host;
mod icons;
mod identities;
mod join_groups;
mod late_form;
mod link;
mod listing;
mod live;
mod log_settings;
mod logs;
pub mod machine_commands;
mod me;
mod members;
mod names;
mod navigation;
mod new_provider;
mod not_found;
mod notice;
mod overview;
mod passkeys;
mod paths;
mod people;
mod person;
mod policies;
mod provider_cookie;
mod provider_sign_in;
mod provider_templates;
mod providers;
mod recovery_codes;
mod resources;
mod roles;
mod router;
mod second_step;
mod service_accounts;
mod settings;
mod sign_in_page;
mod sites;
mod state;
mod streams;
mod theme;
mod theme_choice;
mod tokens;
mod verified_gateways;
mod view;

pub use host::Refusals;
pub use not_found::{nowhere, other_method};
pub use router::router;
pub use state::Console;
pub use streams::Streams;

//! The conditions under which a policy allows.
//!
//! Each kind of condition is one file of this folder, behind one trait, [`Kind`]. The file has its JSON, its field
//! of forms and of the command line, its words and the facts that it needs. It says whether the condition holds, and
//! the reason why it does not.
//! `kinds.rs` lists the kinds. Everything else goes through that list: the API, the console, `culvert admin`,
//! `access.toml` and the hub name no kind.
//!
//! To add a kind, write its file, name it in the list, and give [`ClientFacts`] the facts that it needs.

mod client_os;
mod country;
mod country_code;
mod country_names;
mod expires;
mod facts;
mod field;
mod kind;
mod kinds;
mod list;
mod operating_system;
mod public_address;
mod texts;
mod time;
mod verified;
mod window;

pub use client_os::{
    ClientSystems, MAX_SYSTEMS, System, Version, WrittenClientSystems, WrittenSystem,
};
pub use country::{Countries, MAX_COUNTRIES, WrittenCountries};
pub use country_code::Country;
pub use expires::{Expires, WrittenExpires};
pub use facts::{ClientFacts, Fact, Subject};
pub use field::{Field, Input};
pub use kind::{Entries, Kind};
pub use kinds::{Condition, FIELDS, Unmet, WrittenCondition};
pub use list::{Conditions, MAX_CONDITIONS};
pub use operating_system::OperatingSystem;
pub use public_address::{
    MAX_CONDITION_PREFIXES, PublicAddresses, WrittenPublicAddresses, network,
};
pub use texts::{ConditionTexts, in_words};
pub use time::{MAX_WINDOWS, Times, WrittenTimes};
pub use verified::{Verified, WrittenVerified};
pub use window::{WrittenWindow, ZonedWindow, parse as parse_window};

//! The conditions under which a policy allows.
//!
//! Each kind of condition is one file of this folder, behind one trait, [`Kind`]: its JSON, its field of forms and
//! of the command line, its words, the facts that it needs, whether it holds, and the reason why it does not.
//! `kinds.rs` lists the kinds. Everything else goes through that list: the API, the console, `culvert admin`,
//! `access.toml` and the hub name no kind.
//!
//! To add a kind, write its file, name it in the list, and give [`ClientFacts`] the facts that it needs.

mod client_os;
mod country;
mod expires;
mod facts;
mod field;
mod kind;
mod kinds;
mod list;
mod public_address;
mod texts;
mod time;
mod verified;
mod window;

pub use client_os::{
    ClientSystems, MAX_SYSTEMS, OperatingSystem, System, Version, WrittenClientSystems,
    WrittenSystem,
};
pub use country::{Countries, Country, MAX_COUNTRIES, WrittenCountries};
pub use expires::{Expires, WrittenExpires};
pub use facts::{ClientFacts, Fact, Subject};
pub use field::{Field, Input};
pub use kind::{Entries, Kind};
pub use kinds::{Condition, FIELDS, Unmet, WrittenCondition};
pub use list::{Conditions, MAX_CONDITIONS};
pub use public_address::{
    MAX_CONDITION_PREFIXES, PublicAddresses, WrittenPublicAddresses, network,
};
pub use texts::{ConditionTexts, in_words};
pub use time::{MAX_WINDOWS, Times, WrittenTimes};
pub use verified::{Verified, WrittenVerified};
pub use window::WrittenWindow;

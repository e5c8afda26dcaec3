//! Resources, conditions, and the verdict on every packet.
//!
//! Pure: time is an argument, and so is everything random.
//!
//! - [`Resource`], [`Filters`], [`Resources`]: what may be given access to, and which of several
//!   that overlap is meant by an address or a name.
//! - [`NeverReached`], [`span_error`]: which addresses of resources are refused although they are well written.
//! - [`Within`]: where the addresses of a resource's names may be; the gateway sees to it.
//! - [`Applications`]: which programs of a client may reach a resource; the client sees to it.
//! - [`normalized_name`], [`readable_name`]: which characters a name has that people compare.
//! - [`DnsRules`]: which names clients ask of whom, and how short ones are completed.
//! - [`conditions`]: the kinds of conditions, each with its JSON, its form field and its sentences.
//! - [`Policy`], [`Conditions`], [`evaluate`]: whether a client may use a resource now, until when,
//!   and why ([`Explanation`]). This is what the portal decides.
//! - [`gate`]: whether a packet passes. This is what the gateway decides.

#![forbid(unsafe_code)]

mod access;
mod applications;
pub mod conditions;
mod display_name;
mod dns_rules;
mod error;
mod explanation;
mod filter;
pub mod gate;
mod name;
mod name_index;
mod never_forwarded;
mod never_reached;
mod policy_error;
mod prefix_map;
mod resource;
mod routed_services;
mod span;
mod time;
mod timestamp;
mod translate;
mod within;

pub use access::{Decision, Policy, PolicyRefusal, evaluate, next_change};
pub use applications::{
    ApplicationName, Applications, MAX_APPLICATION_NAME_CHARS, MAX_APPLICATIONS,
};
pub use conditions::{
    ClientFacts, Condition, Conditions, Country, MAX_CONDITION_PREFIXES, MAX_CONDITIONS,
    MAX_COUNTRIES, MAX_WINDOWS, Subject, Unmet,
};
pub use culvert_base::{Prefix, PrefixError, PrefixLengthError};
pub use display_name::{
    DeceptiveCharacter, composed, deceptive_character, decomposed, is_normalized, normalized_name,
    readable_name,
};
pub use dns_rules::{
    DnsRuleError, DnsRules, DnsServer, DnsZone, MAX_DNS_SERVERS, MAX_DNS_ZONES, MAX_SEARCH_DOMAINS,
    MAX_SEARCH_LEN,
};
pub use error::{
    ApplicationError, ConditionError, FilterError, GrantError, TargetError, WithinError,
};
pub use explanation::{Brief, BriefCode, Explanation, PolicyNames, PolicyOutcome};
pub use filter::{Filter, Filters, MAX_PORT_RANGES, Ports, Service};
pub use name::{DomainName, MAX_DOMAIN_NAME_LEN, MAX_WILDCARDS, NamePattern};
pub use never_forwarded::{EMBEDDINGS, Embedding, NEVER_FORWARDED, is_forwarded};
pub use never_reached::NeverReached;
pub use policy_error::PolicyError;
pub use resource::{
    MAX_RESOURCE_NAME_CHARS, MAX_RESOURCES, MatchOrder, Resource, ResourceName, Resources, Target,
};
pub use routed_services::RoutedServices;
pub use span::span_error;
pub use time::{TimeOfDay, TimeWindow, Weekday, Weekdays, Zone};
pub use timestamp::{Timestamp, TimestampError};
pub use translate::Checksum;
pub use within::{MAX_WITHIN, Within};

//! The client's stub resolver without I/O: it answers for names of resources, forwards the rest.
//!
//! [`Stub`] gets queries, answers of upstreams, outcomes of access requests and the time through
//! `handle_*`, and says what is to be done through [`Stub::poll_output`]. Call any `handle_*`, then
//! [`Stub::poll_output`] until it returns `None`, and carry out the outputs in that order; then
//! sleep until [`Stub::poll_timeout`] at the latest and call [`Stub::handle_timeout`]. Messages over
//! TCP come and go without the two bytes of their length.
//!
//! Answers for a name of a resource:
//!
//! | question | answer |
//! |---|---|
//! | A, AAAA | the name's own address of that family, once access is granted; empty where the gateway found none of the family |
//! | ANY | both |
//! | HTTPS, SVCB, SRV, MX, TXT and all other types | the records of the site's DNS, without addresses of names of
//! resources. The resource's gateway is asked through the tunnel once access is granted ([`Stub::set_site`]). Empty if
//! it cannot be asked. Never asked elsewhere, because a private name must not leak |
//! | zone transfers and other meta types | REFUSED |
//!
//! | access | answer |
//! |---|---|
//! | granted, the name has no addresses | empty |
//! | granted, the name does not exist | NXDOMAIN |
//! | granted, the site's DNS did not answer for the name | SERVFAIL with the extended error *Network Error* |
//! | denied | REFUSED with the extended error *Prohibited* and the reason in brief |
//! | nobody to ask, or no word within [`ACCESS_WAIT`] | SERVFAIL with the extended error *No Reachable Authority* |
//!
//! A site that leaves names without an answer is remembered. Some names are made by a search list: `www.example.com`
//! with `corp.example` behind it ([`Stub::set_search`]). Such a name does not exist while its site is silent, if the
//! name without the search domain exists elsewhere: the search goes on to that one. Other names of a dead site get
//! SERVFAIL after [`DEAD_WAIT`].
//!
//! An address from the ranges for names is turned back into its name (PTR) here and never
//! forwarded. An upstream's answer that hands out such an address is not believed: it would lend a
//! resource the origin of a stranger's web page (DNS rebinding). Nothing that an upstream says is
//! kept, so there is no cache to poison.
//!
//! If an upstream says that a name is an alias of a resource's name, the alias is passed on and the resource
//! answers the rest. The upstream's records of that name are ignored.
//!
//! All other names are asked of upstreams: those of the smallest zone that holds the name
//! ([`Stub::set_zones`]) and no others, or those for names in no zone ([`Stub::set_upstreams`]). If one
//! stays silent, or is not there, the next one is asked. A question that came over TCP is asked over TCP;
//! a program asks again over TCP after a truncated answer. Over UDP each letter of the name has a case of
//! its own, which the answer must have as well.
//!
//! There is no clock and no source of randomness in here: time is an argument, and the ids and
//! letters of forwarded queries come from the seed given to [`Stub::new`].

#![forbid(unsafe_code)]

mod aliases;
mod answer;
mod config;
mod constants;
mod drop_reason;
mod error;
mod ids;
mod letters;
mod name;
mod names;
mod output;
mod private;
mod query;
mod range_shares;
mod ranges;
mod real_addresses;
mod rebinding;
mod reverse;
mod shares;
mod sites;
mod stub;
mod upstreams;
mod waiting;
mod zones;

pub use config::{Config, Transport};
pub use constants::{
    ACCESS_WAIT, ASK_AGAIN_AFTER, CASE_RULE_LIFETIME, DEAD_WAIT, FORWARDS_MAX, LEASE_IDLE,
    NAMES_MAX, NEGATIVE_TTL, OUTPUTS_MAX, QUERY_LEN_MAX, REASON_LEN_MAX, REFRESH_AFTER,
    SITE_SILENCE, SUSPECT_AFTER, SUSPECT_WAIT, TOLD_MIN, TTL, UDP_PAYLOAD, UNREACHABLE_TTL,
    UPSTREAM_TRIES, UPSTREAM_WAIT, UPSTREAMS_MAX, WAITING_MAX, WAITING_PER_NAME_MAX,
};
pub use drop_reason::DropReason;
pub use error::Error;
pub use names::{Assigned, Families, Outcome};
pub use output::{ForwardId, Output, Via};
pub use query::may_answer;
pub use ranges::{Addresses, Ranges};
pub use stub::{Counts, Stub};

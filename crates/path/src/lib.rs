//! The addresses at which a peer may be reached, and the test that it still is, without I/O.
//!
//! A peer has [`Candidate`]s: addresses of its interfaces, addresses that an administrator set, the
//! address from which it was last heard, and relays. Every handshake initiation goes to all of them at
//! once, as the very same datagram. The peer answers each copy by the same response, so the first answer
//! comes over the fastest path that works in both directions. That is a *race*, and [`Race`] decides when one is due, to which addresses it goes, and
//! when a peer that does not answer is dead.
//!
//! | | |
//! |---|---|
//! | the first packet for a peer | a race at once; without an answer within [`LISTEN`] + [`ANSWER`], the peer is dead |
//! | sent for [`LISTEN`], nothing heard | a race at once; still nothing within [`ANSWER`], the peer is dead |
//! | the host's network changed | a race at once; silence counts from here |
//! | no answer within [`SECOND_ATTEMPT`] | once more in the same race |
//! | nothing sent | nothing; silence of who was not asked means nothing |
//!
//! A pair that has relays has a [`Selection`] besides. It tests paths by probes, takes a direct one as soon as it is proven
//! in both directions, and leaves a dead one within a second.
//!
//! Events and time go in through `handle_*`; call [`Race::poll_output`] after each until it returns
//! `None`, and carry out the outputs in that order; then sleep until [`Race::poll_timeout`] at the
//! latest and call [`Race::handle_timeout`].
//!
//! There is no clock in here: time is an argument. Instants of traffic may lie in the past, since
//! marks of workers are read from time to time, and may come in any order.

#![forbid(unsafe_code)]

mod candidates;
mod guard;
mod mapping;
mod mtu;
mod nat64;
mod race;
mod relays;
mod selection;

pub use candidates::{
    CANDIDATES_MAX, Candidate, Candidates, Kind, OBSERVED_MAX, RELAYS_MAX, RelayPath, TARGETS_MAX,
};
pub use guard::{CandidateRefusal, Error, Guard, OWN_RANGES_MAX};
pub use mapping::{Mapping, Seen, nat_mapping};
pub use mtu::{
    ASK_SILENT_AFTER, ATTEMPTS, CHECK_EVERY, LADDERS_MAX, Limits, MtuSearch, PROBES_PER_ROUND,
    Probe, RAISE_AFTER, STEP,
};
pub use nat64::{IPV4_ONLY_ADDRESSES, IPV4_ONLY_NAME, Nat64Prefix, reach_all};
pub use race::{ANSWER, LATE_MAX, LISTEN, Output, Race, SECOND_ATTEMPT};
pub use relays::{
    KEEP_MAPPING_EVERY, PLACES_MAX, REFLEXIVE_MAX, RELAYS_PER_OWNER, RelayGrant, RelayPlace,
    RelayReached, RelayTrouble, Relays, RelaysOutput, SURVEY_EVERY, TLS_AFTER, TLS_LEFT_OPEN,
    TLS_SILENT, TLS_STREAMS_MAX, TlsPlace, ToldReached, relay_grant,
};
pub use selection::{
    ANSWERS_PER_SECOND, KEEP_OPEN_EVERY, KEEP_OPEN_FOR, LEAVE_AFTER, LOST_EVERY, LOST_FOR,
    ROUND_EVERY, ROUNDS, SILENCE, SelectedPath, Selection, SelectionOutput,
};

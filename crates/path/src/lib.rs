//! The addresses at which a peer may be reached, and the test that it still is, without I/O.
//!
//! A peer has [`Candidate`]s: addresses of its interfaces, addresses that an administrator set, the
//! address from which it was last heard, and relays. None of them is probed. Every handshake
//! initiation goes to all direct ones at once, as the very same datagram. The peer answers the
//! first copy and drops the others as replays, so the answer comes over the fastest path that
//! works. That is a *race*, and [`Race`] decides when one is due, to which addresses it goes, and
//! when a peer that does not answer is dead.
//!
//! | | |
//! |---|---|
//! | the first packet for a peer | a race at once; without an answer within [`LISTEN`] + [`ANSWER`], the peer is dead |
//! | sent for [`LISTEN`], nothing heard | a race at once; still nothing within [`ANSWER`], the peer is dead |
//! | the host's network changed | a race at once; silence counts from here |
//! | no answer within [`SECOND_ATTEMPT`] | once more in the same race, now to relays too |
//! | nothing sent | nothing; silence of who was not asked means nothing |
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
mod mtu;
mod race;

pub use candidates::{CANDIDATES_MAX, Candidate, Candidates, Kind, OBSERVED_MAX};
pub use guard::{CandidateRefusal, Error, Guard, OWN_RANGES_MAX};
pub use mtu::{
    ASK_SILENT_AFTER, ATTEMPTS, CHECK_EVERY, LADDERS_MAX, Limits, MtuSearch, PROBES_PER_ROUND,
    Probe, RAISE_AFTER, STEP,
};
pub use race::{ANSWER, LATE_MAX, LISTEN, Output, Race, SECOND_ATTEMPT};

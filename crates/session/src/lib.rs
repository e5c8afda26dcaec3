//! The WireGuard protocol without I/O: handshake, keys, cookies, replay window, timers.
//!
//! Two halves that share nothing but keys and marks:
//!
//! * [`Handshaker`] keeps everything about handshakes, cookies, timers and key slots of all peers
//!   of one interface. One thread owns it. Datagrams, wishes and time go in through `handle_*`,
//!   effects come out of [`Handshaker::poll_output`]; it never sees a data packet.
//! * [`Transport`] is one pair of transport keys. Workers share it and seal and open batches of
//!   data packets with `&self`. They mark sent and received packets in the peer's [`Activity`],
//!   which the timers of the [`Handshaker`] read.
//!
//! Call any `handle_*`, then [`Handshaker::poll_output`] until it returns `None`, and carry out the
//! outputs in that order; then sleep until [`Handshaker::next_timeout`] at the latest and call
//! [`Handshaker::handle_timeout`].
//!
//! There is no clock and no source of randomness in here: time is an argument, and randomness comes
//! from the seed given to [`Handshaker::new`] and, for each handshake, from an [`Entropy`]. Sections (§) cite the paper *WireGuard: Next
//! Generation Kernel Network Tunnel*.

#![forbid(unsafe_code)]

mod activity;
mod constants;
mod cookie;
mod crypto;
mod drop_reason;
mod error;
mod generation;
mod handshaker;
mod ids;
mod noise;
pub mod parse;
mod private_key;
mod random;
mod rate_limit;
mod replay;
mod sync;
mod time;
mod transport;

pub use activity::Activity;
pub use constants::{
    ANSWER_COPIES_FOR, ANSWERED_SOURCES_MAX, COOKIE_LATENCY, COOKIE_SECRET_MAX_AGE,
    INITIATION_BURST, INITIATION_INTERVAL, KEEPALIVE_TIMEOUT, MAX_PEERS, PROMPT_KEEPALIVE_TIMEOUT,
    RECHECK_INTERVAL, REJECT_AFTER_MESSAGES, REJECT_AFTER_TIME, REKEY_AFTER_MESSAGES,
    REKEY_AFTER_TIME, REKEY_ATTEMPT_TIME, REKEY_TIMEOUT, REKEY_TIMEOUT_JITTER_MAX,
    UNDER_LOAD_AFTER, ZERO_KEYS_AFTER,
};
pub use culvert_aead::Suite;
pub use culvert_base::{PresharedKey, PublicKey};
pub use drop_reason::DropReason;
pub use error::Error;
pub use generation::{
    CLOCK_JUMP, ClockOffset, ClockWatch, Clocks, GenerationChange, announces_new_generation,
};
pub use handshaker::{Destination, Finished, HandshakeDatagram, Handshaker, Output, Step, Work};
pub use ids::{Index, PeerId};
pub use private_key::PrivateKey;
pub use random::Entropy;
pub use rate_limit::{RATE_BURST, RATE_PER_SECOND};
pub use replay::{REPLAY_WINDOW, ReplayVerdict, ReplayWindow};
pub use time::{Clock, Tai64n};
pub use transport::{
    DATA_HEADER_LEN, DATA_OVERHEAD, MAX_RECORDS, OpenedBatch, RecordSet, Reservation, Role,
    Transport,
};

//! Messages between client and gateway: WireGuard's without their cryptography. The effect of keys
//! is kept: a tunnel exists if both ends know each other, with the same secret and suite.

use culvert_wire::{Cipher, PresharedKey, PublicKey};
use std::collections::BTreeSet;

/// A datagram between a client and a gateway.
#[derive(Clone, Debug)]
pub(crate) enum Datagram {
    /// A client begins a handshake.
    Initiation {
        client: PublicKey,
        gateway: PublicKey,
        preshared_key: PresharedKey,
        cipher: Cipher,
        /// Grows with each; what is not new is a replay.
        attempt: u64,
    },
    /// The gateway answers: there is a session.
    Response {
        gateway: PublicKey,
        attempt: u64,
        session: u64,
    },
    /// A packet in a session, towards the gateway.
    Inbound {
        session: u64,
        counter: u64,
        packet: Vec<u8>,
    },
    /// A packet in a session, towards the client.
    Outbound {
        gateway: PublicKey,
        session: u64,
        counter: u64,
        packet: Vec<u8>,
    },
}

/// The counters that an end has seen: what comes a second time is a replay, and dropped.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    seen: BTreeSet<u64>,
}

/// Counters that are remembered: more than are under way at once.
const MAX_SEEN: usize = 1_024;

impl Replays {
    /// True if the packet with this counter is new; a counter that is older than the window is not.
    pub(crate) fn take(&mut self, counter: u64) -> bool {
        let is_full = self.seen.len() >= MAX_SEEN;
        let is_old = is_full && self.seen.first().is_some_and(|first| counter < *first);
        if is_old || !self.seen.insert(counter) {
            return false;
        }
        if is_full {
            self.seen.pop_first();
        }
        true
    }
}

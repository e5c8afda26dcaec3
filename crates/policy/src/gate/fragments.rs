//! Which datagrams the later fragments of belong to admitted first ones.
//!
//! Only the first fragment of a datagram says which ports it is for. It is judged like any packet,
//! and what identifies the datagram is remembered with its flow; later fragments follow that flow.
//! A later fragment that arrives before the first one is dropped: Linux sends and forwards them in
//! order. Nothing is reassembled. A fragment cannot change the ports of another one: they are in the
//! first four bytes of a datagram (one of IPv6 with options before them is refused), and later
//! fragments begin eight bytes in at the earliest. A second first fragment of the same datagram is
//! judged by its own ports.

use super::flows::FlowRef;
use super::heading::AddressBits;
use culvert_packet::ip::{IpVersion, Protocol};

/// Datagrams that are remembered: those of which fragments are on their way at once. They leave
/// their sender back to back, so a handful are from one sender, and 512 from a hundred.
const DATAGRAMS: usize = SETS * WAYS;
const SETS: usize = 128;
/// Datagrams that compete for one place; the oldest gives way.
const WAYS: usize = 4;
/// RFC 791 §3.2 has a receiver wait 15 seconds for the rest of a datagram.
const LIFETIME_MS: u64 = 15_000;

/// What identifies a datagram (RFC 791 §2.3, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramKey {
    pub(super) source: AddressBits,
    pub(super) destination: AddressBits,
    pub(super) identification: u32,
    pub(super) version: IpVersion,
    /// Of IPv6 none: there the field names what follows in each single fragment.
    pub(super) protocol: Option<Protocol>,
    /// Whether a client sent it.
    pub(super) is_of_client: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: DatagramKey,
    flow: FlowRef,
    at_ms: u64,
}

#[derive(Debug)]
pub(super) struct Fragments {
    entries: Box<[Option<Entry>; DATAGRAMS]>,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self {
            entries: Box::new([None; DATAGRAMS]),
        }
    }

    /// Remembers a datagram whose first fragment was admitted. `hash` is one of the key.
    pub(super) fn insert(&mut self, hash: u64, key: DatagramKey, flow: FlowRef, now_ms: u64) {
        let set = self.set(hash);
        let same = set.iter().position(|entry| is_of(entry, &key));
        // A free place sorts before all others.
        let age = |entry: &Option<Entry>| entry.map(|entry| entry.at_ms);
        let oldest = || (0..WAYS).min_by_key(|way| age(&set[*way])).unwrap_or(0);
        let way = same.unwrap_or_else(oldest);
        set[way] = Some(Entry {
            key,
            flow,
            at_ms: now_ms,
        });
    }

    /// The flow of a datagram whose first fragment was admitted not long ago.
    pub(super) fn find(&mut self, hash: u64, key: &DatagramKey, now_ms: u64) -> Option<FlowRef> {
        let entry = self
            .set(hash)
            .iter()
            .find(|entry| is_of(entry, key))?
            .as_ref()?;
        (now_ms.saturating_sub(entry.at_ms) < LIFETIME_MS).then_some(entry.flow)
    }

    fn set(&mut self, hash: u64) -> &mut [Option<Entry>] {
        let first = hash as usize % SETS * WAYS;
        &mut self.entries[first..first + WAYS]
    }
}

fn is_of(entry: &Option<Entry>, key: &DatagramKey) -> bool {
    entry.is_some_and(|entry| entry.key == *key)
}

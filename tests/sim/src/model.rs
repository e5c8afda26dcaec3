//! The invariants under every network: each packet is delivered at most once, unchanged, to its
//! recipient alone, and as from its sender.

use crate::node_id::NodeId;
use culvert_base::BootTime;
use std::collections::BTreeMap;
use std::time::Duration;

/// Names one packet of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketId(u64);

/// The memory of everything that was sent.
#[derive(Debug, Default)]
pub struct Model {
    packets: BTreeMap<PacketId, Packet>,
}

#[derive(Debug)]
struct Packet {
    from: NodeId,
    to: NodeId,
    sent_at: BootTime,
    delivered_at: Option<BootTime>,
}

/// Padded length of every packet: id and a pattern that follows from it.
const PACKET_LEN: usize = 64;

impl Model {
    /// A packet from `from` to `to`: remembered, and its bytes.
    pub fn send(&mut self, from: NodeId, to: NodeId, now: BootTime) -> Vec<u8> {
        let id = PacketId(self.packets.len() as u64);
        let packet = Packet {
            from,
            to,
            sent_at: now,
            delivered_at: None,
        };
        self.packets.insert(id, packet);
        bytes_of(id)
    }

    /// `bytes` came out of the tunnel at `at`, as from `from`.
    ///
    /// # Panics
    /// If that must not happen.
    pub fn deliver(&mut self, bytes: &[u8], from: NodeId, at: NodeId, now: BootTime) {
        let id = bytes
            .first_chunk()
            .map(|id| PacketId(u64::from_le_bytes(*id)));
        let id = id.expect("a delivered packet has an id");
        let packet = self.packets.get_mut(&id);
        let packet = packet.expect("a delivered packet was sent");
        assert_eq!(bytes, bytes_of(id), "{id:?} arrived as it was sent");
        assert_eq!(packet.to, at, "{id:?} arrived where it was sent to");
        assert_eq!(packet.from, from, "{id:?} arrived as from who sent it");
        assert_eq!(packet.delivered_at, None, "{id:?} arrived once");
        packet.delivered_at = Some(now);
    }

    /// The number of packets that were sent.
    pub fn sent(&self) -> usize {
        self.packets.len()
    }

    /// The packets that were sent from `since` on and did not arrive.
    pub fn missing(&self, since: BootTime) -> Vec<PacketId> {
        let recent = self
            .packets
            .iter()
            .filter(|(_, packet)| packet.sent_at >= since);
        let missing = recent.filter(|(_, packet)| packet.delivered_at.is_none());
        missing.map(|(id, _)| *id).collect()
    }

    /// The time at which the first packet that was sent from `since` on arrived at `at`.
    pub fn first_delivery(&self, at: NodeId, since: BootTime) -> Option<BootTime> {
        let recent = self
            .packets
            .values()
            .filter(|packet| packet.to == at && packet.sent_at >= since);
        recent.filter_map(|packet| packet.delivered_at).min()
    }

    /// The longest time that a packet sent from `since` on was under way.
    pub fn longest_delay(&self, since: BootTime) -> Duration {
        let recent = self
            .packets
            .values()
            .filter(|packet| packet.sent_at >= since);
        let delays = recent.filter_map(|packet| {
            let delivered_at = packet.delivered_at?;
            Some(delivered_at.saturating_since(packet.sent_at))
        });
        delays.max().unwrap_or_default()
    }
}

fn bytes_of(id: PacketId) -> Vec<u8> {
    let mut bytes = id.0.to_le_bytes().to_vec();
    let pattern = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    bytes.extend(pattern.iter().cycle().take(PACKET_LEN - bytes.len()));
    bytes
}

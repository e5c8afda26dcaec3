//! Counters of workers and the control thread: their work, and their drops by reason.
//!
//! Readers see each number by itself, not a consistent set.

use crate::counter::Counter;
use crate::traffic::TrafficCounters;
use culvert_policy::gate::DropReason;

macro_rules! drops {
    ($($variant:ident, $stage:literal, $reason:literal, $doc:literal;)*) => {
        /// The reason for which a packet, a record or a datagram was not passed on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Dropped { $(#[doc = $doc] $variant,)* }

        impl Dropped {
            /// Every reason, in the order of the road.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The place on the road: the `stage` label of the metrics.
            pub fn stage(self) -> &'static str {
                match self { $(Self::$variant => $stage,)* }
            }

            /// The cause: the `reason` label of the metrics.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$variant => $reason,)* }
            }
        }
    };
}

drops! {
    TunMalformed, "tun_receive", "malformed", "A frame from the TUN whose headers lie or can't be cut.";
    TunReadFailed, "tun_receive", "failed", "A frame that the kernel took off a queue of the TUN and failed to hand over.";
    Codel, "tun_receive", "codel", "A packet of a queue whose delay stayed too high, dropped by CoDel (RFC 8289): its sender understands no mark.";
    OwnDatagram, "tun_receive", "own_datagram", "A datagram of this device that came back into its own interface: another program changes the mark of what it sends.";
    SourceForeign, "route", "source_foreign", "A packet whose source is not this end's address in the tunnel: the peer would drop it.";
    NoPeer, "route", "no_peer", "No peer's allowed IPs hold the destination.";
    UnroutedFull, "route", "unrouted_full", "More packets without a route than their owner takes at once.";
    NoEndpoint, "route", "no_endpoint", "The peer has no endpoint to send to.";
    StageFull, "stage", "full", "The oldest frame that waited for a handshake gave way to a newer one.";
    HandshakeFailed, "stage", "handshake_failed", "The handshake that a frame waited for did not complete in time.";
    AnswerGone, "stage", "answer_gone", "The answer to a packet that the gate refused, whose sender has no key any more.";
    PeerGone, "stage", "peer_gone", "The peer of a frame that waited for a handshake was removed.";
    CountersExhausted, "seal", "key_exhausted", "The key had no counters left when the batch was sealed.";
    SendTooBig, "udp_send", "too_big", "The datagram exceeds what the path takes, fragmented or not.";
    SendFailed, "udp_send", "failed", "The host refused to send to the endpoint.";
    DatagramTruncated, "udp_receive", "truncated", "A datagram longer than the receive buffer.";
    DatagramUnknown, "udp_receive", "unknown_type", "A datagram that is no well-formed WireGuard message.";
    HandshakeQueueFull, "udp_receive", "handshake_queue_full", "More handshake messages than the control thread keeps up with.";
    PathQueueFull, "udp_receive", "path_queue_full", "More messages about paths (of relays, and probes) than their owner takes at once.";
    UnknownIndex, "open", "unknown_index", "A record for a key that does not exist, or no longer.";
    KeyExpired, "open", "key_expired", "A record for a key past its time or message limit.";
    Replayed, "open", "replayed", "A record whose counter was seen before, or is older than the replay window.";
    NotAuthentic, "open", "not_authentic", "A record that the peer did not seal.";
    InnerMalformed, "inner", "malformed", "An opened record that holds no well-formed IP packet.";
    SourceNotAllowed, "inner", "source_not_allowed", "An inner source address that is not the peer's.";
    CongestionOverNotEct, "inner", "ce_over_not_ect", "RFC 6040: congestion was marked on a packet whose sender can't react to the mark.";
    TunWriteFailed, "tun_send", "failed", "The TUN refused the packet.";
}

/// Numbers of packets that travelled together: bucket `i` counts batches of 2^i up to 2^(i+1)−1 packets.
#[derive(Debug, Default)]
pub struct BatchSizes {
    buckets: [Counter; Self::BUCKETS],
    /// Sum of all sizes.
    pub packets: Counter,
}

impl BatchSizes {
    /// 1, 2–3, 4–7, … 64–127 and 128: `MAX_RECORDS` of the `aead` crate is the largest batch.
    pub const BUCKETS: usize = 8;

    /// Counts a batch of so many packets.
    pub fn record(&self, packets: usize) {
        if packets == 0 {
            return;
        }
        let bucket = (packets.ilog2() as usize).min(Self::BUCKETS - 1);
        self.buckets[bucket].add(1);
        self.packets.add(packets as u64);
    }

    /// The buckets as last written.
    pub fn read(&self) -> [u64; Self::BUCKETS] {
        core::array::from_fn(|bucket| self.buckets[bucket].read())
    }
}

/// The counters of one worker.
///
/// Aligned to two cache lines, so that no worker's writes slow another's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    drops: [Counter; Dropped::ALL.len()],
    gate_drops: [Counter; DropReason::ALL.len()],
    /// Bytes by destination.
    pub traffic: TrafficCounters,
    /// Turns of the worker's loop.
    pub turns: Counter,
    /// Times the worker went to sleep for want of work.
    pub sleeps: Counter,
    /// Times the worker paused under a stream of UDP packets.
    pub pauses: Counter,
    /// Times the worker polled for the answer to a priority packet rather than sleep.
    pub busy_polls: Counter,
    /// Those of them in which something arrived.
    pub busy_polls_answered: Counter,
    /// Priority datagrams that the worker carried in without ending its turn first.
    pub mid_turn: Counter,
    /// Times the worker decided to stay on the processor that it ran on.
    pub pinned: Counter,
    /// Frames read from the TUN; a superframe counts once.
    pub tun_frames_received: Counter,
    /// Frames written to the TUN; a superframe counts once.
    pub tun_frames_sent: Counter,
    /// Frames that left in the batch of one before them, because they were queued behind it.
    pub frames_joined: Counter,
    /// Packets cut from one TUN frame.
    pub cut: BatchSizes,
    /// Records sealed and sent together.
    pub sealed: BatchSizes,
    /// Records received together.
    pub received: BatchSizes,
    /// Packets written to the TUN as one frame.
    pub coalesced: BatchSizes,
    /// UDP send calls.
    pub udp_sends: Counter,
    /// UDP receive calls that returned something.
    pub udp_receives: Counter,
    /// UDP receive calls that failed for another reason than that nothing was there.
    pub udp_receive_failures: Counter,
    /// Times the UDP socket was full and the worker stopped reading the TUN.
    pub udp_blocked: Counter,
    /// Times another worker's batch of the same key had to leave first.
    pub turn_waits: Counter,
    /// Sends repeated datagram by datagram because segmentation was refused.
    pub segmentation_refused: Counter,
    /// Superframes written again packet by packet because the TUN refused them whole.
    pub superframe_refused: Counter,
    /// ICMP messages "packet too big" and "unreachable" written to the TUN.
    pub icmp_sent: Counter,
    /// Packets marked because their queue stood for too long (RFC 8289, RFC 3168).
    pub queue_marked: Counter,
    /// Inner packets that carry a congestion mark taken over from the outer header.
    pub congestion_marked: Counter,
}

impl WorkerCounters {
    /// Counters that count bytes by destination too.
    #[must_use]
    pub fn with_traffic() -> Self {
        Self {
            traffic: TrafficCounters::with_all_places(),
            ..Self::default()
        }
    }

    /// Counts so many packets, records or datagrams that were dropped for this reason.
    pub fn count_drop(&self, reason: Dropped, amount: u64) {
        if amount > 0 {
            self.drops[reason as usize].add(amount);
        }
    }

    /// Counts so many packets that the gate did not let pass.
    pub fn count_gate_drop(&self, reason: DropReason, amount: u64) {
        self.gate_drops[reason as usize].add(amount);
    }

    /// The number of packets that the gate dropped at this worker for `reason`.
    pub fn dropped_by_gate(&self, reason: DropReason) -> u64 {
        self.gate_drops[reason as usize].read()
    }

    /// The number of packets, records or datagrams that this worker dropped for `reason`.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.drops[reason as usize].read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_drop_reason_has_its_own_pair_of_labels() {
        let labels: BTreeSet<_> = Dropped::ALL
            .iter()
            .map(|d| (d.stage(), d.reason()))
            .collect();
        assert_eq!(labels.len(), Dropped::ALL.len());
        for (index, drop) in Dropped::ALL.iter().enumerate() {
            assert_eq!(*drop as usize, index);
        }
    }

    #[test]
    fn a_batch_size_falls_into_the_bucket_of_its_power_of_two() {
        let sizes = BatchSizes::default();
        for packets in [0, 1, 2, 3, 44, 128, 500] {
            sizes.record(packets);
        }
        assert_eq!(sizes.read(), [1, 2, 0, 0, 0, 1, 0, 2]);
        assert_eq!(sizes.packets.read(), 678);
    }
}

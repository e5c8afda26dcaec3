//! Frames that wait for a handshake.

use crate::counters::{Dropped, WorkerCounters};
use crate::frame::packets_in;
use culvert_session::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// Frames of one peer that wait at one worker: what the kernel's WireGuard stages as well
/// (`MAX_STAGED_PACKETS`).
const MAX_FRAMES_PER_PEER: usize = 128;

/// Bytes of one peer that wait at one worker: four full superframes, more than the initial window
/// of any transport protocol, so that the first flight of a connection survives the handshake.
const MAX_BYTES_PER_PEER: usize = 256 * 1024;

/// Bytes that wait at one worker, for all peers: with the buffers of the road it keeps a process
/// below 32 MB even when nobody answers.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Frames as read from the TUN, kept in their order per peer.
#[derive(Default)]
pub(crate) struct Staging {
    peers: BTreeMap<PeerId, Staged>,
    bytes: usize,
}

#[derive(Default)]
struct Staged {
    frames: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Staging {
    /// Keeps a copy of `frame`; the oldest frames of the same peer give way where there are too
    /// many, and the frame itself where all peers together have too much.
    pub(crate) fn push(&mut self, peer: PeerId, frame: &[u8], counters: &WorkerCounters) {
        let staged = self.peers.entry(peer).or_default();
        while staged.frames.len() >= MAX_FRAMES_PER_PEER
            || (staged.bytes + frame.len() > MAX_BYTES_PER_PEER && !staged.frames.is_empty())
        {
            let Some(oldest) = staged.frames.pop_front() else {
                break;
            };
            staged.bytes -= oldest.len();
            self.bytes -= oldest.len();
            counters.count_drop(Dropped::StageFull, packets_in(&oldest));
        }
        if self.bytes + frame.len() > MAX_BYTES {
            counters.count_drop(Dropped::StageFull, packets_in(frame));
            if staged.frames.is_empty() {
                self.peers.remove(&peer);
            }
            return;
        }
        staged.bytes += frame.len();
        self.bytes += frame.len();
        staged.frames.push_back(frame.into());
    }

    /// The oldest frame of any peer for which `ready` holds, and whose it is.
    pub(crate) fn pop_ready(
        &mut self,
        mut ready: impl FnMut(PeerId) -> bool,
    ) -> Option<(PeerId, Box<[u8]>)> {
        if self.peers.is_empty() {
            return None;
        }
        let peer = *self.peers.keys().find(|&&peer| ready(peer))?;
        let staged = self.peers.get_mut(&peer)?;
        let frame = staged.frames.pop_front();
        if let Some(frame) = &frame {
            staged.bytes -= frame.len();
            self.bytes -= frame.len();
        }
        if staged.frames.is_empty() {
            self.peers.remove(&peer);
        }
        frame.map(|frame| (peer, frame))
    }

    /// Drops all frames of `peer`.
    pub(crate) fn discard(&mut self, peer: PeerId, reason: Dropped, counters: &WorkerCounters) {
        if let Some(staged) = self.peers.remove(&peer) {
            self.bytes -= staged.bytes;
            let packets = staged.frames.iter().map(|frame| packets_in(frame)).sum();
            counters.count_drop(reason, packets);
        }
    }

    /// Drops the frames of every peer for which `keep` does not hold.
    pub(crate) fn retain(
        &mut self,
        mut keep: impl FnMut(PeerId) -> bool,
        reason: Dropped,
        counters: &WorkerCounters,
    ) {
        let gone: Vec<PeerId> = self.peers.keys().copied().filter(|&p| !keep(p)).collect();
        for peer in gone {
            self.discard(peer, reason, counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> PeerId {
        PeerId(number)
    }

    #[test]
    fn frames_of_a_peer_leave_in_the_order_in_which_they_came() {
        let counters = WorkerCounters::default();
        let mut staging = Staging::default();
        for byte in 0..3 {
            staging.push(peer(1), &[byte], &counters);
            staging.push(peer(2), &[byte + 10], &counters);
        }
        let mut left = Vec::new();
        while let Some((_, frame)) = staging.pop_ready(|p| p == peer(2)) {
            left.push(frame[0]);
        }
        assert_eq!(left, [10, 11, 12]);
        assert!(staging.peers.contains_key(&peer(1)) && !staging.peers.contains_key(&peer(2)));
    }

    #[test]
    fn the_oldest_frame_gives_way_to_a_newer_one_and_is_counted() {
        let counters = WorkerCounters::default();
        let mut staging = Staging::default();
        for number in 0..=MAX_FRAMES_PER_PEER {
            staging.push(peer(1), &number.to_le_bytes(), &counters);
        }
        assert_eq!(counters.dropped(Dropped::StageFull), 1);
        let (_, first) = staging.pop_ready(|_| true).unwrap();
        assert_eq!(*first, 1usize.to_le_bytes());
    }

    #[test]
    fn bytes_stay_bounded_whatever_is_staged() {
        let counters = WorkerCounters::default();
        let mut staging = Staging::default();
        let frame = vec![0; 65_000];
        for number in 0..1000 {
            staging.push(peer(number % 100), &frame, &counters);
            assert!(staging.bytes <= MAX_BYTES);
        }
        staging.retain(|_| false, Dropped::PeerGone, &counters);
        assert_eq!(staging.bytes, 0);
        assert_eq!(
            counters.dropped(Dropped::StageFull) + counters.dropped(Dropped::PeerGone),
            1000
        );
    }
}

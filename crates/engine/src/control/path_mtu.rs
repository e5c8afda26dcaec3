//! The MTU of the path to each peer: what the host knows of it, and what probes find.

use super::peers::PeerState;
use super::thread::Control;
use culvert_base::BootTime;
use culvert_datapath::{Command, MIN_PATH_MTU, ip_and_udp_len};
use culvert_packet::{MtuMessage, MtuProbe};
use culvert_path::{Limits, MtuSearch, Probe, STEP};
use culvert_session::{DATA_OVERHEAD, PeerId};
use std::iter;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

impl Control {
    /// Finds out how large datagrams to the peer may be after a run of such of `refused_len` bytes was refused.
    pub(super) fn learn_path(&mut self, id: PeerId, refused_len: usize) {
        if let Some(state) = self.peers.get(id) {
            self.apply_path_mtu(state, Some(refused_len));
        }
    }

    /// Asks the host again about paths that are known to be narrow. After a change of the host's network, each path is
    /// measured again with the next full-size packet.
    pub(super) fn check_path_mtus(&mut self, are_stale: bool) {
        if are_stale {
            for state in self.peers.iter_mut() {
                state.mtu_search.measure_again();
                state.mtu_due = None;
                state.shared.full_size_left.store(false, Ordering::Relaxed);
            }
            self.paths.measurements.clear();
        }
        for state in self.peers.iter() {
            let peer = &state.shared;
            if peer.path_mtu.load(Ordering::Relaxed) != 0 || peer.was_segmentation_refused() {
                peer.forget_mtu();
                self.apply_path_mtu(state, None);
            }
        }
    }

    /// A packet left that a narrow path would lose: the path is measured.
    pub(super) fn handle_full_size(&mut self, id: PeerId, now: BootTime) {
        let (mtu, mark) = (self.link.mtu(), self.sockets.mark());
        let Some(state) = self.peers.get_mut(id) else {
            return;
        };
        let Some(to) = state.shared.endpoint() else {
            return;
        };
        let limits = limits(to.address, mtu, mark);
        let round_trip = state.shared.round_trip();
        state
            .mtu_search
            .handle_full_size(to.address, limits, round_trip, now);
        self.go_on_measuring(id);
    }

    /// The peer got a probe.
    pub(super) fn handle_mtu_answer(&mut self, id: PeerId, probe: MtuProbe, now: BootTime) {
        let MtuProbe { generation, len } = probe;
        self.search(id, |search| search.handle_answer(generation, len, now));
    }

    /// Goes on with the searches that are due.
    pub(super) fn measure_paths(&mut self, now: BootTime) {
        while let Some(id) = self.paths.measurements.pop_due(now) {
            self.search(id, |search| search.handle_timeout(now));
        }
    }

    /// The time at which [`Self::measure_paths`] is due.
    pub(super) fn next_measurement(&self) -> Option<BootTime> {
        self.paths.measurements.next()
    }

    /// Has a search take in an event. Workers see what it has found.
    fn search(&mut self, id: PeerId, event: impl FnOnce(&mut MtuSearch)) {
        let Some(state) = self.peers.get_mut(id) else {
            return;
        };
        let before = state.mtu_search.passes();
        event(&mut state.mtu_search);
        if state.mtu_search.passes() != before
            && let Some(state) = self.peers.get(id)
        {
            self.apply_path_mtu(state, None);
        }
        self.go_on_measuring(id);
    }

    /// Sends the probes of a search, and sees to its next deadline. Once it is over, workers tell of full-size packets again.
    fn go_on_measuring(&mut self, id: PeerId) {
        let Some(state) = self.peers.get_mut(id) else {
            return;
        };
        let probes: Vec<_> = iter::from_fn(|| state.mtu_search.poll_probe()).collect();
        if !probes.is_empty() {
            let count = u16::try_from(probes.len()).unwrap_or(u16::MAX);
            state.shared.expect_probe_answers(count);
        }
        for Probe { generation, len } in probes {
            // One that finds no room is as good as lost, and repeated.
            let probe = MtuMessage::Probe(MtuProbe { generation, len });
            let _repeated = self.workers.command(0, Command::Mtu(id, probe));
        }
        let due = state.mtu_search.poll_timeout();
        let before = mem::replace(&mut state.mtu_due, due);
        if before.is_some() && due.is_none() {
            state.shared.full_size_left.store(false, Ordering::Release);
        }
        self.paths.measurements.replace(id, before, due);
    }

    /// Notes the smaller of what the host knows of the path and what probes found, where full-size records exceed it.
    fn apply_path_mtu(&self, state: &PeerState, refused_len: Option<usize>) {
        let peer = &state.shared;
        let Some(to) = peer.endpoint() else {
            return;
        };
        let overhead = overhead(to.address);
        let probed = state
            .mtu_search
            .passes()
            .map(|len| len.saturating_add(overhead));
        let host = culvert_udp::path_mtu(to.address, self.sockets.mark()).ok();
        let widest = self.link.mtu().saturating_add(overhead);
        let narrow = [probed, host].into_iter().flatten().min();
        match narrow.filter(|&path_mtu| path_mtu < widest) {
            Some(path_mtu) => {
                if peer.path_mtu.load(Ordering::Relaxed) != path_mtu {
                    tracing::debug!(peer = ?peer.public_key, path_mtu, "the path is narrower than the interface");
                }
                peer.note_path_mtu(path_mtu, refused_len, &to.address);
            }
            None => peer.path_mtu.store(0, Ordering::Relaxed),
        }
    }
}

/// The longest packet that a probe proved to pass to `to`, with all headers, from that of the inner one.
pub(super) fn measured_mtu(to: SocketAddr, measured_len: u16) -> u16 {
    measured_len.saturating_add(overhead(to))
}

/// Bytes around an inner packet on the way to `to`.
fn overhead(to: SocketAddr) -> u16 {
    u16::try_from(ip_and_udp_len(&to) + DATA_OVERHEAD).unwrap_or(u16::MAX)
}

/// The lengths of inner packets between which the path is searched: not beyond those that leave this host in one piece.
fn limits(to: SocketAddr, mtu: u16, mark: u32) -> Limits {
    let overhead = overhead(to);
    let whole = culvert_udp::path_mtu(to, mark).map_or(mtu, |host| host.saturating_sub(overhead));
    let floor = MIN_PATH_MTU.saturating_sub(overhead);
    Limits {
        floor: floor - floor % STEP,
        ceiling: mtu.min(whole),
    }
}

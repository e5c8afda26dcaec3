//! Sockets, link state and paths: what the host's network does to the device.

use super::Control;
use super::looping::Looping;
use crate::clock;
use crate::error::EngineError;
use crate::sockets::WorkerSockets;
use crate::store::StoredDescriptors;
use culvert_base::BootTime;
use culvert_base::Family;
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_datapath::Lane;
use culvert_datapath::Mechanism;
use culvert_session::DATA_OVERHEAD;
use culvert_tun::LinkEvent;
use culvert_udp::{Group, Socket, UdpError};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// A path whose MTU was found small is asked again after this time, as RFC 1191 section 6.3
/// recommends ten minutes for an increase.
const PATH_MTU_MAX_AGE: Duration = Duration::from_secs(600);

/// What the store keeps of sockets.
const SOCKETS: [StoredDescriptors; 2] =
    [StoredDescriptors::SocketsV4, StoredDescriptors::SocketsV6];

impl Control {
    /// Takes in what happened to links, addresses and routes. False where our interface is gone.
    pub(super) fn read_network_events(&mut self) -> io::Result<bool> {
        while let Some(event) = self.watch.next_event()? {
            match event {
                LinkEvent::Link { index, up, mtu } if index == self.tun.index() => {
                    self.set_mtu(mtu);
                    self.set_up(up);
                }
                LinkEvent::Removed { index } if index == self.tun.index() => {
                    if !self.is_elsewhere() {
                        return Ok(false);
                    }
                }
                LinkEvent::Link { .. } | LinkEvent::Removed { .. } => self.paths_stale = true,
                LinkEvent::RoutingChanged => self.paths_stale = true,
                LinkEvent::Overflow => {
                    self.paths_stale = true;
                    if !self.read_link() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether the interface that left this namespace lives on in another one. There it is taken to
    /// be up: its sockets stay here, which is what people move a WireGuard interface for. If it is
    /// deleted there, the workers find out.
    fn is_elsewhere(&mut self) -> bool {
        self.is_moved = matches!(self.tun.current_name(), Ok(Some(_)));
        if self.is_moved {
            tracing::info!("the interface moved to another network namespace");
            self.set_up(true);
        }
        self.is_moved
    }

    /// Reads the state of our interface anew. False where it is gone.
    pub(super) fn read_link(&mut self) -> bool {
        if self.is_moved {
            return matches!(self.tun.current_name(), Ok(Some(_)));
        }
        let (Ok(mtu), Ok(up)) = (self.tun.mtu(), self.tun.is_up()) else {
            return false;
        };
        self.set_mtu(u32::from(mtu));
        self.set_up(up);
        true
    }

    fn set_mtu(&mut self, mtu: u32) {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        if self.options.mechanisms.has(Mechanism::SuperframeLimit)
            && let Err(error) = limit_superframes(&self.tun, mtu)
        {
            tracing::debug!(%error, "superframes may exceed one segmented send");
        }
        if mtu != self.mtu {
            tracing::debug!(mtu, "MTU changed");
            self.mtu = mtu;
            self.is_dirty = true;
        }
    }

    fn set_up(&mut self, up: bool) {
        self.down_because = None;
        if up == self.is_up {
            return;
        }
        if !up {
            self.retire_sockets();
        } else if self.sockets.is_none() {
            match self.bind(self.listen_port) {
                Ok(sockets) => {
                    self.sockets = Some(sockets);
                    self.keep_sockets();
                    self.listen_port = self.bound_port();
                }
                Err(error) => {
                    // As the kernel's WireGuard, the link stays down for us; a change of the port
                    // or the next link event tries again.
                    tracing::error!(%error, "link up without sockets");
                    self.down_because = Some(error.to_string());
                    return;
                }
            }
        }
        self.is_up = up;
        self.is_dirty = true;
        tracing::debug!(up, "link state changed");
        self.handshaker.set_up(up, clock::clock());
        self.carry_out();
    }

    /// Gives the sockets up. Workers let go of them with the snapshot that they have now.
    pub(super) fn retire_sockets(&mut self) {
        if let Some(pair) = self.sockets.take().as_deref().and_then(<[_]>::first) {
            self.retired_sockets = Arc::downgrade(&pair.open);
        }
        // The next ones are bound to no interface.
        self.looping = Looping::default();
        self.forget_sockets();
    }

    fn forget_sockets(&mut self) {
        if let Some(store) = &self.options.store {
            for kept in SOCKETS {
                self.has_forgotten |= store.forget(kept);
            }
        }
    }

    /// Hands the sockets to the store; those that are taken over are there already.
    pub(super) fn keep_sockets(&mut self) {
        let (Some(store), Some(sockets)) = (&self.options.store, &self.sockets) else {
            return;
        };
        for (kept, lanes) in [
            (StoredDescriptors::SocketsV4, [Lane::V4, Lane::PriorityV4]),
            (StoredDescriptors::SocketsV6, [Lane::V6, Lane::PriorityV6]),
        ] {
            let all = lanes
                .into_iter()
                .flat_map(|lane| sockets.iter().filter_map(move |pair| pair.lane(lane)));
            store.keep(kept, &all.map(AsFd::as_fd).collect::<Vec<_>>());
        }
    }

    /// Waits until every worker has closed the sockets that were given up, for they may have the
    /// very port that is asked for next: a link that goes down and up at once, a port that is changed
    /// and changed back. Workers look for a newer snapshot every turn, so it takes microseconds.
    fn wait_for_retired_sockets(&mut self) {
        /// A worker that takes longer is stopped by a debugger, or the machine is: the port is then
        /// reported as taken.
        const PATIENCE: Duration = Duration::from_millis(500);
        const PAUSE: Duration = Duration::from_micros(100);
        if self.retired_sockets.strong_count() == 0 {
            return;
        }
        self.publish();
        let began = clock::now();
        while self.retired_sockets.strong_count() > 0
            && clock::now().saturating_since(began) < PATIENCE
        {
            std::thread::sleep(PAUSE);
        }
    }

    /// Tries a link that is up but could not bind once more.
    pub(super) fn retry_up(&mut self) {
        if !self.is_up && self.tun.is_up().unwrap_or(false) {
            self.set_up(true);
        }
    }

    /// Whether `port` could be had now. It is closed again at once: while the link is down nothing arrives.
    pub(super) fn try_port(&mut self, port: u16) -> Result<(), EngineError> {
        self.wait_for_retired_sockets();
        for family in [Family::V4, Family::V6] {
            match Socket::bind(family, port, self.mark) {
                Ok(_) | Err(UdpError::NoSuchFamily { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Opens every worker's pair of sockets on one port.
    pub(super) fn bind(&mut self, port: u16) -> Result<Arc<[WorkerSockets]>, EngineError> {
        /// A port that is free for one family may be taken for the other: that many ports are tried
        /// where the kernel chooses.
        const ATTEMPTS: usize = 16;
        /// For how long a port may stay taken that the store has been told to give free, and how often
        /// that is looked at: a service manager that is not busy takes a millisecond.
        const STORE_PATIENCE: Duration = Duration::from_secs(2);
        const STORE_PAUSE: Duration = Duration::from_millis(5);
        self.wait_for_retired_sockets();
        let began = clock::now();
        let mut attempts = 0;
        loop {
            let error = match self.bind_once(port) {
                Ok(sockets) => return Ok(sockets),
                Err(error) => error,
            };
            attempts += 1;
            // Of one family they may have been taken over already.
            self.forget_sockets();
            let is_taken = matches!(error, EngineError::Udp(UdpError::PortTaken { .. }));
            match port {
                0 if attempts < ATTEMPTS => {}
                1.. if is_taken
                    && self.has_forgotten
                    && !clock::now().has_passed(began, STORE_PATIENCE) =>
                {
                    std::thread::sleep(STORE_PAUSE);
                }
                _ => return Err(error),
            }
        }
    }

    fn bind_once(&mut self, port: u16) -> Result<Arc<[WorkerSockets]>, EngineError> {
        let v4 = self.bind_family(Family::V4, port)?;
        let port = v4.first().map_or(port, Socket::local_port);
        let v6 = self.bind_family(Family::V6, port)?;
        if v4.is_empty() && v6.is_empty() {
            return Err(EngineError::NoFamily("IPv4 and no IPv6"));
        }
        let workers = self.shared.workers();
        let halves = |mut sockets: Vec<Socket>| {
            let priority = sockets.split_off(workers.min(sockets.len()));
            (sockets.into_iter(), priority.into_iter())
        };
        let (mut v4, mut priority_v4) = halves(v4);
        let (mut v6, mut priority_v6) = halves(v6);
        let open = Arc::new(());
        let pairs = (0..workers).map(|_| WorkerSockets {
            v4: v4.next(),
            v6: v6.next(),
            priority_v4: priority_v4.next(),
            priority_v6: priority_v6.next(),
            open: Arc::clone(&open),
        });
        Ok(pairs.collect())
    }

    /// The sockets of all workers, and behind them those for priority packets; none where the host lacks the family.
    fn bind_family(&mut self, family: Family, port: u16) -> Result<Vec<Socket>, EngineError> {
        let group = Group {
            workers: NonZeroUsize::new(self.shared.workers()).unwrap_or(NonZeroUsize::MIN),
            has_priority: self.options.mechanisms.has(Mechanism::Priority),
        };
        let opened = match self.take_over(family, port, group) {
            Some(sockets) => Ok(sockets),
            None => self.open(family, port, group),
        };
        match opened {
            Ok(mut sockets) => {
                // Priority packets are small and rare. A sender of many all the same is to get no more than single
                // datagrams between two superframes of others.
                let joined = match self.options.mechanisms.has(Mechanism::ReceiveOffload) {
                    true => group.workers.get(),
                    false => 0,
                };
                for socket in sockets.iter_mut().skip(joined) {
                    socket
                        .disable_receive_offload()
                        .map_err(EngineError::system("turn receive offload off"))?;
                }
                Ok(sockets)
            }
            Err(UdpError::NoSuchFamily { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens new sockets; without those for priority packets, where the kernel refuses them.
    fn open(&mut self, family: Family, port: u16, group: Group) -> Result<Vec<Socket>, UdpError> {
        if family == Family::V4 {
            // It may be had now, both families being opened anew.
            self.priority_off = None;
        }
        match Socket::bind_group(family, port, group, self.mark) {
            Err(error @ (UdpError::Sorting { .. } | UdpError::System { .. }))
                if group.has_priority =>
            {
                self.priority_off = Some(error.to_string());
                let group = Group {
                    has_priority: false,
                    ..group
                };
                Socket::bind_group(family, port, group, self.mark)
            }
            opened => opened,
        }
    }

    /// The sockets that an earlier process left, where they fit.
    fn take_over(&mut self, family: Family, port: u16, group: Group) -> Option<Vec<Socket>> {
        let kept = match family {
            Family::V4 => StoredDescriptors::SocketsV4,
            Family::V6 => StoredDescriptors::SocketsV6,
        };
        let store = self.options.store.as_ref()?;
        let left = store.take(kept);
        if left.is_empty() {
            // What is not whole, and what these sockets are to take the place of.
            self.has_forgotten |= store.forget(kept);
            return None;
        }
        match Socket::take_over_group(family, port, group, self.mark, left) {
            Ok(sockets) => {
                let port = sockets.first().map(Socket::local_port);
                tracing::info!(%family, port, "the sockets are taken over");
                Some(sockets)
            }
            Err(error) => {
                tracing::warn!("sockets are opened anew: {error}");
                self.has_forgotten |= store.forget(kept);
                None
            }
        }
    }

    /// After the host's addresses or routes changed: source addresses that are gone, or from where
    /// the route no longer leaves, are not used again; small paths are measured again.
    pub(super) fn check_paths(&mut self, now: BootTime) {
        let due = now.saturating_since(self.paths_checked) >= PATH_MTU_MAX_AGE;
        if !self.paths_stale && !due {
            return;
        }
        let are_stale = std::mem::take(&mut self.paths_stale);
        self.paths_checked = now;
        self.follow_interfaces();
        for state in self.peers() {
            let peer = &state.shared;
            if let Some(to) = peer.endpoint()
                && let Some(source) = to.source
                // An error says that there is no route just now: the address may come back with it.
                && matches!(
                    culvert_udp::source_still_valid(to.address, source, self.mark),
                    Ok(false)
                )
            {
                tracing::debug!(peer = ?peer.public_key, "source address dropped");
                peer.forget_source();
            }
        }
        self.check_path_mtus(are_stale);
    }
}

/// Keeps the kernel from building superframes that one segmented send can't carry: every segment
/// grows by [`DATA_OVERHEAD`] on the way.
///
/// Only what this host sends itself is built to that measure. A larger superframe that comes from
/// elsewhere would be cut into single packets by the kernel, which costs far more than a second send,
/// so a host that forwards has no such limit.
///
/// # Errors
/// Those of netlink. The device works without: such a superframe leaves in two sends.
pub(crate) fn limit_superframes(tun: &culvert_tun::Device, mtu: u16) -> io::Result<()> {
    /// What a device has that sets none (`GSO_MAX_SEGS` of `linux/netdevice.h`).
    const NO_LIMIT: u32 = 65_535;
    let segments = MAX_GSO_BYTES / (usize::from(mtu) + DATA_OVERHEAD);
    let segments = u32::try_from(segments.clamp(1, MAX_SEGMENTS)).unwrap_or(1);
    let segments = if is_router() { NO_LIMIT } else { segments };
    tun.set_gso_limits(segments, None)
}

/// Whether this host forwards packets of others.
fn is_router() -> bool {
    let switches = [
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv6/conf/all/forwarding",
    ];
    switches
        .into_iter()
        .filter_map(|path| std::fs::read(path).ok())
        .any(|value| value.first().is_some_and(|digit| *digit != b'0'))
}

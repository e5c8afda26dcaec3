//! The UDP sockets of the device: their port, their mark, and the interface that they are bound to.

use super::paths::TOLD_FOR;
use crate::clock;
use crate::error::EngineError;
use crate::sockets::WorkerSockets;
use crate::store::{DescriptorStore, StoredDescriptors};
use culvert_base::{BootTime, Family};
use culvert_datapath::{Lane, Mechanism, Mechanisms};
use culvert_udp::{Group, Socket, UdpError};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The parts of the store that are sockets.
const SOCKETS: [StoredDescriptors; 2] =
    [StoredDescriptors::SocketsV4, StoredDescriptors::SocketsV6];

/// The settings that sockets are opened with.
pub(super) struct SocketSettings {
    pub(super) workers: usize,
    pub(super) mechanisms: Mechanisms,
    pub(super) store: Option<Arc<dyn DescriptorStore>>,
    /// Sockets whose datagrams come back are bound to an interface.
    pub(super) bind_when_looped: bool,
}

/// The sockets of all workers.
pub(super) struct Sockets {
    settings: SocketSettings,
    /// `None` while the link is down.
    open: Option<Arc<[WorkerSockets]>>,
    /// [`WorkerSockets::open`] of the sockets given up: alive until the last of them is closed.
    retired: Weak<()>,
    /// As configured: 0 lets the kernel choose at link up.
    listen_port: u16,
    mark: u32,
    /// The reason for having no priority sockets, where the kernel refused them.
    priority_off: Option<String>,
    /// Sockets of the store's were forgotten: until they are closed, their port is taken.
    has_forgotten: bool,
    looping: Looping,
}

/// Datagrams of the device that come back into its own interface.
#[derive(Debug, Default)]
struct Looping {
    /// The time of the last one.
    last: Option<BootTime>,
    /// The interfaces that the sockets are bound to because of it, of IPv4 and IPv6.
    bound: [Option<u32>; 2],
}

impl Sockets {
    pub(super) fn new(settings: SocketSettings, listen_port: u16, mark: u32) -> Self {
        Self {
            settings,
            open: None,
            retired: Weak::new(),
            listen_port,
            mark,
            priority_off: None,
            has_forgotten: false,
            looping: Looping::default(),
        }
    }

    pub(super) fn open(&self) -> Option<Arc<[WorkerSockets]>> {
        self.open.clone()
    }

    /// The sockets of the first worker.
    pub(super) fn first(&self) -> Option<&WorkerSockets> {
        self.open.as_deref().and_then(<[_]>::first)
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The port bound, or the one that will be.
    pub(super) fn bound_port(&self) -> u16 {
        let pair = self.first();
        let socket = pair.and_then(|pair| pair.v4.as_ref().or(pair.v6.as_ref()));
        socket.map_or(self.listen_port, Socket::local_port)
    }

    /// The port to listen on from now on: the one that is bound, if there is one.
    pub(super) fn set_listen_port(&mut self, port: u16) {
        self.listen_port = port;
        self.listen_port = self.bound_port();
    }

    pub(super) const fn listen_port(&self) -> u16 {
        self.listen_port
    }

    pub(super) const fn mark(&self) -> u32 {
        self.mark
    }

    pub(super) fn priority_off(&self) -> Option<&str> {
        self.priority_off.as_deref()
    }

    pub(super) const fn store(&self) -> Option<&Arc<dyn DescriptorStore>> {
        self.settings.store.as_ref()
    }

    /// Uses these from now on. Those before are to be given up first.
    pub(super) fn set_open(&mut self, sockets: Arc<[WorkerSockets]>) {
        self.open = Some(sockets);
        self.keep();
    }

    /// Marks `new` sockets, or those that are open, and those that are opened later.
    pub(super) fn set_mark(
        &mut self,
        new: Option<&[WorkerSockets]>,
        mark: u32,
    ) -> Result<(), EngineError> {
        for pair in new.or(self.open.as_deref()).unwrap_or_default() {
            for socket in [&pair.v4, &pair.v6].into_iter().flatten() {
                socket
                    .set_mark(mark)
                    .map_err(EngineError::system("set the firewall mark"))?;
            }
        }
        self.mark = mark;
        Ok(())
    }

    /// Gives the sockets up. Workers let go of them with the snapshot that they have now.
    pub(super) fn retire(&mut self) {
        if let Some(pair) = self.open.take().as_deref().and_then(<[_]>::first) {
            self.retired = Arc::downgrade(&pair.open);
        }
        // The next ones are bound to no interface.
        self.looping = Looping::default();
        self.forget();
    }

    fn forget(&mut self) {
        if let Some(store) = &self.settings.store {
            for stored in SOCKETS {
                self.has_forgotten |= store.forget(stored);
            }
        }
    }

    /// Hands the sockets to the store; those that are taken over are there already.
    fn keep(&mut self) {
        let (Some(store), Some(sockets)) = (&self.settings.store, &self.open) else {
            return;
        };
        for (stored, lanes) in [
            (StoredDescriptors::SocketsV4, [Lane::V4, Lane::PriorityV4]),
            (StoredDescriptors::SocketsV6, [Lane::V6, Lane::PriorityV6]),
        ] {
            let all = lanes
                .into_iter()
                .flat_map(|lane| sockets.iter().filter_map(move |pair| pair.lane(lane)));
            store.keep(stored, &all.map(AsFd::as_fd).collect::<Vec<_>>());
        }
    }

    /// True while a worker has sockets that were given up.
    pub(super) fn has_retired(&self) -> bool {
        self.retired.strong_count() > 0
    }

    /// Waits until every worker has closed the sockets that were given up. A newer snapshot is to be published before:
    /// workers look for one every turn, so it takes microseconds.
    pub(super) fn wait_for_retired(&self) {
        /// A worker that takes longer is stopped by a debugger, or the machine is: the port is then
        /// reported as taken.
        const TIMEOUT: Duration = Duration::from_millis(500);
        const PAUSE: Duration = Duration::from_micros(100);
        let began = clock::now();
        while self.has_retired() && clock::now().saturating_since(began) < TIMEOUT {
            std::thread::sleep(PAUSE);
        }
    }

    /// True if `port` could be had now. It is closed again at once: while the link is down nothing arrives.
    pub(super) fn try_port(&self, port: u16) -> Result<(), EngineError> {
        for family in [Family::V4, Family::V6] {
            match Socket::bind(family, port, self.mark) {
                Ok(_) | Err(UdpError::NoSuchFamily { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Opens every worker's pair of sockets on one port. Those that were given up are to be closed before.
    pub(super) fn bind(&mut self, port: u16) -> Result<Arc<[WorkerSockets]>, EngineError> {
        /// A port that is free for one family may be taken for the other: that many ports are tried
        /// where the kernel chooses.
        const ATTEMPTS: usize = 16;
        /// For how long a port may stay taken that the store has been told to give free, and how often
        /// that is looked at: a service manager that is not busy takes a millisecond.
        const STORE_TIMEOUT: Duration = Duration::from_secs(2);
        const STORE_PAUSE: Duration = Duration::from_millis(5);
        let began = clock::now();
        let mut attempts = 0;
        loop {
            let error = match self.bind_once(port) {
                Ok(sockets) => return Ok(sockets),
                Err(error) => error,
            };
            attempts += 1;
            // Of one family they may have been taken over already.
            self.forget();
            let is_taken = matches!(error, EngineError::Udp(UdpError::PortTaken { .. }));
            match port {
                0 if attempts < ATTEMPTS => {}
                1.. if is_taken
                    && self.has_forgotten
                    && !clock::now().has_passed(began, STORE_TIMEOUT) =>
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
        let workers = self.settings.workers;
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
            workers: NonZeroUsize::new(self.settings.workers).unwrap_or(NonZeroUsize::MIN),
            has_priority: self.settings.mechanisms.has(Mechanism::Priority),
        };
        let opened = match self.take_over(family, port, group) {
            Some(sockets) => Ok(sockets),
            None => self.open_anew(family, port, group),
        };
        match opened {
            Ok(mut sockets) => {
                // Priority packets are small and rare. A sender of many all the same is to get no more than single
                // datagrams between two superframes of others.
                let joined = match self.settings.mechanisms.has(Mechanism::ReceiveOffload) {
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
    fn open_anew(
        &mut self,
        family: Family,
        port: u16,
        group: Group,
    ) -> Result<Vec<Socket>, UdpError> {
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
        let stored = match family {
            Family::V4 => StoredDescriptors::SocketsV4,
            Family::V6 => StoredDescriptors::SocketsV6,
        };
        let store = self.settings.store.as_ref()?;
        let left = store.take(stored);
        if left.is_empty() {
            // Sets that are not whole, and those that these sockets are to replace.
            self.has_forgotten |= store.forget(stored);
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
                self.has_forgotten |= store.forget(stored);
                None
            }
        }
    }

    /// Notes that a datagram came back. True for the first one since the sockets were opened.
    pub(super) fn note_looped(&mut self, now: BootTime) -> bool {
        self.looping.last.replace(now).is_none()
    }

    pub(super) const fn binds_when_looped(&self) -> bool {
        self.settings.bind_when_looped
    }

    /// True if the sockets of a family are bound to an interface.
    pub(super) const fn is_bound(&self, family: Family) -> bool {
        self.looping.bound[family as usize].is_some()
    }

    /// Binds the sockets of a family to an interface, or to none.
    pub(super) fn bind_to(&mut self, family: Family, interface: Option<u32>) {
        let bound = &mut self.looping.bound[family as usize];
        if *bound == interface {
            return;
        }
        let Some(sockets) = &self.open else {
            return;
        };
        let lanes = match family {
            Family::V4 => [Lane::V4, Lane::PriorityV4],
            Family::V6 => [Lane::V6, Lane::PriorityV6],
        };
        let sockets = sockets
            .iter()
            .flat_map(|pair| lanes.iter().filter_map(|lane| pair.lane(*lane)));
        let index = interface.unwrap_or(0);
        for socket in sockets {
            if let Err(error) = socket.bind_to_interface(index) {
                tracing::warn!(%error, index, "the sockets can't be bound to the interface towards the peers");
                return;
            }
        }
        tracing::info!(%family, index, "the sockets are bound to the interface towards the peers");
        *bound = interface;
    }

    /// A line for people, while it matters.
    pub(super) fn loop_problem(&self, now: BootTime) -> Option<String> {
        let is_bound = self.looping.bound.iter().any(Option::is_some);
        let last = self.looping.last?;
        if !is_bound && now.has_passed(last, TOLD_FOR) {
            return None;
        }
        let port = self.bound_port();
        let why = match self.mark {
            0 => "they bear no firewall mark, and the host's routes lead to the peers through this tunnel: set a mark \
                  that a routing rule keeps out of it"
                .to_owned(),
            mark => format!(
                "a firewall rule of another program changes their mark {mark:#x}: have it leave UDP from port {port} \
                 alone (`nft list ruleset` and `iptables-save -t mangle` show rules that set marks)"
            ),
        };
        let meanwhile = match is_bound {
            true => {
                "; its sockets are bound to the interface towards the peers, and receive there alone"
            }
            false => "",
        };
        Some(format!(
            "the tunnel's own datagrams came back into it and were dropped: {why}{meanwhile}"
        ))
    }
}

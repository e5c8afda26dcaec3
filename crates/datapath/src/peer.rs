//! The state of one peer that workers and the control thread share.

use crate::endpoint_watch::EndpointWatch;
use crate::offload_retry::OffloadRetry;
use crate::peer_keys::{PeerKeys, SendingKey};
use crate::sending::Sending;
use culvert_base::BootTime;
use culvert_base::{Destination, LocalAddress};
use culvert_policy::gate::PeerKey;
use culvert_session::{Activity, PeerId, PublicKey, Transport};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A round trip that is believed of any handshake, in microseconds: a busy host takes as long on the same network.
const CREDIBLE_ROUND_TRIP_US: u32 = 4_000;

/// For how long a path that refused a run of datagrams for their size is taken to be narrow, unless its MTU is learned
/// before: as RFC 1191 section 6.3 recommends for an increase.
const NARROW_FOR: Duration = Duration::from_secs(600);

/// The place that records for a peer go to.
#[derive(Clone, Copy, Debug, Default)]
struct Endpoint {
    to: Option<Destination>,
    /// The owner of the device looks at the paths itself: records from elsewhere do not move it.
    is_pinned: bool,
    /// The source of the last authentic record, where that is another and the endpoint is pinned.
    heard_from: Option<SocketAddr>,
}

/// A peer as the workers see it. Lives as long as anyone still seals for it.
pub struct Peer {
    /// Its number.
    pub id: PeerId,
    /// Its key.
    pub public_key: PublicKey,
    /// The news for the timers.
    pub activity: Arc<Activity>,
    /// Locked for the few instructions of a copy or a comparison, once per batch.
    endpoint: Mutex<Endpoint>,
    /// Bytes that went to it.
    pub tx_bytes: AtomicU64,
    /// Bytes that came from it.
    pub rx_bytes: AtomicU64,
    /// Set by the worker that asked for a handshake, cleared by the control thread when it heard:
    /// one request at a time waits in the control thread's queue.
    pub handshake_wanted: AtomicBool,
    /// Until when datagrams go to the endpoint one by one, since segmented sends were refused, in nanoseconds of the clock;
    /// 0 where none was.
    apart_until: AtomicU64,
    /// Refusals that [`Self::apart_until`] follows from.
    segmentation: Mutex<OffloadRetry>,
    /// True if a segmented send that succeeds changes anything.
    segmentation_had_refusals: AtomicBool,
    /// MTU of the path to the endpoint where it is known to be too small for full-size records;
    /// 0 otherwise.
    pub path_mtu: AtomicU16,
    /// A packet of full size left by the path to the endpoint, and the control thread was told.
    pub full_size_left: AtomicBool,
    /// Probes of the path MTU that left, and whose answers have not come: no further answer is heard.
    probes_out: AtomicU16,
    /// Microseconds that a message and its answer take by the path to the endpoint; 0 where that is not known.
    round_trip_us: AtomicU32,
    /// The number by which the gate's table knows the peer, and 1 more; 0 is none.
    gate_key: AtomicU64,
    keys: PeerKeys,
    /// Told of the peer's moves and handshakes, where the owner of the device wants to know them.
    watch: OnceLock<Arc<EndpointWatch>>,
}

impl Peer {
    /// A peer without an endpoint.
    #[must_use]
    pub fn new(id: PeerId, public_key: PublicKey, activity: Arc<Activity>) -> Self {
        Self {
            id,
            public_key,
            activity,
            endpoint: Mutex::default(),
            tx_bytes: AtomicU64::new(0),
            rx_bytes: AtomicU64::new(0),
            handshake_wanted: AtomicBool::new(false),
            apart_until: AtomicU64::new(0),
            segmentation: Mutex::default(),
            segmentation_had_refusals: AtomicBool::new(false),
            path_mtu: AtomicU16::new(0),
            full_size_left: AtomicBool::new(false),
            probes_out: AtomicU16::new(0),
            round_trip_us: AtomicU32::new(0),
            gate_key: AtomicU64::new(0),
            keys: PeerKeys::default(),
            watch: OnceLock::new(),
        }
    }

    /// Notes from here on where the peer goes, for as long as it is a peer. Its present place is news as well.
    pub fn watch_endpoint(&self, watch: &Arc<EndpointWatch>) {
        if self.watch.set(Arc::clone(watch)).is_ok() && self.endpoint().is_some() {
            watch.note(self.id);
        }
    }

    /// The peer is somewhere else, or had a handshake.
    pub fn note_for_watch(&self) {
        if let Some(watch) = self.watch.get() {
            watch.note(self.id);
        }
    }

    /// The key to seal with; `None` until a handshake has completed.
    pub(crate) fn sending(&self) -> Option<SendingKey> {
        self.keys.sending()
    }

    /// The key that workers seal with, for whoever looks at them.
    pub fn sending_key(&self) -> Option<Arc<Sending>> {
        self.sending().map(|key| Arc::clone(&key))
    }

    /// `current` is the key to seal with, unless a worker has seen data under `awaited` already, which becomes it then.
    /// True where it is another one from here on, and workers may wait for it ([`Self::take_waiting`]).
    pub fn set_keys(
        &self,
        current: Option<Arc<Transport>>,
        awaited: Option<Arc<Transport>>,
    ) -> bool {
        self.keys.set(current, awaited)
    }

    /// The first data has come under `key`. True where it is the key to seal with from here on.
    pub(crate) fn confirm_key(&self, key: &Arc<Transport>) -> bool {
        self.keys.confirm(key)
    }

    pub(crate) fn retire_key(&self) {
        self.keys.retire();
    }

    /// `worker` keeps frames until there is a key.
    pub(crate) fn wait_for_key(&self, worker: usize) {
        self.keys.wait(worker);
    }

    /// The workers that keep frames until there is a key, one bit each. They are to be woken.
    pub fn take_waiting(&self) -> u64 {
        self.keys.take_waiting()
    }

    /// By which number the gate's table knows the peer.
    pub fn gate_key(&self) -> Option<PeerKey> {
        let key = self.gate_key.load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(key).ok().map(PeerKey)
    }

    /// Sets the number by which the gate's table knows the peer.
    pub fn set_gate_key(&self, PeerKey(key): PeerKey) {
        self.gate_key.store(u64::from(key) + 1, Ordering::Relaxed);
    }

    /// The address to send to, and the one of ours to send from.
    pub fn endpoint(&self) -> Option<Destination> {
        self.lock().to
    }

    /// Sets the endpoint, and keeps it there whatever the peer's records come from, until [`Self::unpin_endpoint`]. A handshake
    /// moves it all the same: its answer shows that the path leads there and back.
    pub fn pin_endpoint(&self, address: SocketAddr) {
        self.set_endpoint(address);
        let mut endpoint = self.lock();
        endpoint.is_pinned = true;
        endpoint.heard_from = None;
    }

    /// Lets the endpoint follow the peer's records again.
    pub fn unpin_endpoint(&self) {
        let mut endpoint = self.lock();
        endpoint.is_pinned = false;
        endpoint.heard_from = None;
    }

    /// The source of the last authentic record, if it is not the endpoint, which is pinned.
    pub fn heard_elsewhere(&self) -> Option<SocketAddr> {
        self.lock().heard_from
    }

    /// Sets the endpoint by configuration: the host chooses the source address anew.
    pub fn set_endpoint(&self, address: SocketAddr) {
        let before = self.lock().to.replace(Destination {
            address,
            source: None,
        });
        self.forget_mtu();
        if before.is_none_or(|before| before.address != address) {
            self.forget_path();
        }
    }

    /// An authentic record came from `from`, to our address `local`: answer by the same way, unless the endpoint is
    /// pinned.
    ///
    /// "…the endpoint is … the source IP address and port of the most recent correctly-
    /// authenticated packet" (WireGuard paper, section 2.1).
    pub fn roam(&self, from: SocketAddr, local: Option<LocalAddress>) {
        let mut endpoint = self.lock();
        if endpoint.is_pinned {
            let is_there = endpoint.to.is_some_and(|to| to.address == from);
            endpoint.heard_from = (!is_there).then_some(from);
            if !is_there {
                return;
            }
        }
        self.move_to(endpoint, from, local);
    }

    /// The answer to a handshake came from `from`, to our address `local`: the path leads there and back.
    pub fn roam_by_handshake(&self, from: SocketAddr, local: Option<LocalAddress>) {
        let mut endpoint = self.lock();
        endpoint.heard_from = None;
        self.move_to(endpoint, from, local);
    }

    fn move_to(
        &self,
        mut endpoint: MutexGuard<'_, Endpoint>,
        from: SocketAddr,
        local: Option<LocalAddress>,
    ) {
        let heard = Destination {
            address: from,
            source: local,
        };
        if endpoint.to != Some(heard) {
            let moved = endpoint.to.is_none_or(|old| old.address != from);
            endpoint.to = Some(heard);
            drop(endpoint);
            if moved {
                self.forget_path();
                self.note_for_watch();
            }
        }
    }

    /// Lets the host choose the source address of what is sent next.
    pub fn forget_source(&self) {
        if let Some(endpoint) = self.lock().to.as_mut() {
            endpoint.source = None;
        }
    }

    /// True if several datagrams of `len` bytes may leave to the peer in one send, as far as is known: the kernel
    /// refuses a run of datagrams that the path has no room for.
    pub fn takes_runs_of(&self, len: usize, to: &Destination, now: BootTime) -> bool {
        let path_mtu = usize::from(self.path_mtu.load(Ordering::Relaxed));
        !self.is_segmentation_off(now)
            && (path_mtu == 0 || len + ip_and_udp_len(&to.address) <= path_mtu)
    }

    /// Notes that the path takes `path_mtu` bytes. If that was the reason for which a run of datagrams of `refused_len`
    /// bytes was refused, shorter ones may leave together again.
    pub fn note_path_mtu(&self, path_mtu: u16, refused_len: Option<usize>, to: &SocketAddr) {
        self.path_mtu.store(path_mtu, Ordering::Relaxed);
        if refused_len.is_some_and(|len| len + ip_and_udp_len(to) > usize::from(path_mtu)) {
            self.allow_segmentation();
        }
    }

    /// True if datagrams go to the endpoint one by one at the moment.
    pub fn is_segmentation_off(&self, now: BootTime) -> bool {
        now.as_nanos() < self.apart_until.load(Ordering::Relaxed)
    }

    /// True if segmented sends to the endpoint were refused of late.
    pub fn was_segmentation_refused(&self) -> bool {
        self.apart_until.load(Ordering::Relaxed) != 0
    }

    /// Notes that a segmented send was refused because of its size: the path is narrow, and stays so.
    pub fn segmentation_too_big(&self, now: BootTime) {
        let until = now.saturating_add(NARROW_FOR).as_nanos();
        self.apart_until.store(until, Ordering::Relaxed);
    }

    /// Notes that a segmented send was refused for another reason. True where none is made for a while.
    pub fn segmentation_refused(&self, now: BootTime) -> bool {
        let mut segmentation = self.lock_segmentation();
        let is_off = segmentation.refused(now);
        if let Some(until) = segmentation.again_at() {
            self.apart_until.store(until.as_nanos(), Ordering::Relaxed);
        }
        self.segmentation_had_refusals
            .store(true, Ordering::Relaxed);
        is_off
    }

    /// Notes that a segmented send was taken.
    pub fn segmentation_accepted(&self) {
        if self.segmentation_had_refusals.load(Ordering::Relaxed) {
            self.allow_segmentation();
        }
    }

    fn allow_segmentation(&self) {
        self.lock_segmentation().accepted();
        self.segmentation_had_refusals
            .store(false, Ordering::Relaxed);
        self.apart_until.store(0, Ordering::Relaxed);
    }

    fn lock_segmentation(&self) -> MutexGuard<'_, OffloadRetry> {
        self.segmentation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was learned of the path: it is another one.
    pub fn forget_path(&self) {
        self.forget_mtu();
        self.round_trip_us.store(0, Ordering::Relaxed);
    }

    /// Forgets what the path refuses, which may have changed.
    pub fn forget_mtu(&self) {
        self.allow_segmentation();
        self.path_mtu.store(0, Ordering::Relaxed);
        self.full_size_left.store(false, Ordering::Relaxed);
    }

    /// Notes that so many probes of the path MTU leave, instead of those before.
    pub fn expect_probe_answers(&self, count: u16) {
        self.probes_out.store(count, Ordering::Relaxed);
    }

    /// True if an answer to a probe is one of those that are expected: a peer that answers more often than it was asked
    /// does not fill the control thread's queue.
    pub fn takes_probe_answer(&self) -> bool {
        let taken = self
            .probes_out
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        taken.is_ok()
    }

    /// Notes the duration of a handshake. One that had to wait behind data took longer than its path. It therefore
    /// counts as twice the one before at most, or as [`CREDIBLE_ROUND_TRIP_US`]. A path that has grown longer is
    /// believed in time.
    pub fn note_round_trip(&self, round_trip: Duration) {
        let new = u32::try_from(round_trip.as_micros())
            .unwrap_or(u32::MAX)
            .max(1);
        let known = match self.round_trip_us.load(Ordering::Relaxed) {
            0 => new,
            old => new.min(old.saturating_mul(2).max(CREDIBLE_ROUND_TRIP_US)),
        };
        self.round_trip_us.store(known, Ordering::Relaxed);
    }

    /// The time that a message and its answer take by the path to the endpoint, where that is known.
    pub fn round_trip(&self) -> Option<Duration> {
        match self.round_trip_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Duration::from_micros(us.into())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Endpoint> {
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of the headers in front of a datagram to this address.
pub fn ip_and_udp_len(to: &SocketAddr) -> usize {
    const UDP_HEADER_LEN: usize = 8;
    let ip_header_len = if to.is_ipv4() { 20 } else { 40 };
    ip_header_len + UDP_HEADER_LEN
}

//! Handshakes, cookies, timers and key slots of all peers of one interface.

mod answered;
mod initiate;
mod output;
mod peer;
mod peers;
mod receive;
mod slots;
mod stamps;
mod timers;
mod work;

pub use output::{Destination, HandshakeDatagram, Output};
pub use work::{Finished, Step, Work};

use crate::activity::Activity;
use crate::constants::{ANSWER_COPIES_FOR, KEEPALIVE_TIMEOUT, RECHECK_INTERVAL};
use crate::cookie::CookieChecker;
use crate::error::Error;
use crate::ids::{Index, PeerId};
use crate::noise::Identity;
use crate::private_key::PrivateKey;
use crate::random::{Entropy, Random};
use crate::rate_limit::{CookielessRates, SourceRates};
use crate::time::{Clock, Tai64n};
use crate::transport::Transport;
use core::fmt;
use culvert_aead::Suite;
use culvert_base::{BootTime, PresharedKey, PublicKey, UnixTime};
use peer::{Attempt, Peer};
use peers::Peers;
use stamps::Stamps;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Everything about the handshakes, cookies, timers and key slots of all peers of one interface.
/// Never sees a data packet.
///
/// Four kinds of method: `handle_*` take what happened, [`poll_output`](Self::poll_output) returns
/// what to do, setters change the configuration, the rest only tell. After any call with `&mut
/// self`, drain `poll_output`; each call adds a handful of outputs per peer it concerns, so they
/// are bounded by that.
///
/// Calls that name a peer that does not exist do nothing: a worker may speak of a peer that was
/// removed a moment ago.
pub struct Handshaker {
    local: Option<Local>,
    peers: Peers,
    stamps: Stamps,
    outputs: VecDeque<Output>,
    random: Random,
    source_rates: SourceRates,
    cookieless_rates: CookielessRates,
    keepalive_timeout: Duration,
    under_load_at: Option<BootTime>,
    is_up: bool,
    /// Work that began in an earlier one counts for nothing: keys, or the link, are others since.
    era: u64,
    /// The Unix time at the zero of the boot-time clock, where stamps go by that.
    stamp_epoch: Option<UnixTime>,
}

/// The values that are derived from our own private key.
struct Local {
    identity: Arc<Identity>,
    cookies: CookieChecker,
}

impl Handshaker {
    /// An interface that is down, without a private key or peers.
    ///
    /// `seed` is the source of every index, ephemeral key and jitter, so it must be secret and
    /// random, and used once.
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            local: None,
            peers: Peers::default(),
            stamps: Stamps::default(),
            outputs: VecDeque::new(),
            random: Random::from_seed(seed),
            source_rates: SourceRates::new(&seed),
            cookieless_rates: CookielessRates::new(&seed),
            keepalive_timeout: KEEPALIVE_TIMEOUT,
            under_load_at: None,
            is_up: false,
            era: 0,
            stamp_epoch: None,
        }
    }

    /// Stamps initiations from here on by the boot-time clock, which showed zero at `epoch`; with `None` by the wall
    /// clock. A peer refuses a stamp that is not later than all stamps that it has received from us. So a wall clock
    /// that was ahead, and is then corrected, would shut us out for as long as it was ahead.
    pub const fn set_stamp_epoch(&mut self, epoch: Option<UnixTime>) {
        self.stamp_epoch = epoch;
    }

    /// The stamp of an initiation that is made now.
    pub(super) fn stamp(&self, clock: Clock) -> Tai64n {
        self.stamp_epoch.map_or(clock.wall, |epoch| {
            let unix = epoch.since_epoch().saturating_add(clock.now.since_start());
            Tai64n::from_unix(unix.as_secs(), unix.subsec_nanos())
        })
    }

    /// Mixes what `entropy` gives into every ephemeral key from here on.
    pub fn set_entropy(&mut self, entropy: Box<dyn Entropy>) {
        self.random.set_entropy(entropy);
    }

    /// This machine may be a copy of another that has the same memory: nothing that both may have is
    /// used again. Ends all sessions and handshakes under way, mixes `seed` into the source of
    /// randomness, and begins a handshake with each peer that there was a session with.
    pub fn handle_new_generation(&mut self, seed: &[u8; 32], clock: Clock) {
        self.random.reseed(seed);
        self.era += 1;
        if let Some(local) = &mut self.local {
            local.cookies.forget_secret();
        }
        for id in self.peers.ids() {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            let was_in_use = peer.can_send(clock.now) || peer.attempt.is_some();
            for keys in peer.slots.receiving() {
                // Workers have them until they see the next snapshot.
                keys.retire();
            }
            peer.attempt = None;
            self.clear_session(id);
            if was_in_use && self.is_up {
                self.begin_attempt(id, clock);
            }
            self.peers.reschedule(id, self.is_up, clock.now);
        }
    }

    /// Changes our private key; sessions are made anew. Returns the peer that was removed because
    /// the new public key is its own. The same key again changes nothing.
    pub fn set_private_key(&mut self, key: Option<PrivateKey>, clock: Clock) -> Option<PeerId> {
        let public_key = key.as_ref().map(PrivateKey::public_key);
        if public_key == self.public_key() {
            return None;
        }
        self.era += 1;
        let ourselves = public_key.and_then(|key| self.peers.by_key(&key));
        if let Some(id) = ourselves {
            self.remove_peer(id);
        }
        self.local = key.map(|key| {
            let identity = Identity::new(key.to_scalar());
            let cookies = CookieChecker::new(identity.public_key());
            Local {
                identity: Arc::new(identity),
                cookies,
            }
        });
        for peer in self.peers.iter_mut() {
            peer.forget_static_static();
        }
        for id in self.peers.ids() {
            self.clear_session(id);
            if let Some(attempt) = self
                .peers
                .get_mut(id)
                .and_then(|peer| peer.attempt.as_mut())
            {
                attempt.retry_at = clock.now;
            }
            // Keepalives that were requested before a key was set were dropped; send them now.
            if self.is_up && self.local.is_some() && self.keepalive(id).is_some() {
                self.send_keepalive(id, clock);
            }
            self.peers.reschedule(id, self.is_up, clock.now);
        }
        ourselves
    }

    /// Our public key, where there is a private one.
    pub fn public_key(&self) -> Option<PublicKey> {
        self.local
            .as_ref()
            .map(|local| *local.identity.public_key())
    }

    /// Adds a peer without pre-shared key or keepalive, with the suite of plain WireGuard.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with the configuration.
    pub fn add_peer(&mut self, public_key: PublicKey) -> Result<PeerId, Error> {
        if self.public_key() == Some(public_key) {
            return Err(Error::OwnKey);
        }
        let mut peer = Peer::new(public_key);
        peer.keepalive_timeout = self.keepalive_timeout;
        let id = self.peers.insert(peer)?;
        if let Some(peer) = self.peers.get_mut(id)
            && let Some((stamp, at)) = self.stamps.take(&public_key)
        {
            peer.timestamp_received = Some(stamp);
            peer.stamped_at = at;
            peer.is_stamp_old = true;
        }
        Ok(id)
    }

    /// Forgets the peer, its keys, and what was still to be done for it, but not the stamp of its last
    /// initiation: whoever recorded one can't repeat it when the peer is added again. Its id may be
    /// another peer's from here on.
    pub fn remove_peer(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get(id)
            && let Some(stamp) = peer.timestamp_received
        {
            let stamp = (stamp, peer.stamped_at);
            self.stamps.remember(peer.public_key, stamp);
        }
        self.peers.remove(id);
        self.outputs.retain(|output| output.peer() != Some(id));
    }

    /// The peer with this key.
    pub fn peer_by_key(&self, public_key: &PublicKey) -> Option<PeerId> {
        self.peers.by_key(public_key)
    }

    /// Changes the pre-shared key of future handshakes; [`PresharedKey::NONE`] is none.
    pub fn set_preshared_key(&mut self, id: PeerId, key: PresharedKey) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.preshared_key = key;
        }
    }

    /// The pre-shared key; all zeros is none.
    pub fn preshared_key(&self, id: PeerId) -> Option<&PresharedKey> {
        self.peers.get(id).map(|peer| &peer.preshared_key)
    }

    /// Changes the cipher suite. Sessions in the other suite end.
    pub fn set_suite(&mut self, id: PeerId, suite: Suite) {
        if self.suite(id).is_some_and(|current| current != suite) {
            self.peers.set_suite(id, suite);
            self.clear_session(id);
        }
    }

    /// The cipher suite of the peer.
    pub fn suite(&self, id: PeerId) -> Option<Suite> {
        self.peers.get(id).map(|peer| peer.suite)
    }

    /// Changes the interval of the persistent keepalive. Switching it on sends one at once.
    pub fn set_keepalive(&mut self, id: PeerId, interval: Option<Duration>, clock: Clock) {
        let interval = interval.filter(|interval| !interval.is_zero());
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let was_off = peer.keepalive_interval.is_none();
        peer.keepalive_interval = interval;
        if self.is_up && was_off && interval.is_some() {
            self.send_keepalive(id, clock);
        }
        self.peers.reschedule(id, self.is_up, clock.now);
    }

    /// The interval of the persistent keepalive, if it is on.
    pub fn keepalive(&self, id: PeerId) -> Option<Duration> {
        self.peers.get(id)?.keepalive_interval
    }

    /// Sets the time that data of peers that are added from here on may wait for anything to be sent
    /// back, before an empty packet is sent. It is [`KEEPALIVE_TIMEOUT`] unless set otherwise, and never
    /// more. If it is less, the timers of each peer that is not idle are checked that often.
    pub fn set_keepalive_timeout(&mut self, timeout: Duration) {
        self.keepalive_timeout = timeout.min(KEEPALIVE_TIMEOUT);
    }

    /// The marks that workers make for the peer's timers.
    pub fn activity(&self, id: PeerId) -> Option<Arc<Activity>> {
        self.peers.get(id).map(|peer| Arc::clone(&peer.activity))
    }

    /// The peers with keys that are not idle. Data to any other peer has been answered, or was marked a moment ago by a worker
    /// whose news has not been heard yet ([`Self::handle_active`]).
    pub fn watched(&self) -> impl Iterator<Item = PeerId> {
        self.peers.watched()
    }

    /// The time of completion of the last handshake, on the wall clock that was given.
    pub fn last_handshake(&self, id: PeerId) -> Option<Tai64n> {
        self.peers.get(id)?.last_handshake
    }

    /// Link up: persistent keepalives start, each with one at once. Link down: keys and handshakes
    /// are cleared and timers stop.
    pub fn set_up(&mut self, is_up: bool, clock: Clock) {
        if self.is_up == is_up {
            return;
        }
        self.is_up = is_up;
        self.era += 1;
        for id in self.peers.ids() {
            if !is_up {
                self.clear_session(id);
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.attempt = None;
                }
            } else if self.keepalive(id).is_some() {
                self.send_keepalive(id, clock);
            }
            self.peers.reschedule(id, is_up, clock.now);
        }
    }

    /// A worker has data for the peer and no usable key, or a key that wants to be renewed.
    ///
    /// Initiates a handshake, at most once per [`REKEY_TIMEOUT`](crate::REKEY_TIMEOUT); sooner, it
    /// will when that has passed. §6.4: the time after which attempts are given up "is reset when a
    /// peer explicitly attempts to send a new transport data message".
    pub fn handle_wanted(&mut self, id: PeerId, clock: Clock) {
        let is_needed = |peer: &Peer| peer.needs_handshake(clock.now);
        if self.is_up && self.peers.get(id).is_some_and(is_needed) {
            self.begin_attempt(id, clock);
            self.peers.reschedule(id, self.is_up, clock.now);
        }
    }

    /// The path to the peer is suspected, or a better one may exist: begins a handshake however fresh
    /// the keys are. An initiation leaves at once, unless one has within [`RECHECK_INTERVAL`]; the keys
    /// at hand go on until the handshake completes.
    pub fn handle_recheck(&mut self, id: PeerId, clock: Clock) {
        let Some(peer) = self.peers.get_mut(id).filter(|_| self.is_up) else {
            return;
        };
        let sent_at = peer.handshake_sent_at;
        if sent_at.is_some_and(|at| !clock.now.has_passed(at, RECHECK_INTERVAL)) {
            return;
        }
        peer.attempt = Some(Attempt {
            wanted_at: clock.now,
            retry_at: clock.now,
        });
        self.send_initiation(id, clock);
        self.peers.reschedule(id, self.is_up, clock.now);
    }

    /// The first authentic data arrived under `index`, or such as tells that the peer has settled on
    /// those keys: see [`Transport::confirm`].
    pub fn handle_confirmed(&mut self, id: PeerId, index: Index, clock: Clock) {
        let Some(own_key) = self.public_key() else {
            return;
        };
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let is_ours_preferred = own_key > peer.public_key;
        let confirmed = peer.slots.confirm(index, is_ours_preferred, clock.now);
        let Some((keys, dropped)) = confirmed else {
            if peer.slots.resettle(index) {
                self.outputs.push_back(Output::KeysChanged { peer: id });
            }
            return;
        };
        self.handshake_completed(id, &keys, dropped.as_deref(), clock);
        self.peers.reschedule(id, self.is_up, clock.now);
    }

    /// A worker has marked data of a peer whose timers were not looked at: see [`Activity::wants_watch`].
    pub fn handle_active(&mut self, id: PeerId, clock: Clock) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.begin_watch(clock.now);
            self.peers.reschedule(id, self.is_up, clock.now);
        }
    }

    /// The next thing to do, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) must be called at the latest; in
    /// the past if it is overdue. `None` if nothing will happen by itself.
    pub fn next_timeout(&self) -> Option<BootTime> {
        self.peers.next_deadline()
    }

    /// The keys to send to the peer under.
    pub fn sending(&self, id: PeerId) -> Option<Arc<Transport>> {
        self.peers.get(id)?.slots.sending().cloned()
    }

    /// The keys under which the peer may send to us: three at most.
    pub fn receiving(&self, id: PeerId) -> impl Iterator<Item = Arc<Transport>> {
        let slots = self.peers.get(id).map(|peer| &peer.slots);
        slots.into_iter().flat_map(slots::Slots::receiving).cloned()
    }

    /// The initiation to the peer that waits for its response, for an address that was not known when it left. The peer
    /// answers copies for [`ANSWER_COPIES_FOR`], so an older one is not worth sending.
    pub fn waiting_initiation(&self, id: PeerId, now: BootTime) -> Option<HandshakeDatagram> {
        let peer = self.peers.get(id)?;
        let sent_at = peer.initiated_at?;
        let datagram = peer.sent_datagram.as_deref()?;
        (!now.has_passed(sent_at, ANSWER_COPIES_FOR)).then_some(*datagram)
    }

    /// The keys that we made as responder, and that are the keys to send under once data of the peer has confirmed them.
    pub fn awaited(&self, id: PeerId) -> Option<Arc<Transport>> {
        let peer = self.peers.get(id)?;
        let is_ours_preferred = self.public_key()? > peer.public_key;
        peer.slots.awaited(is_ours_preferred).cloned()
    }

    /// The keys of all peers under which they may send to us.
    pub fn live_transports(&self) -> impl Iterator<Item = Arc<Transport>> {
        let slots = self.peers.iter().map(|peer| &peer.slots);
        slots.flat_map(slots::Slots::receiving).cloned()
    }

    /// The number of receiver indices in use: at most four per peer.
    pub fn indices_in_use(&self) -> usize {
        self.peers.indices()
    }

    /// Keys and half-made handshakes of the peer are wiped. Stamps stay, so that no initiation can
    /// be replayed; an attempt goes on with its next initiation.
    fn clear_session(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let had_keys = !peer.slots.is_empty();
        let indices: Vec<_> = peer.indices().collect();
        peer.slots = slots::Slots::default();
        peer.sent = None;
        peer.sent_datagram = None;
        peer.answered = None;
        peer.zero_keys_at = None;
        peer.handshake_sent_at = None;
        peer.keepalive_asked_at = None;
        peer.activity.clear_owed();
        for index in indices {
            self.peers.free_index(index);
        }
        if had_keys {
            self.outputs.push_back(Output::KeysChanged { peer: id });
        }
    }
}

impl fmt::Debug for Handshaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshaker")
            .field("public_key", &self.public_key())
            .field("peers", &self.peers.iter().count())
            .field("is_up", &self.is_up)
            .finish_non_exhaustive()
    }
}

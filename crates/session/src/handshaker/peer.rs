//! The state of one peer.

use super::answered::Answered;
use super::output::HandshakeDatagram;
use super::slots::Slots;
use super::stamps::MAX_AGE;
use crate::activity::Activity;
use crate::constants::{
    INITIATION_BURST, INITIATION_INTERVAL, KEEPALIVE_TIMEOUT, REKEY_ATTEMPT_TIME, REKEY_TIMEOUT,
};
use crate::cookie::MacAdder;
use crate::crypto::Secret;
use crate::drop_reason::DropReason;
use crate::ids::Index;
use crate::noise::{Identity, SentInitiation};
use crate::time::Tai64n;
use culvert_aead::Suite;
use culvert_base::{BootTime, PresharedKey, PublicKey};
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Peer {
    pub(super) public_key: PublicKey,
    pub(super) preshared_key: PresharedKey,
    pub(super) suite: Suite,
    /// Computed by the first handshake: half the Diffie-Hellman of an initiation, and too dear for a configuration of
    /// thousands of peers. `None` for a public key of low order.
    static_static: OnceCell<Option<Secret>>,
    pub(super) macs: MacAdder,
    pub(super) activity: Arc<Activity>,
    pub(super) slots: Slots,

    /// Our initiation that waits for its response. Independent of what the peer initiates.
    pub(super) sent: Option<(Index, Arc<SentInitiation>)>,
    /// That initiation, to be sent to addresses that are found while it waits.
    pub(super) sent_datagram: Option<Box<HandshakeDatagram>>,
    /// The time at which that was sent.
    pub(super) initiated_at: Option<BootTime>,
    /// We are trying to get a handshake through.
    pub(super) attempt: Option<Attempt>,
    /// The time at which we last sent an initiation or a response.
    pub(super) handshake_sent_at: Option<BootTime>,
    /// The stamp of our last initiation: the next has a greater one even if the clock is set back.
    pub(super) timestamp_sent: Option<Tai64n>,
    /// The peer's last initiation and its response, while copies of it may come. Few peers have one at a time.
    pub(super) answered: Option<Box<Answered>>,
    /// §5.1: the greatest stamp received, "kept per peer", also while the peer is removed ([`Stamps`](super::stamps::Stamps)).
    pub(super) timestamp_received: Option<Tai64n>,
    /// The time at which that was received.
    pub(super) stamped_at: BootTime,
    /// The stamp is of before the peer was removed.
    pub(super) is_stamp_old: bool,
    /// The end of the time that the accepted initiations take, one interval each.
    pub(super) initiations_until: BootTime,
    pub(super) last_handshake: Option<Tai64n>,

    /// The time at which everything secret is wiped, unless a new session is made.
    pub(super) zero_keys_at: Option<BootTime>,
    pub(super) keepalive_interval: Option<Duration>,
    /// The time that data of the peer may wait for anything to be sent back.
    pub(super) keepalive_timeout: Duration,
    /// The time at which we last asked for a keepalive; workers may not have sent it yet.
    pub(super) keepalive_asked_at: Option<BootTime>,
    /// The time that data may go unanswered: 15 s, and the current jitter.
    pub(super) answer_timeout: Duration,
    /// Its timers may be looked at while nothing is known to be due.
    pub(super) watch: Watch,
    /// The peer's time in the schedule.
    pub(super) scheduled_at: Option<BootTime>,
}

/// Looks at the timers of a peer while nothing is known to be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// They are not: a worker that marks data says so.
    Off,
    /// They are. The time is that of the last look.
    On(BootTime),
    /// Once more.
    Last(BootTime),
}

/// A handshake in the making.
pub(super) struct Attempt {
    /// The time of the last request for it.
    pub(super) wanted_at: BootTime,
    /// The time of the next (or first) initiation.
    pub(super) retry_at: BootTime,
}

impl Peer {
    pub(super) fn new(public_key: PublicKey) -> Self {
        Self {
            public_key,
            preshared_key: PresharedKey::NONE,
            suite: Suite::default(),
            static_static: OnceCell::new(),
            macs: MacAdder::new(&public_key),
            activity: Arc::default(),
            slots: Slots::default(),
            sent: None,
            sent_datagram: None,
            initiated_at: None,
            attempt: None,
            handshake_sent_at: None,
            timestamp_sent: None,
            answered: None,
            timestamp_received: None,
            stamped_at: BootTime::ZERO,
            is_stamp_old: false,
            initiations_until: BootTime::ZERO,
            last_handshake: None,
            zero_keys_at: None,
            keepalive_interval: None,
            keepalive_timeout: KEEPALIVE_TIMEOUT,
            keepalive_asked_at: None,
            answer_timeout: KEEPALIVE_TIMEOUT + REKEY_TIMEOUT,
            watch: Watch::Off,
            scheduled_at: None,
        }
    }

    /// The static-static secret with `identity`, which is ours; `None` for a public key of low order.
    pub(super) fn static_static(&self, identity: &Identity) -> Option<&Secret> {
        let secret = || identity.static_static(&self.public_key);
        self.static_static.get_or_init(secret).as_ref()
    }

    /// The same, where it is known.
    pub(super) fn known_static_static(&self) -> Option<Option<&Secret>> {
        self.static_static.get().map(Option::as_ref)
    }

    /// The static-static secret is known from here on; `None` for a public key of low order.
    pub(super) fn set_static_static(&self, secret: Option<Secret>) {
        // Two threads may have computed the same one.
        let _known = self.static_static.set(secret);
    }

    /// Our initiation with this index, if it still waits.
    pub(super) fn initiation(&self, index: Index) -> Option<&Arc<SentInitiation>> {
        let (waiting, sent) = self.sent.as_ref()?;
        (*waiting == index).then_some(sent)
    }

    /// Our identity is another one.
    pub(super) fn forget_static_static(&mut self) {
        self.static_static.take();
    }

    /// §5.1: "the responder keeps track of the greatest timestamp received per peer and discards
    /// packets containing timestamps less than or equal to it". Remembers what it accepts.
    pub(super) fn accept_initiation(
        &mut self,
        timestamp: Tai64n,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let is_forgotten = self.is_stamp_old && now.has_passed(self.stamped_at, MAX_AGE);
        if self
            .timestamp_received
            .is_some_and(|last| timestamp <= last && !is_forgotten)
        {
            return Err(DropReason::ReplayedInitiation);
        }
        let until = self.initiations_until.max(now);
        let until = until.saturating_add(INITIATION_INTERVAL);
        if until.saturating_since(now) > INITIATION_INTERVAL * INITIATION_BURST {
            return Err(DropReason::InitiationFlood);
        }
        self.initiations_until = until;
        self.timestamp_received = Some(timestamp);
        self.stamped_at = now;
        self.is_stamp_old = false;
        Ok(())
    }

    /// The receiver indices in use for this peer: four at most.
    pub(super) fn indices(&self) -> impl Iterator<Item = Index> {
        let sent = self.sent.as_ref().map(|&(index, _)| index);
        sent.into_iter()
            .chain(self.slots.receiving().map(|keys| keys.local_index()))
    }

    /// True if data can be sent at `now`.
    pub(super) fn can_send(&self, now: BootTime) -> bool {
        self.slots.sending().is_some_and(|keys| keys.can_send(now))
    }

    /// True if a worker that asks for a handshake has a reason. It may have asked before it saw the
    /// keys that another handshake has brought meanwhile.
    pub(super) fn needs_handshake(&self, now: BootTime) -> bool {
        self.slots.sending().is_none_or(|keys| {
            !keys.can_send(now) || keys.wants_rekey_on_send(now) || keys.wants_rekey_on_receive(now)
        })
    }

    /// The earliest time at which an initiation may be sent.
    pub(super) fn handshake_allowed_at(&self) -> Option<BootTime> {
        self.handshake_sent_at
            .map(|sent_at| sent_at.saturating_add(REKEY_TIMEOUT))
    }

    /// §6.5: "if a peer has received a validly-authenticated transport data message …, but does not
    /// have any packets itself to send back for Keepalive-Timeout seconds, it sends a keepalive".
    pub(super) fn passive_keepalive_at(&self) -> Option<BootTime> {
        let owed_since = self.activity.unacknowledged_since()?;
        let since = self
            .keepalive_asked_at
            .map_or(owed_since, |asked| asked.max(owed_since));
        Some(since.saturating_add(self.keepalive_timeout))
    }

    /// One interval after the last authentic packet in either direction.
    pub(super) fn persistent_keepalive_at(&self) -> Option<BootTime> {
        let interval = self.keepalive_interval?;
        let last = self
            .activity
            .last_sent()
            .max(self.activity.last_received())
            .max(self.keepalive_asked_at)?;
        Some(last.saturating_add(interval))
    }

    /// §6.4: "if a transport data message is sent to a peer and nothing is received back after
    /// Keepalive-Timeout + Rekey-Timeout seconds, a new handshake is initiated".
    pub(super) fn unanswered_at(&self) -> Option<BootTime> {
        let since = self.activity.unanswered_since()?;
        Some(since.saturating_add(self.answer_timeout))
    }

    /// Looks whether workers have marked anything for a while. A peer that is idle is not looked at again: thousands of
    /// them cost nothing. A worker that marks data then says so.
    pub(super) fn look(&mut self, now: BootTime) {
        let looked_at = match self.watch {
            Watch::Off => return,
            Watch::On(at) | Watch::Last(at) => at,
        };
        if !now.has_passed(looked_at, self.keepalive_timeout) {
            return;
        }
        let is_idle = self.activity.is_idle_since(looked_at);
        self.watch = match self.watch {
            // A worker that has looked at this a moment ago may not have made its mark visible yet. There is one more look,
            // after a time in which any has.
            Watch::On(_) if is_idle => {
                self.activity.unwatch();
                Watch::Last(now)
            }
            Watch::Last(_) if is_idle => Watch::Off,
            _ => {
                self.activity.watch();
                Watch::On(now)
            }
        };
    }

    /// There are new keys, or a worker has marked data.
    pub(super) fn begin_watch(&mut self, now: BootTime) {
        self.activity.watch();
        self.watch = Watch::On(now);
    }

    /// True if its marks are looked at: it has keys, and may owe something or wait for an answer.
    pub(super) fn is_watched(&self) -> bool {
        self.watch != Watch::Off && !self.slots.is_empty()
    }

    /// The time at which this peer's timers must be checked: exact for all that is known by `now`.
    /// A mark that a worker makes later falls due one keepalive timeout later at the earliest, so
    /// looking again after that time misses none.
    pub(super) fn deadline(&self, now: BootTime) -> Option<BootTime> {
        let attempt = self.attempt.as_ref().map(Attempt::deadline);
        let look_again = self
            .is_watched()
            .then(|| now.saturating_add(self.keepalive_timeout));
        [
            attempt,
            look_again,
            self.zero_keys_at,
            self.passive_keepalive_at(),
            self.persistent_keepalive_at(),
            self.unanswered_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Attempt {
    /// §6.4: "these attempts … continue for Rekey-Attempt-Time seconds before giving up".
    pub(super) fn gives_up_at(&self) -> BootTime {
        self.wanted_at.saturating_add(REKEY_ATTEMPT_TIME)
    }

    fn deadline(&self) -> BootTime {
        self.retry_at.min(self.gives_up_at())
    }
}

//! The session with the portal: when to connect, what counts as a session, and the portal's clock.

use crate::Backoff;
use culvert_base::{BootTime, UnixTime};
use culvert_wire::Timestamp;
use std::time::Duration;

/// The time limit of the first message (`docs/access.md`, "The control channel").
pub const HELLO_LIMIT_MS: u64 = 10_000;

/// The longest wait between two attempts while the machine's owner is disabled, in milliseconds. All access is back
/// within 30 s after the owner is enabled. The attempt itself has 5 s of them. A denied name is cached for 5 s.
const OWNER_WAIT_MS: u64 = 20_000;

/// The state of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlState {
    /// Not connected; the next attempt comes at an instant.
    Waiting {
        /// That instant.
        until: BootTime,
    },
    /// An attempt is under way.
    Connecting,
    /// `hello` is sent; the answer must come until an instant.
    Greeting {
        /// That instant.
        until: BootTime,
    },
    /// `welcome` was said.
    Open,
    /// The portal will not have this client.
    Ended,
}

/// A message is missing, or belongs to another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message is missing")]
pub struct OutOfOrder;

/// The session with the portal.
#[derive(Debug)]
pub struct ControlSession {
    state: ControlState,
    backoff: Backoff,
    /// The epoch and the number of the last message, once there was one.
    place: Option<(u64, u64)>,
    /// No attempt comes before this, in a hurry or not.
    not_before: BootTime,
    /// The portal's clock less this machine's, at the last connection.
    clock: Option<PortalClock>,
    /// The time since which the session has been open, or has not been.
    pub since: BootTime,
    /// The reason why the last attempt or session ended.
    pub last_error: Option<String>,
    /// The portal's last word was that the machine's owner is disabled.
    owner_disabled: bool,
    /// Attempts to connect, so far.
    pub attempts: u64,
    /// Times that the portal has said `welcome`.
    pub sessions: u64,
}

/// The portal's Unix time at an instant of this machine's boot-time clock.
#[derive(Clone, Copy, Debug)]
struct PortalClock {
    at: BootTime,
    unix: UnixTime,
}

/// The difference between this machine's clock and the portal's up to which the former counts for stamps of handshakes:
/// the portal tells its time in whole seconds, and a connection takes some.
const STAMP_TOLERANCE: Duration = Duration::from_secs(2);

/// The Unix time at the zero of the boot-time clock, by which handshakes are stamped.
///
/// A gateway refuses a handshake that is not stamped later than all that it has seen of a client. A machine whose clock was
/// ahead and is put right, or that starts without a clock, would be refused for as long as the clock was ahead. The portal's
/// clock goes on over all of this. If this machine's own clock agrees with it, the own one counts, which is finer; it
/// is read once, so that setting it later changes nothing.
#[must_use]
pub fn stamp_epoch(portal: Option<UnixTime>, own: UnixTime, now: BootTime) -> UnixTime {
    let is_wrong = |portal: &UnixTime| portal.abs_diff(own) > STAMP_TOLERANCE;
    let unix = portal.filter(is_wrong).unwrap_or(own);
    unix.saturating_sub(now.since_start())
}

impl ControlSession {
    /// A session that is to begin at once.
    #[must_use]
    pub fn new(now: BootTime) -> Self {
        Self {
            // A start is an attempt at once.
            state: ControlState::Waiting { until: now },
            backoff: Backoff::default(),
            place: None,
            not_before: now,
            clock: None,
            since: now,
            last_error: None,
            owner_disabled: false,
            attempts: 0,
            sessions: 0,
        }
    }

    /// The state of the session.
    #[must_use]
    pub const fn state(&self) -> &ControlState {
        &self.state
    }

    /// True if `welcome` was received.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == ControlState::Open
    }

    /// True if there is a connection, or an attempt at one.
    pub fn is_connected(&self) -> bool {
        matches!(
            self.state,
            ControlState::Greeting { .. } | ControlState::Open
        )
    }

    /// Begins an attempt to connect if one is due; true if so.
    pub fn begin_attempt(&mut self, now: BootTime) -> bool {
        let is_due = matches!(self.state, ControlState::Waiting { until } if until <= now);
        if is_due {
            self.state = ControlState::Connecting;
            self.attempts += 1;
        }
        is_due
    }

    /// The connection is there, and `portal` is the portal's clock; `hello` goes out. Nothing where no attempt was under way.
    pub fn connected(&mut self, portal: UnixTime, now: BootTime) -> bool {
        if self.state != ControlState::Connecting {
            return false;
        }
        let until = now.saturating_add(Duration::from_millis(HELLO_LIMIT_MS));
        self.state = ControlState::Greeting { until };
        self.place = None;
        self.clock = Some(PortalClock {
            at: now,
            unix: portal,
        });
        true
    }

    /// A message with this place has come.
    ///
    /// # Errors
    /// [`OutOfOrder`]: a message is missing, or belongs to another session.
    pub fn take_place(&mut self, epoch: u64, seq: u64) -> Result<(), OutOfOrder> {
        let expected = match self.place {
            None => (epoch, 1),
            Some((epoch, last)) => (epoch, last.wrapping_add(1)),
        };
        if (epoch, seq) != expected {
            return Err(OutOfOrder);
        }
        self.place = Some(expected);
        Ok(())
    }

    /// `welcome` was said.
    pub fn open(&mut self, now: BootTime) {
        self.state = ControlState::Open;
        self.since = now;
        self.last_error = None;
        self.owner_disabled = false;
        self.sessions += 1;
        self.backoff.reset();
    }

    /// True from the portal's word that the machine's owner is disabled to the next `welcome`, or to the end.
    #[must_use]
    pub const fn is_owner_disabled(&self) -> bool {
        self.owner_disabled
    }

    /// The portal will have the machine once its owner is enabled again: attempts go on. `random` decides how long to
    /// wait.
    pub fn lost_with_owner(
        &mut self,
        error: String,
        retry_after_ms: Option<u64>,
        random: [u64; 2],
        now: BootTime,
    ) {
        self.owner_disabled = true;
        self.lost(Some(error), retry_after_ms, random, now);
    }

    /// The connection ended, or did not come about. `random` decides how long to wait.
    pub fn lost(
        &mut self,
        error: Option<String>,
        retry_after_ms: Option<u64>,
        random: [u64; 2],
        now: BootTime,
    ) {
        if matches!(
            self.state,
            ControlState::Waiting { .. } | ControlState::Ended
        ) {
            return;
        }
        if self.is_open() {
            self.since = now;
        }
        if error.is_some() {
            self.last_error = error;
        }
        // The portal's word holds for hurried attempts too: their wait starts from it.
        let hurried = Backoff::hurried_wait_ms(random[0]);
        let asked_ms = retry_after_ms.unwrap_or(0);
        let longest_ms = match self.owner_disabled {
            true => OWNER_WAIT_MS,
            false => u64::MAX,
        };
        let wait_ms = self
            .backoff
            .next_wait_within(random[1], retry_after_ms, longest_ms);
        let after = |wait_ms| now.saturating_add(Duration::from_millis(wait_ms));
        self.not_before = after(hurried.max(asked_ms).min(wait_ms));
        self.state = ControlState::Waiting {
            until: after(wait_ms),
        };
    }

    /// Somebody waits for access: the attempt comes as soon as it may.
    pub fn hurry(&mut self) {
        if let ControlState::Waiting { until } = &mut self.state {
            *until = (*until).min(self.not_before);
        }
    }

    /// The network is another: what failed before may work now.
    pub fn network_changed(&mut self, now: BootTime) {
        self.backoff.reset();
        if let ControlState::Waiting { until } = &mut self.state {
            *until = (*until).min(self.not_before).max(now);
        }
    }

    /// There will be no further attempt.
    pub fn end(&mut self, now: BootTime, why: String) {
        if self.is_open() {
            self.since = now;
        }
        self.state = ControlState::Ended;
        self.owner_disabled = false;
        self.last_error = Some(why);
    }

    /// True if the first message is overdue.
    pub fn is_overdue(&self, now: BootTime) -> bool {
        matches!(self.state, ControlState::Greeting { until } if until <= now)
    }

    /// The time of the next attempt to connect, or of the end of a wait.
    #[must_use]
    pub const fn next_timeout(&self) -> Option<BootTime> {
        match self.state {
            ControlState::Waiting { until } | ControlState::Greeting { until } => Some(until),
            ControlState::Connecting | ControlState::Open | ControlState::Ended => None,
        }
    }

    /// The instant of this machine's boot-time clock at which the portal's clock shows `instant`.
    /// An instant in the portal's past is now.
    pub fn local_time(&self, instant: Timestamp, now: BootTime) -> BootTime {
        let portal_now = self.portal_time(now).unwrap_or(UnixTime::MAX);
        now.saturating_add(instant.unix_time().saturating_since(portal_now))
    }

    /// The portal's clock now.
    pub fn portal_time(&self, now: BootTime) -> Option<UnixTime> {
        let clock = self.clock?;
        Some(clock.unix.saturating_add(now.saturating_since(clock.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> BootTime {
        BootTime::from_millis(millis)
    }

    fn connected(now: BootTime) -> ControlSession {
        let mut session = ControlSession::new(now);
        assert!(session.begin_attempt(now));
        assert!(session.connected(UnixTime::from_millis(1_000_000), now));
        session
    }

    #[test]
    fn a_gap_or_another_epoch_is_out_of_order() {
        let mut session = connected(at(0));
        assert_eq!(session.take_place(7, 2), Err(OutOfOrder));
        assert_eq!(session.take_place(7, 1), Ok(()));
        assert_eq!(session.take_place(7, 1), Err(OutOfOrder));
        assert_eq!(session.take_place(7, 3), Err(OutOfOrder));
        assert_eq!(session.take_place(8, 2), Err(OutOfOrder));
        assert_eq!(session.take_place(7, 2), Ok(()));
    }

    #[test]
    fn an_attempt_comes_only_when_it_is_due() {
        let random = [1, 7_777];
        let mut session = connected(at(0));
        session.lost(None, None, random, at(100));
        let due = session.next_timeout().unwrap();
        assert!((at(1_100)..=at(2_100)).contains(&due));
        assert!(!session.begin_attempt(due.saturating_sub(Duration::from_millis(1))));
        assert!(session.begin_attempt(due));
        assert!(!session.begin_attempt(due));
    }

    #[test]
    fn a_hurry_shortens_the_wait_to_two_seconds_but_not_below_retry_after() {
        let random = [2, 88_888];
        let mut session = ControlSession::new(at(0));
        let mut now = at(0);
        for _ in 0..6 {
            assert!(session.begin_attempt(now));
            session.lost(None, None, random, now);
            now = session.next_timeout().unwrap();
        }
        assert!(session.begin_attempt(now));
        session.lost(None, None, random, now);
        session.hurry();
        assert!(session.next_timeout().unwrap() <= now.saturating_add(Duration::from_secs(2)));
        now = session.next_timeout().unwrap();
        assert!(session.begin_attempt(now));
        session.lost(None, Some(20_000), random, now);
        session.hurry();
        assert!(session.next_timeout().unwrap() >= now.saturating_add(Duration::from_secs(20)));
    }

    #[test]
    fn a_machine_of_a_disabled_owner_tries_again_and_never_waits_long() {
        let mut now = at(0);
        let mut session = ControlSession::new(now);
        let mut waits_ms = Vec::new();
        for random in 0..200 {
            assert!(session.begin_attempt(now));
            assert!(session.connected(UnixTime::from_millis(1_000_000), now));
            let random = [random, random * 7_919];
            session.lost_with_owner("disabled".to_owned(), Some(5_000), random, now);
            assert!(session.is_owner_disabled());
            let due = session.next_timeout().unwrap();
            waits_ms.push(due.saturating_since(now).as_millis());
            now = due;
        }
        assert!(
            waits_ms
                .iter()
                .all(|wait_ms| (5_000..=20_000).contains(wait_ms))
        );
        assert!(waits_ms[..2].iter().all(|wait_ms| *wait_ms <= 7_000));
        assert!(waits_ms.iter().any(|wait_ms| *wait_ms > 15_000));
        assert!(session.begin_attempt(now));
        assert!(session.connected(UnixTime::from_millis(1_000_000), now));
        session.open(now);
        assert!(!session.is_owner_disabled());
    }

    #[test]
    fn a_session_that_has_ended_for_another_reason_no_longer_waits_for_the_owner() {
        let mut session = connected(at(0));
        session.lost_with_owner("disabled".to_owned(), Some(5_000), [1, 2], at(0));
        let due = session.next_timeout().unwrap();
        assert!(session.begin_attempt(due));
        session.end(due, "revoked".to_owned());
        assert!(!session.is_owner_disabled());
    }

    #[test]
    fn handshakes_are_stamped_by_the_portals_clock_where_this_machines_is_wrong() {
        const PORTAL_MS: u64 = 1_800_000_000_000;
        const BOOT_MS: u64 = 50_000;
        const TWO_HOURS_MS: u64 = 7_200_000;
        let unix = UnixTime::from_millis;
        let epoch = |portal: Option<UnixTime>, own_ms| {
            let epoch = stamp_epoch(portal, unix(own_ms), at(BOOT_MS));
            epoch.as_millis()
        };
        let told = Some(unix(PORTAL_MS));
        let right = PORTAL_MS - BOOT_MS;
        assert_eq!(epoch(told, PORTAL_MS + TWO_HOURS_MS), right);
        assert_eq!(epoch(told, 0), right, "a machine without a clock");
        assert_eq!(
            epoch(told, PORTAL_MS + 700),
            right + 700,
            "finer than a second"
        );
        for wrong_ms in [
            PORTAL_MS + 2_001,
            PORTAL_MS - 2_001,
            PORTAL_MS + 86_400_000,
            PORTAL_MS - 3_600_000,
            // Ten years ahead, and a clock that counts from 2000 on.
            PORTAL_MS + 315_360_000_000,
            946_684_800_000,
            // Behind the boot-time clock's own zero, and at the end of what 64 bits hold.
            BOOT_MS - 1,
            u64::MAX,
        ] {
            assert_eq!(epoch(told, wrong_ms), right, "{wrong_ms}");
        }
        for off_ms in [0, 1, 1_999, 2_000] {
            assert_eq!(epoch(told, PORTAL_MS + off_ms), right + off_ms);
            assert_eq!(epoch(told, PORTAL_MS - off_ms), right - off_ms);
        }
        let alone = epoch(None, PORTAL_MS + TWO_HOURS_MS);
        assert_eq!(alone, right + TWO_HOURS_MS);
    }

    #[test]
    fn the_portals_clock_counts_and_not_this_machines() {
        let session = connected(at(5_000));
        let in_a_minute = Timestamp::from_unix_ms(1_000_000 + 60_000);
        assert_eq!(session.local_time(in_a_minute, at(5_000)), at(65_000));
        assert_eq!(session.local_time(in_a_minute, at(35_000)), at(65_000));
        let past = Timestamp::from_unix_ms(1);
        assert_eq!(session.local_time(past, at(35_000)), at(35_000));
    }
}

//! The part of the status that clients and gateways share: the session with the portal, drops and
//! counters.

use crate::{ControlSession, ControlState};
use culvert_base::{BootTime, UnixTime, whole_millis};
use serde::{Deserialize, Serialize};

/// The session with the portal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortalStatus {
    /// The state of the session.
    pub state: PortalState,
    /// Since the session was opened, or lost, in milliseconds.
    pub state_for_ms: u64,
    /// The time until the next attempt, in milliseconds.
    pub next_attempt_in_ms: Option<u64>,
    /// The reason why there is no session.
    pub last_error: Option<String>,
    /// Attempts to connect, since the start.
    pub attempts: u64,
    /// Sessions that came about, since the start.
    pub sessions: u64,
    /// By how much this machine's clock is ahead of the portal's, in milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// True if the portal will have this machine once its owner is enabled again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_disabled: bool,
    /// True while the portal lists the resources of a client: some may be missing yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listing: bool,
}

/// A counter of dropped packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropStatus {
    /// The stage at which they were dropped.
    pub stage: String,
    /// The reason.
    pub reason: String,
    /// The number of drops since the start.
    pub count: u64,
}

/// A number of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterStatus {
    /// The name of the counter.
    pub name: String,
    /// The number of events since the start.
    pub count: u64,
}

/// A portal whose clock is off by this much from this machine's is worth a word, in milliseconds.
pub const CLOCK_TOLERANCE_MS: u64 = 60_000;

impl PortalStatus {
    /// The advice about a clock that is too far from the portal's.
    #[must_use]
    pub fn clock_problem(&self) -> Option<String> {
        let ahead_ms = self.clock_ahead_ms?;
        if ahead_ms.unsigned_abs() <= CLOCK_TOLERANCE_MS {
            return None;
        }
        let direction = if ahead_ms > 0 { "ahead of" } else { "behind" };
        Some(format!(
            "this machine's clock is {} s {direction} the portal's: synchronise it (timedatectl set-ntp true)",
            ahead_ms.unsigned_abs() / 1_000
        ))
    }
}

/// The state of the session with the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortalState {
    /// Open.
    Connected,
    /// An attempt is under way.
    Connecting,
    /// The next attempt waits.
    Waiting,
    /// The portal will not have this machine.
    Refused,
    /// There is to be none: the client is down, or signed out.
    Off,
}

impl Default for PortalStatus {
    /// No session, and none wanted.
    fn default() -> Self {
        Self {
            state: PortalState::Off,
            state_for_ms: 0,
            next_attempt_in_ms: None,
            last_error: None,
            attempts: 0,
            sessions: 0,
            clock_ahead_ms: None,
            owner_disabled: false,
            listing: false,
        }
    }
}

impl ControlSession {
    /// The status of the session. `unix` is this machine's clock.
    #[must_use]
    pub fn status(&self, now: BootTime, unix: UnixTime) -> PortalStatus {
        let (state, next_attempt_in_ms) = match *self.state() {
            ControlState::Open => (PortalState::Connected, None),
            ControlState::Connecting | ControlState::Greeting { .. } => {
                (PortalState::Connecting, None)
            }
            ControlState::Waiting { until } => {
                let wait_ms = whole_millis(until.saturating_since(now));
                (PortalState::Waiting, Some(wait_ms))
            }
            ControlState::Ended => (PortalState::Refused, None),
        };
        let signed_ms = |time: UnixTime| i64::try_from(time.as_millis()).unwrap_or(0);
        let portal = self.portal_time(now);
        PortalStatus {
            state,
            state_for_ms: whole_millis(now.saturating_since(self.since)),
            next_attempt_in_ms,
            last_error: self.last_error.clone(),
            attempts: self.attempts,
            sessions: self.sessions,
            clock_ahead_ms: portal.map(|portal| signed_ms(unix) - signed_ms(portal)),
            owner_disabled: self.is_owner_disabled(),
            listing: false,
        }
    }
}

//! Sign-in of this machine with a browser (RFC 8628): the requests to the portal, their times, and the end. The caller
//! sends the requests, one at a time, and brings the answers.

mod begun;
mod status;

pub use status::{SignInFailure, SignInFault, SignInStatus};

use begun::Codes;
use culvert_base::BootTime;
use culvert_wire::api::{DeviceAnswer, DeviceBegun};
use culvert_wire::token::Portal;
use std::time::Duration;
use zeroize::Zeroizing;

/// The shortest time between two beginnings. A portal gives an address 64 codes at once and then one in ten seconds. A
/// program that begins without end uses them up in two minutes, and is told that the portal is busy.
const BEGIN_SPACING: Duration = Duration::from_secs(2);

/// The shortest and the longest pause between two polls, whatever the portal asks for.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// The longest pause after polls that failed, unless the portal asks for a longer one. It is also the longest time for
/// which a person waits after the network is back.
const MAX_BACKOFF: Duration = Duration::from_secs(16);

/// The longest that codes are waited for, whatever the portal says.
const MAX_LIFETIME: Duration = Duration::from_secs(3_600);

/// The longest text of a failure, in characters: the portal may have written a part of it.
const MAX_TEXT_CHARS: usize = 400;

/// A request to the portal.
#[derive(Clone, Debug)]
pub enum SignInRequest {
    /// For codes.
    Begin,
    /// For the decision about the device with this code, which is a secret.
    Poll(Zeroizing<String>),
}

/// The end of a sign-in that somebody approved.
#[derive(Clone)]
pub struct Approved {
    /// The token.
    pub token: Zeroizing<String>,
    /// Its owner.
    pub actor: String,
}

impl std::fmt::Debug for Approved {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Approved")
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

/// The sign-in of this machine: one at a time.
#[derive(Debug, Default)]
pub struct BrowserSignIn {
    current: Option<Current>,
    /// The time of the last request for codes.
    begun: Option<BootTime>,
}

#[derive(Debug)]
struct Current {
    portal: Portal,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Codes are asked for at this time.
    Begins(BootTime),
    /// The request for codes is under way.
    Asking,
    Waiting(Waiting),
    Failed(SignInFault),
}

/// Codes that somebody is to approve.
#[derive(Debug)]
struct Waiting {
    codes: Codes,
    expires: BootTime,
    /// The pause between two polls as the portal wants it.
    interval: Duration,
    /// The longer pause after polls that failed.
    backoff: Option<Duration>,
    /// The time of the next poll; none while one is under way.
    poll: Option<BootTime>,
    /// The fault of the last poll.
    fault: Option<String>,
}

impl BrowserSignIn {
    /// Begins, and gives up an earlier one.
    pub fn begin(&mut self, portal: Portal, now: BootTime) {
        let earliest = self.begun.map(|at| at.saturating_add(BEGIN_SPACING));
        let at = earliest.unwrap_or(now).max(now);
        self.current = Some(Current {
            portal,
            phase: Phase::Begins(at),
        });
    }

    /// Gives it up.
    pub fn cancel(&mut self) {
        self.current = None;
    }

    /// The portal of the sign-in that is under way.
    #[must_use]
    pub fn portal(&self) -> Option<&Portal> {
        self.current.as_ref().map(|current| &current.portal)
    }

    /// The request that is to be sent now, if there is one. Its answer is waited for.
    pub fn poll_request(&mut self, now: BootTime) -> Option<SignInRequest> {
        let phase = &mut self.current.as_mut()?.phase;
        match phase {
            Phase::Begins(at) if *at <= now => {
                *phase = Phase::Asking;
                self.begun = Some(now);
                Some(SignInRequest::Begin)
            }
            Phase::Waiting(waiting) if waiting.poll.is_some_and(|at| at <= now) => {
                waiting.poll = None;
                Some(SignInRequest::Poll(waiting.codes.device.clone()))
            }
            _ => None,
        }
    }

    /// The time at which [`Self::handle_timeout`] or [`Self::poll_request`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        match &self.current.as_ref()?.phase {
            Phase::Begins(at) => Some(*at),
            // The answer to a poll may be the token: it is waited for beyond the end of the codes.
            Phase::Waiting(waiting) => waiting.poll.map(|at| at.min(waiting.expires)),
            Phase::Asking | Phase::Failed(_) => None,
        }
    }

    /// Ends a sign-in whose codes are no longer good. True if it did.
    #[must_use]
    pub fn handle_timeout(&mut self, now: BootTime) -> bool {
        if let Some(current) = &mut self.current
            && let Phase::Waiting(waiting) = &current.phase
            && waiting.poll.is_some()
            && waiting.expires <= now
        {
            let fault = waiting.expired(&current.portal);
            current.fail(fault);
            return true;
        }
        false
    }

    /// Takes the answer to [`SignInRequest::Begin`].
    pub fn handle_begun(&mut self, begun: Result<DeviceBegun, SignInFault>, now: BootTime) {
        let Some(current) = &mut self.current else {
            return;
        };
        if !matches!(current.phase, Phase::Asking) {
            return;
        }
        let begun = begun.and_then(|begun| {
            let lifetime = Duration::from_secs(begun.expires_in_s).min(MAX_LIFETIME);
            let interval = interval(begun.interval_s);
            let codes = Codes::check(begun, &current.portal)?;
            Ok((codes, lifetime, interval))
        });
        match begun {
            Ok((codes, lifetime, interval)) => {
                current.phase = Phase::Waiting(Waiting {
                    codes,
                    expires: now.saturating_add(lifetime),
                    interval,
                    backoff: None,
                    poll: Some(now.saturating_add(interval)),
                    fault: None,
                });
            }
            Err(fault) => current.fail(fault),
        }
    }

    /// Takes the answer to [`SignInRequest::Poll`]. With a token, [`Self::finish`] is to follow.
    pub fn handle_answer(
        &mut self,
        answer: Result<DeviceAnswer, SignInFault>,
        now: BootTime,
    ) -> Option<Approved> {
        let current = self.current.as_mut()?;
        let Phase::Waiting(waiting) = &mut current.phase else {
            return None;
        };
        let url = &current.portal.url;
        let fault = match answer {
            Ok(DeviceAnswer::Approved { token, actor }) => {
                let token = Zeroizing::new(token);
                return Some(Approved { token, actor });
            }
            Ok(DeviceAnswer::Denied) => SignInFault {
                code: SignInFailure::Refused,
                text: format!(
                    "the sign-in was denied in the console of {url}: sign in again, and approve it there"
                ),
            },
            Ok(DeviceAnswer::Expired) => waiting.expired(&current.portal),
            Ok(DeviceAnswer::Pending) => return waiting.go_on(None, now),
            Ok(DeviceAnswer::SlowDown { interval_s }) => {
                // RFC 8628 §3.5: for this and all later polls.
                waiting.interval = waiting.interval.max(interval(interval_s));
                return waiting.go_on(None, now);
            }
            Err(fault) if fault.code.may_pass() => return waiting.go_on(Some(fault.text), now),
            Err(fault) => fault,
        };
        current.fail(fault);
        None
    }

    /// Ends a sign-in with a token: it is in use, or it can't be.
    pub fn finish(&mut self, used: Result<(), SignInFault>) {
        match (used, &mut self.current) {
            (Ok(()), current) => *current = None,
            (Err(fault), Some(current)) => current.fail(fault),
            (Err(_), None) => {}
        }
    }

    /// The state as it is reported; none if there is nothing to report.
    #[must_use]
    pub fn status(&self, now: BootTime) -> Option<SignInStatus> {
        let Current { portal, phase } = self.current.as_ref()?;
        let portal = portal.url.clone();
        Some(match phase {
            Phase::Begins(_) | Phase::Asking => SignInStatus::Asking { portal },
            Phase::Waiting(waiting) => SignInStatus::Waiting {
                portal,
                url: Some(waiting.codes.url.clone()),
                url_complete: waiting.codes.url_with_code.clone(),
                code: Some(waiting.codes.user.clone()),
                expires_in_s: waiting.expires.saturating_since(now).as_secs(),
            },
            Phase::Failed(SignInFault { code, text }) => SignInStatus::Failed {
                portal,
                code_of_failure: *code,
                text: text.clone(),
            },
        })
    }
}

impl Current {
    fn fail(&mut self, SignInFault { code, text }: SignInFault) {
        let text = line(&text);
        self.phase = Phase::Failed(SignInFault { code, text });
    }
}

impl Waiting {
    /// Waits for the next poll. After a fault it polls half as often each time (RFC 8628 §3.5).
    fn go_on(&mut self, fault: Option<String>, now: BootTime) -> Option<Approved> {
        self.backoff = fault.is_some().then(|| {
            let doubled = self.backoff.unwrap_or(self.interval) * 2;
            doubled.min(MAX_BACKOFF).max(self.interval)
        });
        self.fault = fault;
        let pause = self.backoff.unwrap_or(self.interval);
        self.poll = Some(now.saturating_add(pause));
        None
    }

    fn expired(&self, portal: &Portal) -> SignInFault {
        let url = &portal.url;
        let text = match &self.fault {
            None => format!("nobody approved the code at {url} in time: sign in again"),
            Some(fault) => format!(
                "the code expired while {url} could not be asked: {fault}; sign in again once it answers"
            ),
        };
        SignInFault {
            code: SignInFailure::Expired,
            text,
        }
    }
}

fn interval(given_s: u64) -> Duration {
    Duration::from_secs(given_s).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

/// A text of the portal as one line of bounded length.
fn line(text: &str) -> String {
    let plain = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    text.chars().take(MAX_TEXT_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests;

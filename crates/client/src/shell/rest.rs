//! The state of a client that takes commands: up, or at rest for one reason or another.

use super::clock::Now;
use crate::status::{ServiceState, Trouble, TroubleStatus};
use crate::{ClientError, Request, SignIn};
use culvert_base::BootTime;
use std::time::Duration;

/// The time after a fault of this machine until it tries again to go up: the problem waits for a
/// person, or for another service.
const RETRY: Duration = Duration::from_secs(10);

/// The state: up or at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// Nobody to be.
    SignedOut,
    /// Not wanted.
    Down,
    /// To be connected. `is_awaited` says that somebody has just asked for it and waits.
    Up { is_awaited: bool },
    /// Wanted, and not accepted by the portal.
    Refused(TroubleStatus),
    /// Wanted, and not possible: what belongs into the tunnel may be unreachable.
    Failed {
        trouble: TroubleStatus,
        again: BootTime,
    },
}

impl Stand {
    /// The state after an accepted request.
    pub(super) const fn after(request: &Request, is_signed_in: bool) -> Self {
        match request {
            Request::Up | Request::SignIn(SignIn::Token(_)) => Self::Up { is_awaited: true },
            _ if is_signed_in => Self::Down,
            _ => Self::SignedOut,
        }
    }

    /// The state after an end that was not asked for.
    pub(super) fn after_error(error: &ClientError) -> Self {
        let trouble = TroubleStatus {
            code: code(error),
            text: error.to_string(),
        };
        match error.is_of_portal() {
            true => Self::Refused(trouble),
            false => Self::Failed {
                trouble,
                again: Now::read().boot.saturating_add(RETRY),
            },
        }
    }

    /// The time of the next attempt to go up, if there is one.
    pub(super) const fn again(&self) -> Option<BootTime> {
        match self {
            Self::Failed { again, .. } => Some(*again),
            Self::SignedOut | Self::Down | Self::Up { .. } | Self::Refused(_) => None,
        }
    }

    /// The state as it is reported.
    pub(super) const fn state(&self) -> ServiceState {
        match self {
            Self::SignedOut => ServiceState::SignedOut,
            Self::Down => ServiceState::Down,
            Self::Up { .. } => ServiceState::Up,
            Self::Refused(_) => ServiceState::Refused,
            Self::Failed { .. } => ServiceState::Failed,
        }
    }

    /// The trouble, if there is any.
    pub(super) const fn trouble(&self) -> Option<&TroubleStatus> {
        match self {
            Self::Refused(trouble) | Self::Failed { trouble, .. } => Some(trouble),
            Self::SignedOut | Self::Down | Self::Up { .. } => None,
        }
    }

    /// The same for people, with what to do.
    pub(super) fn line(&self) -> String {
        match self {
            Self::SignedOut => "signed out: waits for `culvert sign-in`".to_owned(),
            Self::Down => "down: waits for `culvert up`".to_owned(),
            Self::Up { .. } => "going up".to_owned(),
            Self::Refused(trouble) => format!("refused: {}", trouble.text),
            Self::Failed { trouble, .. } => format!("failed, tried again soon: {}", trouble.text),
        }
    }
}

const fn code(error: &ClientError) -> Trouble {
    match error {
        ClientError::NotEnrolled(_) => Trouble::NotEnrolled,
        ClientError::Denied(_) => Trouble::Denied,
        ClientError::WrongPortal(_) => Trouble::WrongPortal,
        ClientError::Refused(_) => Trouble::Refused,
        _ => Trouble::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_portal_waits_for_a_person_and_a_fault_of_the_machine_is_tried_again() {
        for (error, state, code) in [
            (
                ClientError::NotEnrolled("revoked".to_owned()),
                ServiceState::Refused,
                Trouble::NotEnrolled,
            ),
            (
                ClientError::Denied("revoked".to_owned()),
                ServiceState::Refused,
                Trouble::Denied,
            ),
            (
                ClientError::WrongPortal("another".to_owned()),
                ServiceState::Refused,
                Trouble::WrongPortal,
            ),
            (
                ClientError::InterfaceGone,
                ServiceState::Failed,
                Trouble::Failed,
            ),
        ] {
            let stand = Stand::after_error(&error);
            assert_eq!(stand.state(), state);
            assert_eq!(stand.trouble().unwrap().code, code);
            assert!(stand.line().contains(&error.to_string()));
        }
    }

    #[test]
    fn who_signs_out_is_signed_out_and_who_goes_down_stays_signed_in() {
        assert_eq!(Stand::after(&Request::SignOut, false), Stand::SignedOut);
        assert_eq!(Stand::after(&Request::Down, true), Stand::Down);
        assert_eq!(Stand::after(&Request::Down, false), Stand::SignedOut);
        let up = Stand::Up { is_awaited: true };
        assert_eq!(Stand::after(&Request::Up, true), up);
    }
}

//! The state of the window: one of the cases below, found from what the socket said last.

use crate::sign_in::Progress;
use crate::status::{Control, PortalState, ServiceState, Status};
use std::sync::Arc;

/// The outcome of the last attempt to ask the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Contact {
    /// Nothing was asked yet.
    #[default]
    None,
    /// Nobody answers at the socket.
    Away,
    /// The kernel does not let this user connect.
    Forbidden,
    /// A program of this user answers, which is not the service.
    Stranger(u32),
    /// The service speaks this other version of the form.
    OtherVersion(u32),
    /// The answer is none, with the reason in English.
    Broken(String),
    /// The last answer is from before this machine slept. The answer to a new question is awaited.
    Old,
    /// The service's state.
    Status(Arc<Status>),
}

/// The state of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first answer is awaited.
    Starting,
    /// This machine slept. The service is asked again.
    Checking,
    /// The service does not run.
    ServiceAway,
    /// This user may not use the socket.
    NotPermitted,
    /// A program of this user answers in the service's place.
    Stranger(u32),
    /// The service speaks this other version.
    OtherVersion(u32),
    /// The service's answer can't be read.
    Broken(String),
    /// Nobody is signed in.
    SignedOut,
    /// A sign-in is under way, or has failed.
    SigningIn(Progress),
    /// It is told not to connect.
    Down,
    /// It takes back its changes.
    GoingDown,
    /// It has had no session yet. The reason of the last failure is in English.
    Connecting(Option<String>),
    /// The owner of this client is disabled.
    OwnerDisabled,
    /// There is a session. The reason is given if packets have no path yet.
    Connected(Option<String>),
    /// There was a session; the portal does not answer now.
    PortalAway {
        /// The reason of the last failure, in English.
        why: Option<String>,
        /// The moment of the next attempt, in milliseconds of the window's clock.
        next_attempt_at_ms: Option<u64>,
    },
    /// The portal refuses this client.
    Refused {
        /// For programs.
        code: String,
        /// For people, in English.
        text: String,
    },
    /// A fault of this machine, in English.
    Failed(String),
}

impl Phase {
    /// The state that the window shows after `contact`.
    #[must_use]
    pub fn of(contact: &Contact) -> Self {
        match contact {
            Contact::None => Self::Starting,
            Contact::Old => Self::Checking,
            Contact::Away => Self::ServiceAway,
            Contact::Forbidden => Self::NotPermitted,
            Contact::Stranger(user) => Self::Stranger(*user),
            Contact::OtherVersion(version) => Self::OtherVersion(*version),
            Contact::Broken(text) => Self::Broken(text.clone()),
            Contact::Status(status) => {
                let phase = Self::of_status(status);
                // Somebody may sign in anew by a terminal meanwhile: that hides no resources.
                match Self::of_sign_in(status).filter(|_| !phase.shows_resources()) {
                    Some(sign_in) => sign_in,
                    None => phase,
                }
            }
        }
    }

    fn of_sign_in(status: &Status) -> Option<Self> {
        let told = status.service.sign_in.as_ref()?;
        Progress::of(told, status.heard.service_ms).map(Self::SigningIn)
    }

    fn of_status(status: &Status) -> Self {
        let trouble = status.service.trouble.clone().unwrap_or_default();
        match status.service.state {
            ServiceState::SignedOut => Self::SignedOut,
            ServiceState::Down => Self::Down,
            ServiceState::GoingDown => Self::GoingDown,
            ServiceState::Refused => Self::Refused {
                code: trouble.code,
                text: trouble.text,
            },
            ServiceState::Failed => Self::Failed(trouble.text),
            // A value of a later service: the session says what there is.
            ServiceState::Up | ServiceState::Other => Self::of_session(status),
        }
    }

    fn of_session(status: &Status) -> Self {
        let portal = &status.portal;
        if portal.owner_disabled {
            return Self::OwnerDisabled;
        }
        match portal.state {
            PortalState::Connected if status.ready => Self::Connected(None),
            PortalState::Connected => {
                Self::Connected(Some(status.not_ready_because.clone().unwrap_or_default()))
            }
            PortalState::Refused => Self::Refused {
                code: String::new(),
                text: portal.last_error.clone().unwrap_or_default(),
            },
            _ if portal.sessions > 0 => Self::PortalAway {
                why: portal.last_error.clone(),
                next_attempt_at_ms: portal
                    .next_attempt_in_ms
                    .map(|wait_ms| status.heard.portal_ms.saturating_add(wait_ms)),
            },
            _ => Self::Connecting(portal.last_error.clone()),
        }
    }

    /// True if the resources of the status are shown: there is a session, or there was one and its grants still hold.
    #[must_use]
    pub const fn shows_resources(&self) -> bool {
        matches!(
            self,
            Self::Connected(_) | Self::PortalAway { .. } | Self::OwnerDisabled
        )
    }

    /// True if the texts of this state count seconds.
    #[must_use]
    pub const fn counts_seconds(&self) -> bool {
        matches!(
            self,
            Self::SigningIn(Progress::Code(_))
                | Self::PortalAway {
                    next_attempt_at_ms: Some(_),
                    ..
                }
        )
    }
}

/// The commands that the window offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// To sign in, or to sign in anew.
    pub sign_in: bool,
    /// To connect.
    pub up: bool,
    /// To disconnect.
    pub down: bool,
    /// To sign out.
    pub sign_out: bool,
}

impl Offer {
    /// The commands that make sense in `phase`. None if an administrator's token controls the client.
    #[must_use]
    pub fn of(phase: &Phase, control: Control) -> Self {
        if control == Control::Token {
            return Self::default();
        }
        let none = Self::default();
        match phase {
            Phase::SignedOut | Phase::SigningIn(Progress::Failed(_)) => Self {
                sign_in: true,
                ..none
            },
            Phase::Down => Self {
                up: true,
                sign_out: true,
                ..none
            },
            Phase::Connecting(_)
            | Phase::Connected(_)
            | Phase::PortalAway { .. }
            | Phase::OwnerDisabled
            | Phase::Failed(_) => Self {
                down: true,
                sign_out: true,
                ..none
            },
            Phase::Refused { .. } => Self {
                sign_in: true,
                up: true,
                down: true,
                sign_out: true,
            },
            _ => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Portal, Service, SignIn, SignInState, Trouble};

    fn status(state: ServiceState, portal: Portal) -> Status {
        Status {
            service: Service {
                control: Control::Commands,
                state,
                ..Service::default()
            },
            portal,
            ..Status::default()
        }
    }

    fn phase(status: Status) -> Phase {
        Phase::of(&Contact::Status(Arc::new(status)))
    }

    fn session(state: PortalState, sessions: u64) -> Portal {
        Portal {
            state,
            sessions,
            last_error: Some("no route".to_owned()),
            ..Portal::default()
        }
    }

    #[test]
    fn each_outcome_of_the_socket_has_a_state() {
        let table = [
            (Contact::None, Phase::Starting),
            (Contact::Old, Phase::Checking),
            (Contact::Away, Phase::ServiceAway),
            (Contact::Forbidden, Phase::NotPermitted),
            (Contact::Stranger(7), Phase::Stranger(7)),
            (Contact::OtherVersion(2), Phase::OtherVersion(2)),
            (
                Contact::Broken("x".to_owned()),
                Phase::Broken("x".to_owned()),
            ),
        ];
        for (contact, expected) in table {
            assert_eq!(Phase::of(&contact), expected);
            assert!(!expected.shows_resources());
            assert_eq!(Offer::of(&expected, Control::Commands), Offer::default());
        }
    }

    #[test]
    fn each_state_of_the_service_has_a_state() {
        let off = Portal::default;
        assert_eq!(
            phase(status(ServiceState::SignedOut, off())),
            Phase::SignedOut
        );
        assert_eq!(phase(status(ServiceState::Down, off())), Phase::Down);
        assert_eq!(
            phase(status(ServiceState::GoingDown, off())),
            Phase::GoingDown
        );
        let mut refused = status(ServiceState::Refused, off());
        refused.service.trouble = Some(Trouble {
            code: "denied".to_owned(),
            text: "no".to_owned(),
        });
        assert_eq!(
            phase(refused),
            Phase::Refused {
                code: "denied".to_owned(),
                text: "no".to_owned()
            }
        );
        assert_eq!(
            phase(status(ServiceState::Failed, off())),
            Phase::Failed(String::new())
        );
    }

    #[test]
    fn a_portal_that_never_answered_is_told_from_one_that_is_away() {
        let why = Some("no route".to_owned());
        let first = status(ServiceState::Up, session(PortalState::Waiting, 0));
        assert_eq!(phase(first), Phase::Connecting(why.clone()));
        let mut later = status(ServiceState::Up, session(PortalState::Waiting, 3));
        later.portal.next_attempt_in_ms = Some(1_001);
        later.heard.portal_ms = 500;
        let away = phase(later);
        assert_eq!(
            away,
            Phase::PortalAway {
                why,
                next_attempt_at_ms: Some(1_501)
            }
        );
        assert!(away.shows_resources());
    }

    #[test]
    fn connected_says_if_packets_have_a_path() {
        let mut connected = status(ServiceState::Up, session(PortalState::Connected, 1));
        connected.not_ready_because = Some("no gateway".to_owned());
        assert_eq!(
            phase(connected.clone()),
            Phase::Connected(Some("no gateway".to_owned()))
        );
        connected.ready = true;
        assert_eq!(phase(connected.clone()), Phase::Connected(None));
        connected.portal.owner_disabled = true;
        assert_eq!(phase(connected), Phase::OwnerDisabled);
    }

    #[test]
    fn a_sign_in_of_the_service_is_shown_until_it_ends() {
        let mut signing_in = status(ServiceState::SignedOut, Portal::default());
        signing_in.service.sign_in = Some(SignIn {
            state: SignInState::Asking,
            ..SignIn::default()
        });
        assert_eq!(
            phase(signing_in.clone()),
            Phase::SigningIn(Progress::Asking)
        );
        // Resources stay.
        signing_in.service.state = ServiceState::Up;
        signing_in.portal.state = PortalState::Connected;
        signing_in.ready = true;
        assert_eq!(phase(signing_in), Phase::Connected(None));
        let over = status(ServiceState::SignedOut, Portal::default());
        assert_eq!(phase(over), Phase::SignedOut);
    }

    #[test]
    fn an_administrators_token_leaves_no_commands() {
        for phase in [Phase::Connected(None), Phase::Down, Phase::SignedOut] {
            assert_eq!(Offer::of(&phase, Control::Token), Offer::default());
            assert_ne!(Offer::of(&phase, Control::Commands), Offer::default());
        }
    }
}

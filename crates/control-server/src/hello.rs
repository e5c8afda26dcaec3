//! The first message of a machine, and the reason for which a session does not come about.

use culvert_hub::OWNER_RETRY_AFTER_S;
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, OWNER_DISABLED, Reason, ReasonCode,
};

/// The reason for which a session does not come about.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: Reason,
    pub(super) retry_after_s: Option<u32>,
}

impl Refused {
    /// For good, until somebody does something about it.
    pub(super) fn for_good(code: ReasonCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            reason: Reason { code, text },
            retry_after_s: None,
        }
    }

    /// Until the client's owner is enabled.
    pub(super) fn owner_disabled() -> Self {
        Self {
            reason: Reason {
                code: ReasonCode::OwnerDisabled,
                text: OWNER_DISABLED.to_owned(),
            },
            retry_after_s: Some(OWNER_RETRY_AFTER_S),
        }
    }

    pub(super) fn later(retry_after_s: u32, text: &str) -> Self {
        let code = ReasonCode::TryLater;
        let text = text.to_owned();
        Self {
            reason: Reason { code, text },
            retry_after_s: Some(retry_after_s),
        }
    }

    pub(super) fn not_hello() -> Self {
        Self::protocol("the first message is hello")
    }

    pub(super) fn protocol(text: impl Into<String>) -> Self {
        Self::for_good(ReasonCode::Protocol, text)
    }
}

/// The first message of a machine.
#[derive(Debug)]
pub(super) enum Hello {
    Client(FromClient),
    Gateway(FromGateway),
    Relay(FromRelay),
}

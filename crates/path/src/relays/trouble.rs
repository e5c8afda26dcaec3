//! The reasons for which a relay carries nothing of an end, for people.

use culvert_relay_core::message::RefusalReason;

/// The reason for which a relay carries nothing of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayTrouble<'a> {
    /// It gives no answer by UDP, and is not reached by TLS for this reason.
    Unreached(&'a str),
    /// It answers, and refuses the end.
    Refused(RefusalReason),
}

impl RelayTrouble<'_> {
    /// A line for people, if there is something that they can do: with the fix.
    #[must_use]
    pub fn problem(&self, relay: &str) -> Option<String> {
        match self {
            Self::Unreached(why) => Some(format!(
                "relay {relay} gives no answer by UDP, and is not reached by TLS either: {why}"
            )),
            Self::Refused(reason) => {
                let fix = fix(*reason)?;
                Some(format!(
                    "relay {relay} refuses this machine: {reason}; {fix}"
                ))
            }
        }
    }
}

const fn fix(reason: RefusalReason) -> Option<&'static str> {
    match reason {
        // The end asks again by itself, or the portal names another relay.
        RefusalReason::Cookie | RefusalReason::Draining | RefusalReason::TooOften => None,
        RefusalReason::Token | RefusalReason::OtherRelay => {
            Some("restart the relay, so that it asks the portal for its key")
        }
        RefusalReason::Expired => Some(
            "the portal's clock was set since the relay connected to it: synchronise the portal \
             (timedatectl set-ntp true) and restart the relay",
        ),
        RefusalReason::Outdated => Some(
            "this passes within two minutes if the portal's clock was set back: synchronise the portal \
             (timedatectl set-ntp true)",
        ),
        RefusalReason::Full => Some("add a relay"),
        RefusalReason::Other(_) => Some("update this machine"),
    }
}

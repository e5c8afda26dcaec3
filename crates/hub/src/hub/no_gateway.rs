//! The reasons for which no gateway can be given.

use crate::reasons::StatedReason;
use culvert_wire::messages::{Reason, ReasonCode};

/// No gateway can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoGateway {
    /// None is connected that was not tried.
    Absent,
    /// Those that there are have as many grants as they may.
    Busy,
    /// Those that there are would lead the resource's names anywhere.
    Outdated,
    /// Those that there are wait to be verified by an administrator.
    Unverified,
    /// The account allows relayed paths alone, and those that there are have no relay.
    Unrelayed,
}

impl NoGateway {
    pub(super) fn refusal(self, failure: Option<&Reason>) -> StatedReason {
        match (self, failure) {
            (_, Some(failure)) if failure.code == ReasonCode::NameUnanswered => StatedReason::new(
                failure.code,
                "the site's DNS did not answer for the name",
                format!("the gateway refused: {}", failure.text),
            ),
            (_, Some(failure)) if failure.code == ReasonCode::HostAddress => StatedReason::new(
                ReasonCode::GatewayRefused,
                "the resource is on the gateway's own machine, which serves clients only with `--host-access`",
                format!("the gateway refused: {}", failure.text),
            ),
            (_, Some(failure)) => StatedReason::new(
                ReasonCode::GatewayRefused,
                "the gateway refused",
                format!("the gateway refused: {}", failure.text),
            ),
            (Self::Absent, None) => StatedReason::plain(
                ReasonCode::NoGateway,
                "no gateway of the site can be reached",
            ),
            (Self::Busy, None) => {
                StatedReason::plain(ReasonCode::TryLater, "the site's gateways are too busy")
            }
            (Self::Outdated, None) => StatedReason::new(
                ReasonCode::NoGateway,
                "no gateway of the site can be used",
                "the resource says where its names may lead (`within`), and the site's gateways do not see \
                 to that: update them",
            ),
            (Self::Unverified, None) => StatedReason::new(
                ReasonCode::NoGateway,
                "no gateway of the site can be used",
                "the site's gateways wait to be verified by an administrator: compare the fingerprint, then \
                 `culvert admin gateway verify`",
            ),
            (Self::Unrelayed, None) => StatedReason::new(
                ReasonCode::NoGateway,
                "no gateway of the site is reached through a relay",
                "the account allows relayed paths alone (`paths`), and neither the client nor a gateway of the site \
                 can do without: connect a relay that the site may use, and update clients and gateways",
            ),
        }
    }
}

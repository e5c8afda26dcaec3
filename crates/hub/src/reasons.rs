//! Reasons for which access is denied or ended: in brief for the machine, in full for the log.

use super::directory::Barred;
use culvert_policy::{BriefCode, Decision};
use culvert_wire::messages::{OWNER_DISABLED, Reason, ReasonCode};

/// The time after which a machine may come back that was refused for a passing reason, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// The time after which a client may come back whose owner is disabled, in seconds. Thousands of clients may wait
/// for long, and each has access again within 30 s after its owner is enabled (docs/client.md).
pub const OWNER_RETRY_AFTER_S: u32 = 5;

/// The reason for which a grant or session is refused, or ends.
#[derive(Clone, Debug)]
pub(super) struct StatedReason {
    pub(super) brief: Reason,
    /// For administrators.
    pub(super) full: String,
}

impl StatedReason {
    pub(super) fn new(code: ReasonCode, text: &str, full: impl Into<String>) -> Self {
        Self {
            brief: brief(code, text),
            full: full.into(),
        }
    }

    /// The same for both.
    pub(super) fn plain(code: ReasonCode, text: &str) -> Self {
        Self::new(code, text, text)
    }

    /// The reason for a denial that the policies decided.
    pub(super) fn decided(decision: &Decision, full: String) -> Self {
        let decided = decision.brief();
        let code = match decided.code {
            BriefCode::ConditionNotMet => ReasonCode::ConditionNotMet,
            BriefCode::NoAccess => ReasonCode::NoAccess,
            // It is asked for only of denials; if it were not, it would still deny.
            BriefCode::Allowed => ReasonCode::Internal,
        };
        Self::new(code, &decided.text, full)
    }

    /// The resource is for some applications alone, and the client is not known to see to that.
    pub(super) fn applications() -> Self {
        Self::new(
            ReasonCode::ConditionNotMet,
            "only some applications may use it, which needs a newer version of culvert here",
            "only some applications may reach the resource, and the client's version of culvert does \
             not see to that: update it",
        )
    }

    /// The client, its token or its owner is barred.
    pub(super) fn barred(barred: Barred) -> Self {
        match barred {
            Barred::Unknown => Self::new(
                ReasonCode::Revoked,
                "this client was removed",
                "the client, its actor or its token does not exist",
            ),
            Barred::Deleted => Self::new(
                ReasonCode::Revoked,
                "this client was removed",
                "the client, its actor or its token was deleted",
            ),
            Barred::Revoked => Self::new(
                ReasonCode::Revoked,
                "this client was revoked",
                "the client is revoked",
            ),
            Barred::TokenRevoked => Self::new(
                ReasonCode::Revoked,
                "the token of this client was revoked",
                "the token that the client came with is revoked",
            ),
            Barred::ActorDisabled => Self::new(
                ReasonCode::OwnerDisabled,
                OWNER_DISABLED,
                "the owner of the client is disabled",
            ),
            Barred::Token => Self::new(
                ReasonCode::BadToken,
                "the token has expired",
                "the token that the client came with has expired",
            ),
        }
    }

    /// The resource allows none of the name's addresses. The client is told that the name has none.
    pub(super) fn outside(text: &str) -> Self {
        Self::new(
            ReasonCode::NameNotFound,
            "the name has no address that its resource allows",
            format!("the gateway refused: {text}"),
        )
    }

    pub(super) fn no_resource() -> Self {
        Self::new(
            ReasonCode::NoAccess,
            "no policy gives access",
            "there is no such resource",
        )
    }
}

pub(super) fn brief(code: ReasonCode, text: &str) -> Reason {
    Reason {
        code,
        text: text.to_owned(),
    }
}

pub(super) fn overflow() -> Reason {
    brief(
        ReasonCode::TryLater,
        "more messages wait than are kept; connect again to get them all",
    )
}

pub(super) fn replaced() -> Reason {
    brief(
        ReasonCode::Replaced,
        "this machine has connected a second time",
    )
}

/// The reason for which a machine that comes with a good token is not let in after all. If the machine is
/// unknown, a later change may tell of it, so it may try again.
pub(super) fn not_admitted(barred: Barred) -> Reason {
    match barred {
        Barred::Unknown => brief(
            ReasonCode::TryLater,
            "the portal does not know this machine yet",
        ),
        Barred::Deleted => brief(
            ReasonCode::Revoked,
            "this machine, its token or its actor was deleted",
        ),
        Barred::Revoked => brief(ReasonCode::Revoked, "this machine was revoked"),
        Barred::TokenRevoked => brief(ReasonCode::Revoked, "the token of this machine was revoked"),
        Barred::ActorDisabled => brief(ReasonCode::OwnerDisabled, OWNER_DISABLED),
        Barred::Token => brief(ReasonCode::BadToken, "the token is not accepted"),
    }
}

/// The time after which to come back, in seconds; none for reasons other than a passing one.
pub(super) const fn retry_after_s(code: ReasonCode) -> Option<u32> {
    match code {
        ReasonCode::TryLater => Some(RETRY_AFTER_S),
        ReasonCode::OwnerDisabled => Some(OWNER_RETRY_AFTER_S),
        _ => None,
    }
}

/// True if a machine that is refused for the reason does not come back by itself.
pub(super) const fn is_lasting(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::Revoked | ReasonCode::BadToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_revoked_or_deleted_is_named() {
        for (barred, machine, client) in [
            (Barred::Revoked, "machine was revoked", "client was revoked"),
            (
                Barred::TokenRevoked,
                "the token of this machine was revoked",
                "the token of this client was revoked",
            ),
            (Barred::Unknown.known(), "was deleted", "was removed"),
        ] {
            let told = not_admitted(barred);
            assert_eq!(told.code, ReasonCode::Revoked, "{barred:?}");
            assert!(told.text.contains(machine), "{barred:?}: {}", told.text);
            let told = StatedReason::barred(barred).brief;
            assert!(told.text.contains(client), "{barred:?}: {}", told.text);
            assert_eq!(retry_after_s(told.code), None, "{barred:?}");
        }
    }

    #[test]
    fn a_client_whose_owner_is_disabled_is_told_to_come_back() {
        let told = not_admitted(Barred::ActorDisabled);
        assert_eq!(told, StatedReason::barred(Barred::ActorDisabled).brief);
        assert_eq!(told, brief(ReasonCode::OwnerDisabled, OWNER_DISABLED));
        assert!(retry_after_s(told.code).is_some());
        assert!(!is_lasting(told.code));
    }
}

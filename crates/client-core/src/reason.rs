//! The portal's reasons: in a form that can be shown, and as an answer to packets.

use super::packet::PacketRefusal;
use culvert_wire::messages::{Reason, ReasonCode};

/// Characters of the portal's reasons that are kept: two lines of a terminal.
const MAX_REASON_CHARS: usize = 160;

/// The message to senders if access ends or is not given for this reason.
pub(super) const fn refusal(code: ReasonCode) -> PacketRefusal {
    match code {
        ReasonCode::BadToken
        | ReasonCode::NoAccess
        | ReasonCode::ConditionNotMet
        | ReasonCode::Expired
        | ReasonCode::PolicyChanged
        | ReasonCode::Revoked
        | ReasonCode::OwnerDisabled => PacketRefusal::Prohibited,
        ReasonCode::Protocol
        | ReasonCode::Replaced
        | ReasonCode::TryLater
        | ReasonCode::NoGateway
        | ReasonCode::GatewayRefused
        | ReasonCode::HostAddress
        | ReasonCode::NameNotFound
        | ReasonCode::NameOutside
        | ReasonCode::NameUnanswered
        | ReasonCode::TooMany
        | ReasonCode::BadGrant
        | ReasonCode::Internal
        | ReasonCode::Other => PacketRefusal::Unreachable,
    }
}

/// A reason of the portal in a form that can be shown: it may come to a terminal and to a log.
pub(super) fn tidy(reason: &Reason) -> Reason {
    let plain = |letter: char| !letter.is_control();
    let text = reason.text.chars().filter(|letter| plain(*letter));
    Reason {
        code: reason.code,
        text: text.take(MAX_REASON_CHARS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_loses_what_disturbs_a_terminal() {
        let text = format!("a\u{1b}[31m\nb{}", "x".repeat(500));
        let tidied = tidy(&Reason {
            code: ReasonCode::NoAccess,
            text,
        })
        .text;
        assert!(tidied.starts_with("a[31mbx") && tidied.len() == MAX_REASON_CHARS);
    }
}

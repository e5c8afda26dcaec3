//! The texts that the window shows for a state.

mod rate;

use crate::notices::{Cause, Notice};
use crate::phase::Phase;
use crate::rates::Rate;
use crate::resources::{Denied, Path, Row};
use crate::sign_in::{Failure, Progress};
use crate::status::{AccessState, Gateway, SCHEMA_VERSION, Status};
use crate::text;
use crate::words::{Language, Message, Value, Words};
pub use rate::{rate, traffic};

/// The heading of a state, and a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// The heading.
    pub title: String,
    /// The sentence; empty if there is nothing to add.
    pub detail: String,
    /// The name of an icon of the icon theme.
    pub icon: &'static str,
}

/// Facts around a state that its headline needs.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The path of the socket.
    pub socket: &'a str,
    /// The URL of the portal.
    pub portal_url: &'a str,
    /// The moment, by the clock of the window.
    pub now_ms: u64,
}

/// The headline of a state.
#[must_use]
pub fn headline(words: &Words, phase: &Phase, around: &Around<'_>) -> Headline {
    let plain = |icon, title, detail: String| Headline {
        title: words.get(title),
        detail,
        icon,
    };
    let get = |message| words.get(message);
    match phase {
        Phase::Starting => plain(
            "content-loading-symbolic",
            Message::StartingTitle,
            String::new(),
        ),
        Phase::Checking => plain(
            "content-loading-symbolic",
            Message::CheckingTitle,
            get(Message::CheckingDetail),
        ),
        Phase::ServiceAway => {
            let detail = words.with(Message::AwayDetail, &[("path", Value::Text(around.socket))]);
            plain("network-offline-symbolic", Message::AwayTitle, detail)
        }
        Phase::NotPermitted => plain(
            "changes-prevent-symbolic",
            Message::ForbiddenTitle,
            get(Message::ForbiddenDetail),
        ),
        Phase::Stranger(user) => {
            let user = user.to_string();
            let values = [
                ("user", Value::Text(&user)),
                ("path", Value::Text(around.socket)),
            ];
            let detail = words.with(Message::StrangerDetail, &values);
            plain("dialog-warning-symbolic", Message::StrangerTitle, detail)
        }
        Phase::OtherVersion(version) => {
            let (theirs, ours) = (version.to_string(), SCHEMA_VERSION.to_string());
            let values = [
                ("theirs", Value::Text(&theirs)),
                ("ours", Value::Text(&ours)),
            ];
            let detail = words.with(Message::VersionDetail, &values);
            plain(
                "software-update-available-symbolic",
                Message::VersionTitle,
                detail,
            )
        }
        Phase::Broken(why) => {
            let detail = words.with(Message::BrokenDetail, &[("why", Value::Text(why))]);
            plain("dialog-warning-symbolic", Message::BrokenTitle, detail)
        }
        Phase::SigningIn(progress) => of_sign_in(words, progress),
        _ => of_service(words, phase, around),
    }
}

fn of_sign_in(words: &Words, progress: &Progress) -> Headline {
    let (icon, title, detail) = match progress {
        Progress::Asking => (
            "content-loading-symbolic",
            Message::AskingTitle,
            String::new(),
        ),
        Progress::Code(_) => (
            "web-browser-symbolic",
            Message::CodeTitle,
            words.get(Message::CodeDetail),
        ),
        Progress::Failed(failure) => (
            "dialog-warning-symbolic",
            Message::SignInFailedTitle,
            sign_in_failure(words, failure),
        ),
    };
    Headline {
        title: words.get(title),
        detail,
        icon,
    }
}

/// The reason why a sign-in failed: by its code in the language of the window, otherwise in English.
fn sign_in_failure(words: &Words, failure: &Failure) -> String {
    words.get(match failure.code.as_str() {
        "expired" => Message::FailureExpired,
        "refused" => Message::FailureRefused,
        "unreachable" => Message::FailureUnreachable,
        "certificate" => Message::FailureCertificate,
        "not_a_portal" => Message::FailureNotAPortal,
        "busy" => Message::FailureBusy,
        _ => return text::isolate(&failure.text),
    })
}

fn of_service(words: &Words, phase: &Phase, around: &Around<'_>) -> Headline {
    let plain = |icon, title, detail: String| Headline {
        title: words.get(title),
        detail,
        icon,
    };
    let get = |message| words.get(message);
    let or = |text: &str, otherwise| match text.is_empty() {
        true => get(otherwise),
        false => text::isolate(text),
    };
    match phase {
        Phase::SignedOut => plain(
            "avatar-default-symbolic",
            Message::SignedOutTitle,
            get(Message::SignedOutDetail),
        ),
        Phase::Down => plain(
            "network-offline-symbolic",
            Message::DownTitle,
            get(Message::DownDetail),
        ),
        Phase::GoingDown => plain(
            "content-loading-symbolic",
            Message::GoingDownTitle,
            String::new(),
        ),
        Phase::Connecting(why) => {
            let detail = or(
                why.as_deref().unwrap_or_default(),
                Message::ConnectingDetail,
            );
            plain(
                "network-transmit-receive-symbolic",
                Message::ConnectingTitle,
                detail,
            )
        }
        Phase::OwnerDisabled => plain(
            "changes-prevent-symbolic",
            Message::OwnerDisabledTitle,
            get(Message::OwnerDisabledDetail),
        ),
        Phase::Connected(None) => {
            let portal = host_of(around.portal_url);
            Headline {
                title: words.with(Message::ConnectedTitle, &[("portal", Value::Text(portal))]),
                detail: get(Message::ConnectedDetail),
                icon: "network-vpn-symbolic",
            }
        }
        Phase::Connected(Some(why)) => plain(
            "network-error-symbolic",
            Message::NoPathTitle,
            or(why, Message::ConnectedDetail),
        ),
        Phase::PortalAway {
            next_attempt_at_ms, ..
        } => {
            let mut detail = get(Message::PortalAwayDetail);
            let left_ms = next_attempt_at_ms.map(|at| at.saturating_sub(around.now_ms));
            // An attempt that is due is under way.
            if let Some(left_ms) = left_ms.filter(|left_ms| *left_ms > 0) {
                let time = time(words, left_ms.div_ceil(1_000));
                detail += " ";
                detail += &words.with(Message::PortalAwayNext, &[("time", Value::Text(&time))]);
            }
            plain("network-error-symbolic", Message::PortalAwayTitle, detail)
        }
        Phase::Refused { code, text } => {
            let detail = match trouble(code) {
                Some(message) => get(message),
                None => text::isolate(text),
            };
            plain("action-unavailable-symbolic", Message::RefusedTitle, detail)
        }
        Phase::Failed(why) => plain(
            "dialog-warning-symbolic",
            Message::FailedTitle,
            or(why, Message::FailedDetail),
        ),
        _ => plain(
            "content-loading-symbolic",
            Message::StartingTitle,
            String::new(),
        ),
    }
}

fn trouble(code: &str) -> Option<Message> {
    Some(match code {
        "not_enrolled" => Message::TroubleNotEnrolled,
        "denied" => Message::TroubleDenied,
        "wrong_portal" => Message::TroubleWrongPortal,
        _ => return None,
    })
}

/// The host and port of a URL, which is all that people need of it.
#[must_use]
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The state of a resource in a word.
#[must_use]
pub fn state(words: &Words, state: AccessState) -> String {
    words.get(match state {
        AccessState::Idle => Message::StateIdle,
        AccessState::Asking => Message::StateAsking,
        AccessState::Granted => Message::StateGranted,
        AccessState::Denied => Message::StateDenied,
        AccessState::Other => Message::StateOther,
    })
}

/// The state of a row in a word.
#[must_use]
pub fn state_of(words: &Words, row: &Row) -> String {
    match row.end {
        Some(_) => words.get(Message::StateEnded),
        None => state(words, row.state),
    }
}

/// Writes a moment, in seconds since 1970, in the time of this machine. None if it can't be written.
pub type LocalTime = fn(&Words, i64) -> Option<String>;

/// The line below a resource's address: the path of a grant, the reason of a denial, or the moment at which the access
/// ended. Empty for others.
#[must_use]
pub fn about(words: &Words, row: &Row, local_time: LocalTime) -> String {
    if let Some(end) = row.end {
        let message = match end.is_exact {
            true => Message::AccessEnded,
            false => Message::AccessEndedBy,
        };
        let time = local_time(words, end.unix_s);
        return time.map_or_else(String::new, |time| {
            words.with(message, &[("time", Value::Text(&time))])
        });
    }
    if let Some(why) = &row.why {
        return reason(words, why, local_time);
    }
    let Some((gateway, path)) = &row.through else {
        return String::new();
    };
    let path = words.get(path_message(*path));
    let through = words.with(
        Message::Through,
        &[
            ("gateway", Value::Text(gateway)),
            ("path", Value::Text(&path)),
        ],
    );
    match row.rate {
        Some(rate) => format!("{through} · {}", traffic(words, rate)),
        None => through,
    }
}

/// The reason of a denial: by its code, in the language of the window, and what the portal adds in English.
#[must_use]
pub fn reason(words: &Words, why: &Denied, local_time: LocalTime) -> String {
    let opens = why.opens_unix_s.and_then(|at| local_time(words, at));
    if let Some(time) = opens {
        return words.with(Message::ReasonOutsideHours, &[("time", Value::Text(&time))]);
    }
    let Some(message) = reason_message(&why.code) else {
        return match why.text.is_empty() {
            true => state(words, AccessState::Denied),
            false => text::isolate(&why.text),
        };
    };
    // The text of a condition says which one, such as the hours in which it holds.
    match why.code == "condition_not_met" && !why.text.is_empty() {
        true => {
            let reason = words.get(message);
            let values = [
                ("reason", Value::Text(&reason)),
                ("text", Value::Text(&why.text)),
            ];
            words.with(Message::ReasonWithText, &values)
        }
        false => words.get(message),
    }
}

fn reason_message(code: &str) -> Option<Message> {
    Some(match code {
        "no_access" => Message::ReasonNoAccess,
        "condition_not_met" => Message::ReasonConditionNotMet,
        "no_gateway" => Message::ReasonNoGateway,
        "gateway_refused" => Message::ReasonGatewayRefused,
        "host_address" => Message::ReasonHostAddress,
        "name_not_found" => Message::ReasonNameNotFound,
        "name_outside" => Message::ReasonNameOutside,
        "name_unanswered" => Message::ReasonNameUnanswered,
        "too_many" => Message::ReasonTooMany,
        "expired" => Message::ReasonExpired,
        "policy_changed" => Message::ReasonPolicyChanged,
        "revoked" => Message::ReasonRevoked,
        "owner_disabled" => Message::ReasonOwnerDisabled,
        "internal" => Message::ReasonInternal,
        _ => return None,
    })
}

const fn path_message(path: Path) -> Message {
    match path {
        Path::Direct => Message::PathDirect,
        Path::Relayed => Message::PathRelayed,
        Path::RelayedByTls => Message::PathRelayedTls,
        Path::None => Message::PathNone,
    }
}

/// A row for a screen reader.
#[must_use]
pub fn label(words: &Words, row: &Row) -> String {
    let state = state_of(words, row);
    let values = [
        ("name", Value::Text(&row.name)),
        ("address", Value::Text(&row.target)),
        ("state", Value::Text(&state)),
    ];
    words.with(Message::RowLabel, &values)
}

/// The lines below a gateway's name: its path, and its round trip and rates. The service told them `age_ms` ago.
#[must_use]
pub fn gateway(words: &Words, gateway: &Gateway, age_ms: u64) -> [String; 2] {
    let path = match &gateway.relay_name {
        Some(relay) if gateway.path == "relayed" => {
            words.with(Message::GatewayPathRelay, &[("relay", Value::Text(relay))])
        }
        _ => words.get(path_message(Path::of(gateway))),
    };
    let mut parts = vec![path];
    if gateway.by_tls && gateway.relay_name.is_some() {
        parts.push("TLS".to_owned());
    }
    parts.extend(gateway.endpoint.as_deref().map(text::isolate));
    parts.extend(gateway.why.as_deref().map(text::isolate));
    let mut second = Vec::new();
    /// A gateway that is silent for less may only have nothing to say.
    const SILENT_MS: u64 = 5_000;
    if let Some(silent_ms) = gateway
        .silent_for_ms
        .map(|silent_ms| silent_ms.saturating_add(age_ms))
        .filter(|silent_ms| *silent_ms >= SILENT_MS)
    {
        let time = time(words, silent_ms / 1_000);
        second.push(words.with(Message::GatewaySilent, &[("time", Value::Text(&time))]));
    }
    if let Some(round_trip_us) = gateway.round_trip_us {
        let time = round_trip(words, round_trip_us);
        second.push(words.with(Message::GatewayRoundTrip, &[("time", Value::Text(&time))]));
    }
    second.push(traffic(
        words,
        Rate {
            received: gateway.rx_bytes_per_s,
            sent: gateway.tx_bytes_per_s,
        },
    ));
    [parts.join(" · "), second.join(" · ")]
}

/// A time in its largest whole unit.
#[must_use]
pub fn time(words: &Words, seconds: u64) -> String {
    let (count, message) = match seconds {
        0..120 => (seconds, Message::TimeSeconds),
        120..7_200 => (seconds / 60, Message::TimeMinutes),
        _ => (seconds / 3_600, Message::TimeHours),
    };
    plain(&words.with(message, &[("count", Value::Number(count))]))
}

/// A round trip in milliseconds.
#[must_use]
pub fn round_trip(words: &Words, microseconds: u32) -> String {
    format!(
        "{} ms",
        tenths(words, u64::from(microseconds).div_ceil(100))
    )
}

fn tenths(words: &Words, tenths: u64) -> String {
    let point = match words.language() {
        Language::English => '.',
        Language::German => ',',
    };
    format!("{}{point}{}", tenths / 10, tenths % 10)
}

/// A message whose values are numbers alone, without the isolates: it becomes a value itself.
fn plain(text: &str) -> String {
    text.replace(['\u{2068}', '\u{2069}'], "")
}

/// The text of a notification.
#[must_use]
pub fn notice(words: &Words, notice: &Notice) -> [String; 2] {
    let more = u64::try_from(notice.more).unwrap_or(u64::MAX);
    let values = [
        ("name", Value::Text(notice.name.as_str())),
        ("more", Value::Number(more)),
    ];
    let title = match notice.cause {
        Cause::Denied => words.with(Message::NoticeDenied, &values),
        Cause::Ended => words.with(Message::NoticeEnded, &values),
        Cause::PortalLost => words.get(Message::NoticePortalLost),
        Cause::Refused => words.get(Message::NoticeRefused),
        Cause::ServiceLost => words.get(Message::NoticeServiceLost),
    };
    let body = match notice.cause {
        Cause::Denied | Cause::Ended => {
            reason_message(&notice.code).map(|message| words.get(message))
        }
        Cause::PortalLost => Some(words.get(Message::PortalAwayDetail)),
        Cause::Refused | Cause::ServiceLost => None,
    };
    [title, body.unwrap_or_default()]
}

/// The name of a check of netcheck; one of a later program keeps its own.
#[must_use]
pub fn check(words: &Words, check: &str) -> String {
    let id = format!("check-{check}");
    let known = Message::ALL.iter().find(|message| message.id() == id);
    known.map_or_else(|| text::isolate(check), |&message| words.get(message))
}

/// The names of the versions of service and window.
#[must_use]
pub fn service_version(status: &Status) -> String {
    match status.version.is_empty() {
        true => "–".to_owned(),
        false => text::clean(&status.version),
    }
}

/// The way in which the system asks for names.
#[must_use]
pub fn dns(words: &Words, status: &Status) -> String {
    match &status.dns.control {
        Some(control) if control.applied => {
            words.with(Message::DnsOn, &[("mode", Value::Text(&control.mode))])
        }
        Some(_) => words.get(Message::DnsOff),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;

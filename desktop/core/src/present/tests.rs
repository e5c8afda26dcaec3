use super::*;
use crate::favourites::Favourites;
use crate::sign_in::Code;

const AROUND: Around<'_> = Around {
    socket: "/run/x.sock",
    portal_url: "https://p.example:8443/",
    now_ms: 0,
};

fn bare(text: &str) -> String {
    text.replace(['\u{2068}', '\u{2069}'], "")
}

fn failure(code: &str) -> Failure {
    Failure {
        code: code.to_owned(),
        text: "it <b>failed".to_owned(),
    }
}

fn no_time(_: &Words, _: i64) -> Option<String> {
    None
}

fn all_phases() -> Vec<Phase> {
    let code = Code {
        user_code: "A-B".to_owned(),
        url: "https://p.example/d".to_owned(),
        expires_at_ms: 9,
    };
    let text = || "why".to_owned();
    vec![
        Phase::Starting,
        Phase::ServiceAway,
        Phase::NotPermitted,
        Phase::Stranger(7),
        Phase::OtherVersion(2),
        Phase::Broken(text()),
        Phase::SignedOut,
        Phase::SigningIn(Progress::Asking),
        Phase::SigningIn(Progress::Code(code)),
        Phase::SigningIn(Progress::Failed(failure("expired"))),
        Phase::Down,
        Phase::GoingDown,
        Phase::Connecting(None),
        Phase::OwnerDisabled,
        Phase::Connected(None),
        Phase::Connected(Some(text())),
        Phase::PortalAway {
            why: None,
            next_attempt_at_ms: Some(5_000),
        },
        Phase::Refused {
            code: "denied".to_owned(),
            text: text(),
        },
        Phase::Failed(String::new()),
    ]
}

#[test]
fn each_state_has_a_title_of_its_own_in_each_language() {
    for language in Language::ALL {
        let words = Words::new(language);
        let titles: std::collections::BTreeSet<String> = all_phases()
            .iter()
            .map(|phase| headline(&words, phase, &AROUND).title)
            .collect();
        assert_eq!(titles.len(), all_phases().len(), "{titles:?}");
    }
}

#[test]
fn reasons_are_in_the_language_of_the_window() {
    let words = Words::new(Language::German);
    let phase = Phase::Refused {
        code: "denied".to_owned(),
        text: "revoked".to_owned(),
    };
    let detail = headline(&words, &phase, &AROUND).detail;
    assert_eq!(
        detail,
        "Die Administration hat diesem Rechner den Zugang entzogen."
    );
    let unknown = Phase::Refused {
        code: "later".to_owned(),
        text: "some text".to_owned(),
    };
    assert_eq!(
        bare(&headline(&words, &unknown, &AROUND).detail),
        "some text"
    );
    let why = |code: &str, text: &str| {
        let denied = Denied {
            code: code.to_owned(),
            text: text.to_owned(),
            opens_unix_s: None,
        };
        bare(&reason(&words, &denied, no_time))
    };
    assert_eq!(why("expired", "x"), "Die Zeit des Zugangs ist abgelaufen");
    assert_eq!(
        why("condition_not_met", "mon-fri 08:00-18:00"),
        "Eine Bedingung der Richtlinie ist gerade nicht erfüllt: mon-fri 08:00-18:00"
    );
    assert_eq!(why("later", "a text"), "a text");
    assert_eq!(why("later", ""), "Verweigert");
}

#[test]
fn connected_names_the_portal_without_its_scheme() {
    let words = Words::new(Language::English);
    let headline = headline(&words, &Phase::Connected(None), &AROUND);
    assert_eq!(bare(&headline.title), "Connected to p.example:8443");
}

#[test]
fn times_rates_and_round_trips_are_short() {
    let (english, german) = (Words::new(Language::English), Words::new(Language::German));
    assert_eq!(time(&english, 1), "1 second");
    assert_eq!(time(&german, 119), "119 Sekunden");
    assert_eq!(time(&german, 120), "2 Minuten");
    assert_eq!(time(&english, 7_200), "2 hours");
    assert_eq!(rate(&english, 124), "992 bit/s");
    assert_eq!(rate(&german, 190_000), "1,5 Mbit/s");
    assert_eq!(rate(&english, u64::MAX), "18446744073.7 Gbit/s");
    assert_eq!(round_trip(&english, 0), "0.0 ms");
    assert_eq!(round_trip(&german, 12_310), "12,4 ms");
}

#[test]
fn a_gateway_tells_path_round_trip_and_rates() {
    let words = Words::new(Language::English);
    let mut shown = Gateway {
        path: "relayed".to_owned(),
        relay_name: Some("relay-1".to_owned()),
        endpoint: Some("192.0.2.20:51820".to_owned()),
        round_trip_us: Some(4_200),
        silent_for_ms: Some(4_999),
        rx_bytes_per_s: 125,
        ..Gateway::default()
    };
    let lines = gateway(&words, &shown, 0).map(|line| bare(&line));
    assert_eq!(lines[0], "by relay relay-1 · 192.0.2.20:51820");
    assert_eq!(lines[1], "Round trip 4.2 ms · 1.0 kbit/s in, 0 bit/s out");
    shown.by_tls = true;
    shown.why = Some("UDP gets no answer".to_owned());
    assert_eq!(
        bare(&gateway(&words, &shown, 0)[0]),
        "by relay relay-1 · TLS · 192.0.2.20:51820 · UDP gets no answer"
    );
    shown.silent_for_ms = Some(9_000);
    assert!(bare(&gateway(&words, &shown, 0)[1]).starts_with("No answer for 9 seconds"));
}

#[test]
fn a_notification_counts_and_has_no_markup() {
    let words = Words::new(Language::German);
    let told = |more| {
        let name = "‹b›".to_owned();
        let code = "revoked".to_owned();
        notice(
            &words,
            &Notice {
                cause: Cause::Ended,
                name,
                code,
                more,
            },
        )
        .map(|text| bare(&text))
    };
    assert_eq!(
        told(0),
        ["Zugang zu ‹b› ist beendet", "Der Zugang wurde entzogen"]
    );
    assert_eq!(told(3)[0], "Zugang zu ‹b› und 3 weiteren ist beendet");
}

#[test]
fn checks_have_names() {
    let words = Words::new(Language::German);
    assert_eq!(check(&words, "portal-tls"), "Portal: Zertifikat");
    assert_eq!(bare(&check(&words, "warp-core")), "warp-core");
}

#[test]
fn spans_go_on_after_they_were_told() {
    let words = Words::new(Language::English);
    let shown = Gateway {
        silent_for_ms: Some(3_000),
        ..Gateway::default()
    };
    assert!(!bare(&gateway(&words, &shown, 0)[1]).contains("No answer"));
    assert!(bare(&gateway(&words, &shown, 4_000)[1]).starts_with("No answer for 7 seconds"));
    let away = Phase::PortalAway {
        why: None,
        next_attempt_at_ms: Some(8_000),
    };
    let detail = |now_ms| bare(&headline(&words, &away, &Around { now_ms, ..AROUND }).detail);
    assert!(detail(0).ends_with("Next attempt in 8 seconds."));
    assert!(detail(7_500).ends_with("Next attempt in 1 second."));
    assert!(
        detail(9_000).ends_with("goes on for now."),
        "{}",
        detail(9_000)
    );
}

#[test]
fn a_window_of_time_says_when_it_opens() {
    let words = Words::new(Language::German);
    let denied = Denied {
        code: "condition_not_met".to_owned(),
        text: "now is outside".to_owned(),
        opens_unix_s: Some(86_400),
    };
    let told = bare(&reason(&words, &denied, |_, at| Some(format!("T{at}"))));
    assert_eq!(told, "Außerhalb der Zeiten der Richtlinie. Öffnet: T86400");
    assert!(bare(&reason(&words, &denied, no_time)).ends_with("now is outside"));
}

#[test]
fn a_sign_in_that_failed_says_why() {
    let words = Words::new(Language::English);
    let detail = |code| {
        let phase = Phase::SigningIn(Progress::Failed(failure(code)));
        bare(&headline(&words, &phase, &AROUND).detail)
    };
    let told: std::collections::BTreeSet<String> = [
        "expired",
        "refused",
        "unreachable",
        "certificate",
        "not_a_portal",
        "busy",
    ]
    .map(detail)
    .into();
    assert_eq!(told.len(), 6);
    assert_eq!(detail("later"), "it <b>failed");
}

#[test]
fn an_end_that_nobody_followed_is_told_as_the_latest_moment() {
    let trace = |is_exact| crate::ended::Trace {
        resource: std::sync::Arc::default(),
        at: crate::ended::Moment {
            now_ms: 0,
            unix_s: 7,
        },
        is_exact,
    };
    let about = |is_exact| {
        let words = Words::new(Language::English);
        let (status, favourites) = (Status::default(), Favourites::default());
        let rows = crate::resources::rows(&status, &[trace(is_exact)], &favourites);
        bare(&about(&words, &rows[0], |_, unix_s| {
            Some(unix_s.to_string())
        }))
    };
    assert_eq!(about(true), "Access ended: 7");
    assert_eq!(about(false), "Access ended by 7");
}

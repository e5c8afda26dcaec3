use super::*;
use culvert_wire::token::CertificatePin;

const START: BootTime = BootTime::from_millis(1_000_000);
const URL: &str = "https://portal.example.com";

fn portal() -> Portal {
    Portal::new(URL, Some(CertificatePin::from_sha256([7; 32]))).unwrap()
}

fn begun() -> DeviceBegun {
    DeviceBegun {
        device_code: "BCDF-GHJK.secret".to_owned(),
        user_code: "BCDF-GHJK".to_owned(),
        url: format!("{URL}/device"),
        url_with_code: format!("{URL}/device?code=BCDF-GHJK"),
        expires_in_s: 600,
        interval_s: 2,
    }
}

fn fault(code: SignInFailure) -> SignInFault {
    SignInFault {
        code,
        text: "because".to_owned(),
    }
}

fn after(seconds: u64) -> BootTime {
    START.saturating_add(Duration::from_secs(seconds))
}

/// A sign-in whose codes were told at [`START`].
fn waiting(begun: DeviceBegun) -> BrowserSignIn {
    let mut sign_in = BrowserSignIn::default();
    sign_in.begin(portal(), START);
    assert!(matches!(
        sign_in.poll_request(START),
        Some(SignInRequest::Begin)
    ));
    sign_in.handle_begun(Ok(begun), START);
    sign_in
}

/// Lets the time pass until the next poll is sent; returns the time.
fn until_poll(sign_in: &mut BrowserSignIn) -> BootTime {
    let at = sign_in.poll_timeout().unwrap();
    assert!(!sign_in.handle_timeout(at));
    let earlier = BootTime::from_nanos(at.as_nanos() - 1);
    assert!(sign_in.poll_request(earlier).is_none());
    match sign_in.poll_request(at) {
        Some(SignInRequest::Poll(code)) => assert_eq!(*code, "BCDF-GHJK.secret"),
        other => panic!("{other:?}"),
    }
    // One request at a time.
    assert!(sign_in.poll_request(BootTime::MAX).is_none());
    assert_eq!(sign_in.poll_timeout(), None);
    at
}

fn failure(sign_in: &BrowserSignIn) -> (SignInFailure, String) {
    match sign_in.status(START) {
        Some(SignInStatus::Failed {
            code_of_failure,
            text,
            ..
        }) => (code_of_failure, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn somebody_approves_and_the_token_is_handed_out() {
    let mut sign_in = BrowserSignIn::default();
    assert_eq!(sign_in.status(START), None);
    sign_in.begin(portal(), START);
    let asking = SignInStatus::Asking {
        portal: URL.to_owned(),
    };
    assert_eq!(sign_in.status(START), Some(asking.clone()));
    assert!(matches!(
        sign_in.poll_request(START),
        Some(SignInRequest::Begin)
    ));
    assert!(sign_in.poll_request(after(9)).is_none());
    assert_eq!(sign_in.status(after(9)), Some(asking));
    sign_in.handle_begun(Ok(begun()), START);
    let text = serde_json::to_string(&sign_in.status(after(10))).unwrap();
    let expected = format!(
        r#"{{"state":"waiting","portal":"{URL}","url":"{URL}/device","url_complete":"{URL}/device?code=BCDF-GHJK","code":"BCDF-GHJK","expires_in_s":590}}"#
    );
    assert_eq!(text, expected);
    assert_eq!(until_poll(&mut sign_in), after(2));
    assert!(
        sign_in
            .handle_answer(Ok(DeviceAnswer::Pending), after(2))
            .is_none()
    );
    assert_eq!(until_poll(&mut sign_in), after(4));
    let token = "cv_client_x".to_owned();
    let actor = "ada".to_owned();
    let approved = sign_in
        .handle_answer(Ok(DeviceAnswer::Approved { token, actor }), after(4))
        .unwrap();
    assert_eq!(
        (&**approved.token, &*approved.actor),
        ("cv_client_x", "ada")
    );
    assert!(!format!("{approved:?} {sign_in:?}").contains("cv_client"));
    sign_in.finish(Ok(()));
    assert_eq!(
        (sign_in.status(after(4)), sign_in.poll_timeout()),
        (None, None)
    );
}

#[test]
fn the_portal_slows_polls_down_and_faults_do_so_until_it_answers_again() {
    let mut sign_in = waiting(begun());
    let mut now = until_poll(&mut sign_in);
    for (interval_s, pause_s) in [(7, 7), (3, 7), (1_000, 60)] {
        let answer = Ok(DeviceAnswer::SlowDown { interval_s });
        assert!(sign_in.handle_answer(answer, now).is_none());
        let next = until_poll(&mut sign_in);
        assert_eq!(next.saturating_since(now), Duration::from_secs(pause_s));
        now = next;
    }
    let mut sign_in = waiting(begun());
    let mut now = until_poll(&mut sign_in);
    for (code, pause_s) in [
        (Some(SignInFailure::Unreachable), 4),
        (Some(SignInFailure::Certificate), 8),
        (Some(SignInFailure::Busy), 16),
        (Some(SignInFailure::Unreachable), 16),
        (None, 2),
        (Some(SignInFailure::Unreachable), 4),
    ] {
        let answer = code.map_or(Ok(DeviceAnswer::Pending), |code| Err(fault(code)));
        assert!(sign_in.handle_answer(answer, now).is_none());
        let next = until_poll(&mut sign_in);
        assert_eq!(next.saturating_since(now), Duration::from_secs(pause_s));
        now = next;
    }
}

#[test]
fn an_interval_of_zero_is_one_second_and_a_lifetime_without_end_an_hour() {
    let hostile = DeviceBegun {
        interval_s: 0,
        expires_in_s: u64::MAX,
        ..begun()
    };
    let mut sign_in = waiting(hostile);
    assert_eq!(until_poll(&mut sign_in), after(1));
    let status = sign_in.status(START).unwrap();
    assert!(matches!(
        status,
        SignInStatus::Waiting {
            expires_in_s: 3_600,
            ..
        }
    ));
}

#[test]
fn codes_expire_by_the_clock_and_by_the_portal() {
    let mut sign_in = waiting(begun());
    assert!(!sign_in.handle_timeout(after(599)));
    assert!(sign_in.handle_timeout(after(600)));
    let (code, text) = failure(&sign_in);
    assert_eq!(code, SignInFailure::Expired);
    assert!(
        text.contains("nobody approved") && text.contains(URL),
        "{text}"
    );
    assert!(!sign_in.handle_timeout(after(601)));
    assert_eq!(sign_in.poll_timeout(), None);
    // The answer that is on its way at the end may be the token.
    let mut sign_in = waiting(begun());
    until_poll(&mut sign_in);
    assert!(!sign_in.handle_timeout(after(601)));
    sign_in.handle_answer(Err(fault(SignInFailure::Unreachable)), after(601));
    assert!(sign_in.handle_timeout(after(601)));
    let (code, text) = failure(&sign_in);
    assert_eq!(code, SignInFailure::Expired);
    assert!(
        text.contains("because") && !text.contains("nobody"),
        "{text}"
    );
    let mut sign_in = waiting(begun());
    let now = until_poll(&mut sign_in);
    sign_in.handle_answer(Ok(DeviceAnswer::Expired), now);
    assert_eq!(failure(&sign_in).0, SignInFailure::Expired);
}

#[test]
fn a_denial_and_a_fault_that_stays_end_it_with_the_reason() {
    for (answer, code) in [
        (Ok(DeviceAnswer::Denied), SignInFailure::Refused),
        (
            Err(fault(SignInFailure::NotAPortal)),
            SignInFailure::NotAPortal,
        ),
        (Err(fault(SignInFailure::Refused)), SignInFailure::Refused),
    ] {
        let mut sign_in = waiting(begun());
        let now = until_poll(&mut sign_in);
        assert!(sign_in.handle_answer(answer, now).is_none());
        assert_eq!(failure(&sign_in).0, code);
    }
    for code in [
        SignInFailure::Unreachable,
        SignInFailure::Certificate,
        SignInFailure::Busy,
    ] {
        let mut sign_in = BrowserSignIn::default();
        sign_in.begin(portal(), START);
        assert!(sign_in.poll_request(START).is_some());
        sign_in.handle_begun(Err(fault(code)), START);
        assert_eq!(failure(&sign_in), (code, "because".to_owned()));
    }
    let mut sign_in = waiting(begun());
    sign_in.finish(Err(fault(SignInFailure::NotAPortal)));
    assert_eq!(failure(&sign_in).0, SignInFailure::NotAPortal);
    sign_in.cancel();
    assert_eq!(sign_in.status(START), None);
}

#[test]
fn a_second_one_replaces_the_first_and_a_thousand_ask_the_portal_every_two_seconds() {
    let mut sign_in = waiting(begun());
    let other = Portal::new("https://other.example.com", None).unwrap();
    sign_in.begin(other, after(1));
    let asking = SignInStatus::Asking {
        portal: "https://other.example.com".to_owned(),
    };
    assert_eq!(sign_in.status(after(1)), Some(asking));
    // The answer to the first one's request comes too late.
    sign_in.handle_begun(Ok(begun()), after(1));
    assert!(
        sign_in
            .handle_answer(Ok(DeviceAnswer::Denied), after(1))
            .is_none()
    );
    let mut asked = 0;
    for number in 0..1_000 {
        let now = after(1).saturating_add(Duration::from_millis(number * 10));
        sign_in.cancel();
        sign_in.begin(portal(), now);
        asked += usize::from(sign_in.poll_request(now).is_some());
    }
    // From second 2 to second 11.
    assert_eq!(asked, 5);
}

#[test]
fn answers_of_a_hostile_portal_are_refused() {
    type Change = fn(&mut DeviceBegun);
    let changes: [Change; 12] = [
        |it| it.device_code = String::new(),
        |it| it.device_code = "x".repeat(2_000),
        |it| it.user_code = String::new(),
        |it| it.user_code = "X".repeat(33),
        |it| it.user_code = "<b>AB</b>".to_owned(),
        |it| it.user_code = "AB\u{202e}CD".to_owned(),
        |it| it.url = String::new(),
        |it| it.url = "http://portal.example.com/device".to_owned(),
        |it| it.url_with_code = "javascript:alert(1)".to_owned(),
        |it| it.url = format!("{URL}/{}", "x".repeat(2_100)),
        |it| it.url = "https://portal.example.com@evil.example/".to_owned(),
        |it| it.url = "https://portal.example.com.evil.example/".to_owned(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut begun = begun();
        change(&mut begun);
        let sign_in = waiting(begun);
        let (code, text) = failure(&sign_in);
        assert_eq!(code, SignInFailure::NotAPortal, "change {number}");
        assert!(text.contains(URL) && text.len() < 500, "{text}");
    }
    let mut foreign = begun();
    foreign.url_with_code = "https://evil.example/device".to_owned();
    let (_, text) = failure(&waiting(foreign));
    assert!(text.contains("https://evil.example"), "{text}");
}

#[test]
fn a_url_may_be_written_in_other_ways_and_the_one_with_the_code_may_be_missing() {
    let mut other = begun();
    other.url = "https://Portal.Example.COM:443/device".to_owned();
    other.url_with_code = String::new();
    let status = waiting(other).status(START).unwrap();
    assert!(
        matches!(
            &status,
            SignInStatus::Waiting {
                url_complete: None,
                url: Some(_),
                ..
            }
        ),
        "{status:?}"
    );
}

#[test]
fn a_text_of_the_portal_becomes_one_line_of_bounded_length() {
    let mut sign_in = BrowserSignIn::default();
    sign_in.begin(portal(), START);
    assert!(sign_in.poll_request(START).is_some());
    let text = format!("a\nb\u{1b}[31m{}", "x".repeat(1_000));
    let code = SignInFailure::Refused;
    sign_in.handle_begun(Err(SignInFault { code, text }), START);
    let (_, text) = failure(&sign_in);
    assert!(
        text.starts_with("a b [31m") && text.chars().count() == 400,
        "{text}"
    );
}

#[test]
fn the_code_is_for_those_who_may_command() {
    let mut status = waiting(begun()).status(START).unwrap();
    assert!(status.is_confidential());
    status.conceal();
    assert!(!status.is_confidential());
    let text = serde_json::to_string(&status).unwrap();
    let expected = format!(r#"{{"state":"waiting","portal":"{URL}","expires_in_s":600}}"#);
    assert_eq!(text, expected);
}

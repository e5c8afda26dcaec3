use super::*;
use crate::status::{AccessState, PortalState};

const FIRST: &str = r#"{"schema_version":1,"sequence":17,"status":{"schema_version":1,"name":"laptop","ready":false,
    "not_ready_because":"no gateway","service":{"control":"commands","state":"up"},"portal":{"state":"connecting"},
    "resources":[{"id":"b","name":"B"},{"id":"a","name":"A"},{"id":"c","name":"C"}]}}"#;

fn mirror() -> Mirror {
    let mut mirror = Mirror::default();
    assert_eq!(mirror.after(), None);
    mirror.apply(FIRST.as_bytes(), 1_000).unwrap();
    mirror
}

fn ids(status: &Status) -> String {
    status
        .resources
        .iter()
        .map(|resource| resource.id.as_str())
        .collect()
}

#[test]
fn lines_lead_from_state_to_state() {
    let mut mirror = mirror();
    let before = mirror.status.clone().unwrap();
    assert_eq!(ids(&before), "abc");
    let line = br#"{"schema_version":1,"sequence":18,"changes":{"at":"2026-11-30T18:00:00Z","ready":true,
        "not_ready_because":null,"portal":{"state":"connected"},"later":{"x":1},
        "resources":[{"id":"d","name":"D"},{"id":"b","name":"B","state":"granted"}]},"removed":["a"]}"#;
    let after = mirror.apply(line, 2_000).unwrap();
    assert_eq!(ids(&after), "bcd");
    assert_eq!(after.resources[0].state, AccessState::Granted);
    // Untouched resources are shared.
    assert!(Arc::ptr_eq(&before.resources[2], &after.resources[1]));
    assert!(after.ready);
    assert_eq!(after.not_ready_because, None);
    assert_eq!(after.portal.state, PortalState::Connected);
    assert_eq!(after.name, "laptop");
    assert_eq!(after.heard.portal_ms, 2_000);
    assert_eq!(after.heard.service_ms, 1_000);
    assert_eq!(mirror.after(), Some(18));
    // The state before is another's and does not change.
    assert_eq!(ids(&before), "abc");
}

#[test]
fn a_section_that_is_not_named_stays() {
    let mut mirror = mirror();
    let line = br#"{"schema_version":1,"sequence":19,"changes":{"at":"x"}}"#;
    let after = mirror.apply(line, 2_000).unwrap();
    assert_eq!(after.not_ready_because.as_deref(), Some("no gateway"));
    assert_eq!(after.resources.len(), 3);
}

#[test]
fn a_whole_state_replaces_everything() {
    let mut mirror = mirror();
    let line = br#"{"schema_version":1,"sequence":9,"status":{"schema_version":1,"name":"other"}}"#;
    let after = mirror.apply(line, 2_000).unwrap();
    assert!(after.resources.is_empty());
    assert_eq!(after.heard, Heard::at(2_000));
    assert_eq!(mirror.after(), Some(9));
}

#[test]
fn the_end_of_watching_has_a_reason() {
    let error = |line: &str| Mirror::default().apply(line.as_bytes(), 0).unwrap_err();
    assert_eq!(
        error(r#"{"error":"4 programs watch","code":"too_many_watchers"}"#),
        WatchError::TooMany
    );
    assert_eq!(
        error(r#"{"error":"it is ending","code":"ending"}"#),
        WatchError::Ending
    );
    assert_eq!(
        error(r#"{"error":"unknown variant `watch`"}"#),
        WatchError::Unsupported
    );
    // Of a service that knows other requests.
    assert_eq!(
        error(r#"{"error":"write a line such as …","code":"not_a_request"}"#),
        WatchError::Unsupported
    );
    for code in ["", r#","code":"schema_version""#] {
        let line = format!(r#"{{"error":"schema_version 1 is not spoken here, but 3"{code}}}"#);
        assert_eq!(error(&line), WatchError::Answer(AnswerError::Version(3)));
    }
    assert_eq!(
        error(r#"{"error":"no","code":"not_permitted"}"#),
        WatchError::Answer(AnswerError::NotPermitted("no".to_owned()))
    );
    assert_eq!(
        error(r#"{"error":"no","code":"later"}"#),
        WatchError::Answer(AnswerError::Refused("no".to_owned()))
    );
    assert_eq!(
        error(r#"{"schema_version":2,"sequence":"x"}"#),
        WatchError::Answer(AnswerError::Version(2))
    );
    for broken in [
        "{",
        "SSH-2.0",
        r#"{"schema_version":1,"sequence":1}"#,
        r#"{"schema_version":1,"sequence":1,"changes":{"ready":true}}"#,
        r#"{"schema_version":1,"sequence":1,"status":{"schema_version":1,"resources":7}}"#,
    ] {
        assert!(
            matches!(
                error(broken),
                WatchError::Answer(AnswerError::Unreadable(_))
            ),
            "{broken}"
        );
    }
}

#[test]
fn a_broken_line_leaves_nothing_to_resume() {
    let mut mirror = mirror();
    assert!(mirror.apply(b"{", 0).is_err());
    assert_eq!(mirror.after(), None);
}

#[test]
fn the_copy_is_bounded() {
    let mut mirror = mirror();
    let many: Vec<String> = (0..=MAX_RESOURCES)
        .map(|number| format!(r#"{{"id":"{number}"}}"#))
        .collect();
    let line = format!(
        r#"{{"schema_version":1,"sequence":18,"changes":{{"resources":[{}]}}}}"#,
        many.join(",")
    );
    assert!(mirror.apply(line.as_bytes(), 0).is_err());
}

#[test]
fn equal_resources_of_two_answers_are_shared() {
    let named = |names: &[&str]| {
        let resources = names.iter().map(|name| Resource {
            id: name[..1].to_owned(),
            name: (*name).to_owned(),
            ..Resource::default()
        });
        Status {
            resources: sorted(resources.collect()),
            ..Status::default()
        }
    };
    let before = named(&["a", "b", "d"]);
    let mut now = named(&["a", "bx", "c", "d"]);
    let expected = now.clone();
    share(&before, &mut now);
    assert_eq!(now, expected);
    assert!(Arc::ptr_eq(&now.resources[0], &before.resources[0]));
    assert!(Arc::ptr_eq(&now.resources[3], &before.resources[2]));
}

#[test]
fn the_client_is_told_and_may_be_none() {
    let mut mirror = Mirror::default();
    let mut client = |line: &str| mirror.apply(line.as_bytes(), 0).unwrap().client.clone();
    let whole =
        r#"{"sequence":1,"schema_version":1,"status":{"schema_version":1,"client":"cli_1"}}"#;
    assert_eq!(client(whole).as_deref(), Some("cli_1"));
    let change =
        |client: &str| format!(r#"{{"sequence":2,"schema_version":1,"changes":{{{client}}}}}"#);
    assert_eq!(client(&change(r#""ready":true"#)).as_deref(), Some("cli_1"));
    assert_eq!(
        client(&change(r#""client":"cli_2""#)).as_deref(),
        Some("cli_2")
    );
    assert_eq!(client(&change(r#""client":null"#)), None);
}

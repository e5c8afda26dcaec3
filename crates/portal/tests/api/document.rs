use crate::support::Running;
use serde_json::Value;
use std::collections::BTreeSet;

fn refs<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                found.insert(target);
            }
            fields.values().for_each(|field| refs(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| refs(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_whole_and_open_to_everyone() {
    let running = Running::start().await;
    let mut stranger = running.client().await;
    let answer = stranger.get("/api/v1/openapi.json").await.expect(200);
    assert_eq!(answer.header("content-type"), "application/json");
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut found = BTreeSet::new();
    refs(&document, &mut found);
    assert!(found.len() >= 30, "{found:?}");
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{target} leads nowhere"
        );
    }
}

#[tokio::test]
async fn every_operation_has_a_name_a_summary_a_guard_and_problems() {
    let running = Running::start().await;
    let mut stranger = running.client().await;
    let answer = stranger.get("/api/v1/openapi.json").await.expect(200);
    let document = answer.json();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}: {operation}");
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{what}");
            // A machine for which somebody is to sign in has no token yet.
            let is_guarded = operation["security"][0]["token"].is_array();
            assert_ne!(is_guarded, path.contains("/device-sign-ins"), "{what}");
            for status in ["401", "403", "404", "422", "429"] {
                let problem = &operation["responses"][status]["content"];
                assert!(problem["application/problem+json"].is_object(), "{what}");
            }
            let body = operation.get("requestBody");
            assert_eq!(
                body.is_some(),
                method == "patch"
                    || (method == "post" && !path.contains("/{id}/") && !path.ends_with("/test"))
                    || [
                        "add_member",
                        "set_sign_in",
                        "create_invitation",
                        "rekey_plain_client"
                    ]
                    .contains(&name),
                "{what}"
            );
        }
    }
}

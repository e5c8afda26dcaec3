use crate::support::{Running, id_of};
use serde_json::json;

#[tokio::test]
async fn paths_and_methods_that_do_not_exist_are_problems_too() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for path in [
        "/flowers",
        "/api",
        "/api/v1",
        "/api/v1/flowers",
        "/api/v2/groups",
    ] {
        owner.get(path).await.problem(404);
    }
    let answer = owner.send("PUT", "/api/v1/groups", &[], None).await;
    let allow = answer.header("allow").to_owned();
    answer.problem(405);
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    owner.delete("/healthz").await.problem(405);
    owner
        .send("PROPFIND", "/api/v1/groups", &[], None)
        .await
        .problem(405);
}

#[tokio::test]
async fn an_id_that_is_none_names_nothing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for id in [
        "x",
        "grp_",
        "site_00000000000000000000000000",
        "grp_0000000000000000000000000O",
        "%00",
        "%ff",
        "..%2f..%2fetc",
        "grp_00000000000000000000000000",
    ] {
        owner
            .get(&format!("/api/v1/groups/{id}"))
            .await
            .problem(404);
    }
}

#[tokio::test]
async fn what_is_not_json_is_told_apart_from_json_that_is_wrong() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let json_type = [("content-type", "application/json")];
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("{\"name\":\"a\"", 400),
        ("{\"name\":\"a\"}{}", 400),
        ("{\"name\":\"a\",}", 400),
        ("\u{0}", 400),
        ("{\"name\":\"\\ud800\"}", 400),
        ("[]", 422),
        ("\"a\"", 422),
        ("{}", 422),
        ("{\"name\":null}", 422),
        ("{\"name\":1}", 422),
        ("{\"name\":\"\"}", 422),
        ("{\"name\":\"a\\nb\"}", 422),
        ("{\"name\":\" a\"}", 422),
        ("{\"name\":\"a\",\"colour\":1}", 422),
        ("{\"name\":\"a\",\"name\":\"b\"}", 422),
    ] {
        let body = Some(body.as_bytes().to_vec());
        let answer = owner.send("POST", "/api/v1/groups", &json_type, body.clone());
        let problem = answer.await.problem(status);
        assert!(problem["detail"].is_string(), "{problem}");
    }
    let invalid_utf8 = owner
        .send("POST", "/api/v1/groups", &json_type, Some(vec![0xff, 0xfe]))
        .await;
    invalid_utf8.problem(400);
    for media_type in ["text/plain", "application/xml", "application/jsonp", ""] {
        let headers = [("content-type", media_type)];
        let body = Some(b"{\"name\":\"a\"}".to_vec());
        owner
            .send("POST", "/api/v1/groups", &headers, body)
            .await
            .problem(415);
    }
    let with_charset = [("content-type", "Application/JSON; charset=utf-8")];
    let body = Some(b"{\"name\":\"a\"}".to_vec());
    owner
        .send("POST", "/api/v1/groups", &with_charset, body)
        .await
        .expect(201);
}

#[tokio::test]
async fn a_field_that_is_wrong_is_named_with_its_value_and_the_fix() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner
        .post("/api/v1/sites", json!({"name": "office"}))
        .await
        .expect(201)
        .json();
    let site = id_of(&site);
    let resource = |kind: &str, address: &str, filters: serde_json::Value| json!({"site": site, "name": "r", "kind": kind, "address": address, "filters": filters});
    for (body, field, says) in [
        (
            resource("cidr", "10.1.2.3/8", json!([])),
            "address",
            "10.0.0.0/8",
        ),
        (
            resource("address", "db.corp", json!([])),
            "address",
            "db.corp",
        ),
        (resource("dns", "**", json!([])), "address", ""),
        (
            resource("dns", "d*.corp.example", json!([])),
            "address",
            "*.corp.example",
        ),
        (resource("planet", "mars", json!([])), "kind", "planet"),
        (
            resource(
                "cidr",
                "10.0.0.0/8",
                json!([{"protocol": "tcp", "ports": ["9-1"]}]),
            ),
            "filters[0]",
            "8000-8100",
        ),
        (
            resource("cidr", "10.0.0.0/8", json!([{"protocol": "gre"}])),
            "filters[0]",
            "gre",
        ),
    ] {
        let problem = owner
            .post("/api/v1/resources", body.clone())
            .await
            .problem(422);
        let error = &problem["errors"][0];
        let found = error["field"].as_str().unwrap();
        assert!(found.starts_with(field), "{body}: {problem}");
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
    }
    let nobody = "grp_00000000000000000000000000";
    let nothing = "res_00000000000000000000000000";
    let policy = json!({"name": "p", "group": nobody, "resource": nothing});
    let problem = owner.post("/api/v1/policies", policy).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "group");
}

#[tokio::test]
async fn conditions_are_checked_one_by_one() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = id_of(
        &owner
            .post("/api/v1/groups", json!({"name": "g"}))
            .await
            .expect(201)
            .json(),
    );
    let site = id_of(
        &owner
            .post("/api/v1/sites", json!({"name": "s"}))
            .await
            .expect(201)
            .json(),
    );
    let resource = json!({
        "site": site, "name": "r", "kind": "cidr", "address": "10.0.0.0/8",
        "filters": [{"protocol": "tcp", "ports": [80, "8000-8100"]}],
    });
    let resource = id_of(
        &owner
            .post("/api/v1/resources", resource)
            .await
            .expect(201)
            .json(),
    );
    let policy = |conditions: serde_json::Value| json!({"name": "p", "group": group, "resource": resource, "conditions": conditions});
    let window = |from: &str, until: &str| {
        json!({"kind": "time", "zone": "Europe/Berlin",
               "windows": [{"days": ["mon"], "from": from, "until": until}]})
    };
    for wrong in [
        json!([{"kind": "verified"}, {"kind": "country", "countries": ["Germany"]}]),
        json!([{"kind": "verified"}, {"kind": "country", "countries": []}]),
        json!([{"kind": "verified"}, {"kind": "public_address", "cidrs": ["203.0.113.1/24"]}]),
        json!([{"kind": "verified"}, window("25:00", "26:00")]),
        json!([{"kind": "verified"}, window("08:00", "08:00")]),
        json!([{"kind": "verified"}, {"kind": "time", "zone": "Mars/Base", "windows": []}]),
        json!([{"kind": "verified"}, {"kind": "expires", "at": "tomorrow"}]),
        json!([{"kind": "verified"}, {"kind": "moon"}]),
    ] {
        let problem = owner
            .post("/api/v1/policies", policy(wrong.clone()))
            .await
            .problem(422);
        let field = problem["errors"][0]["field"].as_str().unwrap();
        assert!(field.starts_with("conditions[1]"), "{wrong}: {problem}");
    }
    let right = json!([
        {"kind": "verified"}, window("22:00", "06:00"),
        {"kind": "expires", "at": "2030-01-01T00:00:00Z"},
    ]);
    let made = owner
        .post("/api/v1/policies", policy(right.clone()))
        .await
        .expect(201)
        .json();
    assert_eq!(made["conditions"], right);
}

#[tokio::test]
async fn what_is_in_use_is_not_deleted_by_accident() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = id_of(
        &owner
            .post("/api/v1/sites", json!({"name": "s"}))
            .await
            .expect(201)
            .json(),
    );
    let resource = json!({
        "site": site, "name": "r", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    owner.post("/api/v1/resources", resource).await.expect(201);
    let at = format!("/api/v1/sites/{site}");
    let problem = owner.delete(&at).await.problem(409);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("site \"s\" (site_"), "{detail}");
    assert!(
        detail.contains("in use by resource \"r\" (res_"),
        "{detail}"
    );
    owner
        .delete(&format!("{at}?cascade=true"))
        .await
        .expect(204);
    let left = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(left["items"], json!([]));
    owner
        .post("/api/v1/groups", json!({"name": "Staff"}))
        .await
        .expect(201);
    let taken = owner.post("/api/v1/groups", json!({"name": "staff"})).await;
    assert!(
        taken.problem(409)["detail"]
            .as_str()
            .unwrap()
            .contains("staff")
    );
}

//! Faults of other products, tried against the portal where no other file does so.
//! `docs/threat-model.md` lists the tests of other files that are named after an advisory.

use crate::support::{Answer, Running, api_token, id_of, make_actor};
use culvert_portal::SetupState;
use culvert_store::{ActorKind, Role, SecretBytes, SecretName, TokenScope};
use serde_json::{Value, json};

#[track_caller]
fn assert_no_other_site_may_read(answer: &Answer) {
    let leave = answer
        .headers
        .keys()
        .find(|name| name.as_str().starts_with("access-control-"));
    assert_eq!(leave, None, "{answer:?}");
}

/// CVE-2022-41924 and CVE-2022-41925: a page in a browser on the same machine, by a name that it had
/// pointed there, could use an API that trusted whoever reached it.
#[tokio::test]
async fn cve_2022_41924_a_page_that_points_here_reads_nothing() {
    let running = Running::start().await;
    let page = [
        ("origin", "http://rebound.example"),
        ("referer", "http://rebound.example/"),
        ("sec-fetch-site", "cross-site"),
        ("cookie", "token=1; session=1"),
    ];
    let mut browser = running.client().await;
    for path in ["/api/v1/groups", "/api/v1/tokens", "/metrics"] {
        let answer = browser.send("GET", path, &page, None).await;
        assert_no_other_site_may_read(&answer);
        answer.problem(401);
        let preflight = [
            ("origin", "http://rebound.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization"),
        ];
        let answer = browser.send("OPTIONS", path, &preflight, None).await;
        assert_no_other_site_may_read(&answer);
        answer.problem(405);
    }
    // Nor does a token make another site's page a reader.
    let mut owner = running.owner().await;
    let answer = owner.send("GET", "/api/v1/groups", &page, None).await;
    assert_no_other_site_may_read(&answer);
    assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
    answer.expect(200);
}

/// CVE-2025-10678: a password that every installation had.
#[tokio::test]
async fn cve_2025_10678_no_two_portals_share_a_way_in() {
    let (one, other) = (Running::start().await, Running::start().await);
    let mut secrets = Vec::new();
    for running in [&one, &other] {
        assert!(matches!(running.portal.setup(), SetupState::Begun(_)));
        let snapshot = running.store.snapshot(running.account()).await.unwrap();
        assert!(snapshot.actors.is_empty(), "nobody is there yet");
        let scopes: Vec<_> = snapshot.tokens.iter().map(|token| token.scope).collect();
        assert_eq!(scopes, [TokenScope::Setup]);
        let setup = running.setup_token();
        secrets.push(setup.split('.').nth(1).unwrap().to_owned());
        secrets.push(running.portal.pin().to_string());
        for name in [SecretName::GrantSigning, SecretName::Pairs] {
            let candidate = SecretBytes::new(vec![0; 32]);
            let stored = running.store.secret(running.account(), name, candidate);
            let stored = stored.await.unwrap();
            assert_ne!(stored.expose(), [0; 32], "it is there from the start");
            secrets.push(format!("{:?}", stored.expose()));
        }
        let mut guest = running.client().await;
        for guess in [
            "Basic YWRtaW46YWRtaW4=",
            "Basic cm9vdDo=",
            "Bearer admin",
            "Bearer ",
            "Bearer cv_setup_00000000000000000000000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            let guess = [("authorization", guess)];
            guest
                .send("GET", "/api/v1/account", &guess, None)
                .await
                .problem(401);
            let owner = [guess[0], ("content-type", "application/json")];
            let body = json!({"owner": "eve"}).to_string().into_bytes();
            guest
                .send("POST", "/api/v1/setup", &owner, Some(body))
                .await
                .problem(401);
        }
    }
    secrets.sort();
    secrets.dedup();
    assert_eq!(secrets.len(), 8, "each is drawn");
}

/// CVE-2026-3209: an id in the body that counted instead of the one in the path.
#[tokio::test]
async fn cve_2026_3209_a_body_names_nothing_that_the_path_names() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let actor = make_actor(running.store.as_ref(), running.account(), ActorKind::User).await;
    let (mine, other) = (json!({"name": "mine"}), json!({"name": "other"}));
    let [mine, other] = [
        owner.post("/api/v1/groups", mine).await.expect(201).json(),
        owner.post("/api/v1/groups", other).await.expect(201).json(),
    ];
    let at = |group: &Value| format!("/api/v1/groups/{}", id_of(group));
    for field in ["id", "group", "account", "version"] {
        let body = json!({"name": "taken", field: id_of(&other)});
        owner.patch(&at(&mine), "*", body).await.problem(422);
        let body = json!({"actor": actor, field: id_of(&other)});
        let members = format!("{}/members", at(&mine));
        owner.post(&members, body).await.problem(422);
    }
    for group in [&mine, &other] {
        let now = owner.get(&at(group)).await.expect(200).json();
        assert_eq!(now["name"], group["name"]);
        let members = format!("{}/members", at(group));
        let members = owner.get(&members).await.expect(200).json();
        assert_eq!(members["items"], json!([]));
    }
    // Everything else that can be changed.
    let account = owner.get("/api/v1/account").await.expect(200).json();
    let body = json!({"grant_lifetime_s": 600, "id": id_of(&account)});
    owner.patch("/api/v1/account", "*", body).await.problem(422);
    let at = format!("/api/v1/actors/{actor}");
    let body = json!({"name": "x", "kind": "admin"});
    owner.patch(&at, "*", body).await.problem(422);
}

/// CVE-2026-47724: rules that the usual way in had, and another one lacked.
#[tokio::test]
async fn cve_2026_47724_what_a_role_may_not_do_it_may_not_do_by_apply_either() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = json!({"sites": [{"name": "office"}], "groups": [{"name": "staff"}],
        "resources": [{"name": "web", "site": "office", "kind": "address",
            "address": "10.0.0.1", "filters": []}]});
    owner.post("/api/v1/apply", site).await.expect(200);
    let resources = owner.get("/api/v1/resources").await.expect(200).text;

    let mut auditor = running.with_role(Role::Auditor).await;
    let wishes = [
        ("sites", json!({"name": "s"})),
        ("actors", json!({"name": "a", "kind": "user"})),
        ("groups", json!({"name": "staff", "members": []})),
        (
            "resources",
            json!({"name": "web", "site": "office", "kind": "address", "address": "10.0.0.1",
                "filters": [{"protocol": "any"}]}),
        ),
        (
            "policies",
            json!({"name": "p", "group": "staff", "resource": "web"}),
        ),
    ];
    for (kind, wish) in wishes {
        let apply = json!({kind: [wish]});
        auditor.post("/api/v1/apply", apply).await.problem(403);
    }
    auditor
        .post("/api/v1/apply?prune=true", json!({}))
        .await
        .problem(403);
    let after = owner.get("/api/v1/resources").await.expect(200).text;
    assert_eq!(after, resources);
    // Of owners, what admins may not do: `an_admin_does_not_become_an_owner`.
}

/// OZ GHSA-7868: a header that said who somebody was, and was believed.
#[tokio::test]
async fn ghsa_7868_no_header_makes_anyone_somebody() {
    let running = Running::start().await;
    // It opens the route in the one header that counts.
    let owner = api_token(running.store.as_ref(), running.account(), Role::Owner).await;
    let mut known = running.client().await.with(&owner);
    known.get("/api/v1/account").await.expect(200);
    let mut stranger = running.client().await;
    for (name, value) in [
        ("x-remote-user", "owner"),
        ("x-forwarded-user", "owner"),
        ("x-forwarded-email", "owner@corp.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1;by=127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("x-client-cert", "owner"),
        ("x-ssl-client-verify", "SUCCESS"),
        ("x-auth-token", owner.as_str()),
        ("x-api-key", owner.as_str()),
        ("proxy-authorization", owner.as_str()),
        ("cookie", owner.as_str()),
        ("x-original-url", "/healthz"),
        ("x-http-method-override", "OPTIONS"),
    ] {
        let headers = [(name, value)];
        stranger
            .send("GET", "/api/v1/account", &headers, None)
            .await
            .problem(401);
    }
    for query in ["token", "access_token", "api_key"] {
        let path = format!("/api/v1/account?{query}={owner}");
        stranger.get(&path).await.problem(401);
    }
    // Two words about who somebody is are none.
    let twice = [("authorization", "Bearer x"), ("authorization", "Bearer y")];
    stranger
        .send("GET", "/api/v1/account", &twice, None)
        .await
        .problem(401);
}

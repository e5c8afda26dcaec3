use crate::support::Running;
use serde_json::json;

#[tokio::test]
async fn another_network_is_given_for_one_family_at_a_time_and_halved() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let before = owner.get("/api/v1/account").await.expect(200).json();
    let body = json!({"range4": "10.20.0.0/16"});
    let changed = owner.patch("/api/v1/account", "*", body).await;
    let changed = changed.expect(200).json();
    assert_eq!(changed["ranges"]["machines_ipv4"], "10.20.0.0/17");
    assert_eq!(changed["ranges"]["names_ipv4"], "10.20.128.0/17");
    for unchanged in ["machines_ipv6", "names_ipv6"] {
        assert_eq!(changed["ranges"][unchanged], before["ranges"][unchanged]);
    }
    let body = json!({"range6": "fd12:3456::/64"});
    let changed = owner.patch("/api/v1/account", "*", body).await;
    let changed = changed.expect(200).json();
    assert_eq!(changed["ranges"]["machines_ipv4"], "10.20.0.0/17");
    assert_eq!(changed["ranges"]["machines_ipv6"], "fd12:3456::/107");
}

#[tokio::test]
async fn a_network_that_serves_no_tunnel_is_refused_by_its_field_and_changes_nothing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let before = owner.get("/api/v1/account").await.expect(200).json();
    for (field, text) in [
        ("range4", "10.20.0.0/24"),
        ("range4", "10.20.0.1/16"),
        ("range4", "127.0.0.0/8"),
        ("range4", "fd00::/48"),
        ("range6", "10.0.0.0/8"),
        ("range6", "fe80::/64"),
        ("range6", "a network"),
    ] {
        // A valid change is refused together with an invalid one.
        let body = json!({"name": "another", field: text});
        let problem = owner.patch("/api/v1/account", "*", body).await;
        let problem = problem.problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    let after = owner.get("/api/v1/account").await.expect(200).json();
    assert_eq!(after, before);
}

#[tokio::test]
async fn the_account_says_which_applications_may_use_the_tunnel() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let before = owner.get("/api/v1/account").await.expect(200).json();
    assert_eq!(before["applications"], "any");
    let rule = json!({"except": ["browser"]});
    let body = json!({"applications": rule});
    let changed = owner.patch("/api/v1/account", "*", body).await;
    assert_eq!(changed.expect(200).json()["applications"], rule);
    for wrong in [json!({"only": ["no name"]}), json!({"except": ["-"]})] {
        let body = json!({"applications": wrong});
        let problem = owner.patch("/api/v1/account", "*", body).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], "applications", "{problem}");
    }
    let after = owner.get("/api/v1/account").await.expect(200).json();
    assert_eq!(after["applications"], rule);
}

fn dns() -> serde_json::Value {
    json!({
        "search": ["Corp.Example.", "lab.example"],
        "domains": [
            {"name": "lab.example", "servers": ["10.1.0.53", "fd0c::53"]},
            {"name": ".", "servers": ["::ffff:10.0.0.53"]},
        ],
    })
}

#[tokio::test]
async fn the_account_says_what_clients_do_with_names() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let before = owner.get("/api/v1/account").await.expect(200).json();
    assert_eq!(before["dns"], json!({"search": [], "domains": []}));
    let changed = owner.patch("/api/v1/account", "*", json!({"dns": dns()}));
    let stored = json!({
        "search": ["corp.example", "lab.example"],
        "domains": [
            {"name": ".", "servers": ["10.0.0.53"]},
            {"name": "lab.example", "servers": ["10.1.0.53", "fd0c::53"]},
        ],
    });
    assert_eq!(changed.await.expect(200).json()["dns"], stored);
    let log = owner.get("/api/v1/log/changes").await;
    let log = log.expect(200).json().to_string();
    assert!(log.contains("lab.example"), "{log}");
    // A field that is left out stays as it is; a field that is given is replaced whole.
    let body = json!({"name": "other"});
    let changed = owner.patch("/api/v1/account", "*", body).await;
    assert_eq!(changed.expect(200).json()["dns"], stored);
    let body = json!({"dns": {}});
    let changed = owner.patch("/api/v1/account", "*", body).await;
    assert_eq!(changed.expect(200).json()["dns"], before["dns"]);
}

#[tokio::test]
async fn rules_about_names_that_can_not_hold_are_refused_by_their_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let domain = |name: &str, servers: &[&str]| json!({"name": name, "servers": servers});
    for (dns, field) in [
        (json!({"search": ["a b"]}), "dns.search[0]"),
        (json!({"search": ["."]}), "dns.search[0]"),
        (json!({"search": ["a.b", "*.b"]}), "dns.search[1]"),
        (json!({"search": ["a.b", "A.B"]}), "dns"),
        (
            json!({"search": ["a", "b", "c", "d", "e", "f", "g"]}),
            "dns",
        ),
        (
            json!({"domains": [domain("*.b", &["10.0.0.53"])]}),
            "dns.domains[0].name",
        ),
        (
            json!({"domains": [domain("a.b", &["10.0.0.53", "dns.a.b"])]}),
            "dns.domains[0].servers[1]",
        ),
        (
            json!({"domains": [domain("a.b", &["127.0.0.53"])]}),
            "dns.domains[0].servers[0]",
        ),
        (json!({"domains": [domain("a.b", &[])]}), "dns"),
        // The ranges of clients, gateways and names of resources.
        (
            json!({"domains": [domain("a.b", &["100.64.0.9"])]}),
            "dns.domains",
        ),
        (
            json!({"domains": [domain("a.b", &["fd00:2021:1111:8000::1"])]}),
            "dns.domains",
        ),
    ] {
        let body = json!({"name": "another", "dns": dns});
        let problem = owner.patch("/api/v1/account", "*", body).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    // Nor may the tunnel come to where the servers are.
    let body = json!({"dns": {"domains": [domain("a.b", &["10.20.0.53"])]}});
    owner
        .patch("/api/v1/account", "*", body)
        .await
        .expect(200)
        .json();
    let body = json!({"range4": "10.20.0.0/16"});
    let problem = owner.patch("/api/v1/account", "*", body).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "dns.domains", "{problem}");
}

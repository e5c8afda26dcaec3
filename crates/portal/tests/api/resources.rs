//! Resources, and what changes of them.

use crate::support::{Running, id_of};
use serde_json::{Value, json};

#[tokio::test]
async fn a_resource_is_changed_in_what_is_given_and_keeps_the_rest() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "a"})).await;
    let site = id_of(&site.expect(201).json());
    let resource = json!({
        "site": site, "name": "web", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let made = owner.post("/api/v1/resources", resource).await.expect(201);
    let at = format!("/api/v1/resources/{}", id_of(&made.json()));
    let shown = |resource: &Value| {
        ["name", "kind", "address"].map(|field| resource[field].as_str().unwrap().to_owned())
    };
    for (patch, expected) in [
        (json!({"name": "shop"}), ["shop", "address", "10.0.0.1"]),
        (
            json!({"address": "10.0.0.2"}),
            ["shop", "address", "10.0.0.2"],
        ),
        (
            json!({"kind": "cidr", "address": "10.1.0.0/16"}),
            ["shop", "cidr", "10.1.0.0/16"],
        ),
        (
            json!({"address": "10.2.0.0/16"}),
            ["shop", "cidr", "10.2.0.0/16"],
        ),
        (
            json!({"kind": "dns", "address": "shop.example"}),
            ["shop", "dns", "shop.example"],
        ),
    ] {
        let changed = owner.patch(&at, "*", patch.clone()).await.expect(200);
        assert_eq!(shown(&changed.json()), expected, "{patch}");
        let read = owner.get(&at).await.expect(200);
        assert_eq!(shown(&read.json()), expected, "{patch}");
    }
    // The kind alone is changed where the address is one of that kind.
    let kind = json!({"kind": "address"});
    let problem = owner.patch(&at, "*", kind.clone()).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "address", "{problem}");
}

#[tokio::test]
async fn an_address_that_never_works_is_refused_everywhere_with_the_right_writing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "a"})).await;
    let site = id_of(&site.expect(201).json());
    for (kind, address, says) in [
        ("dns", "10.90.0.300", "each from 0 to 255"),
        ("dns", "1.2.3", "each from 0 to 255"),
        (
            "dns",
            "10.1.2.3-10.1.2.9",
            "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31",
        ),
        (
            "cidr",
            "10.1.2.3-10.1.2.9",
            "10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31",
        ),
        ("address", "127.0.0.1", "no gateway forwards"),
        ("address", "169.254.169.254", "no gateway forwards"),
        ("address", "255.255.255.255", "no gateway forwards"),
        ("dns", "localhost", "the machine itself"),
        (
            "address",
            "100.64.0.5",
            "100.64.0.0/10, which is the tunnel's own",
        ),
        (
            "cidr",
            "100.70.0.0/16",
            "100.64.0.0/10, which is the tunnel's own",
        ),
    ] {
        let resource = json!({
            "site": site, "name": "web", "kind": kind, "address": address, "filters": [],
        });
        let problem = owner.post("/api/v1/resources", resource).await.problem(422);
        let error = &problem["errors"][0];
        assert_eq!(error["field"], "address", "{address}");
        assert!(error["detail"].as_str().unwrap().contains(says), "{error}");
        let file = json!({
            "sites": [{"name": "a"}],
            "resources": [{"name": "web", "site": "a", "kind": kind, "address": address, "filters": []}],
        });
        let problem = owner.post("/api/v1/apply", file).await.problem(422);
        let error = &problem["errors"][0];
        assert_eq!(error["field"], "resources[0].address", "{address}");
        assert!(error["detail"].as_str().unwrap().contains(says), "{error}");
    }
    let zero = json!({
        "site": site, "name": "web", "kind": "address", "address": "10.0.0.1",
        "filters": [{"protocol": "tcp", "ports": ["0"]}],
    });
    let problem = owner.post("/api/v1/resources", zero).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "filters[0]", "{problem}");
}

#[tokio::test]
async fn a_second_resource_of_an_address_is_made_with_a_warning_that_names_the_other() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut sites = Vec::new();
    for name in ["a", "b"] {
        let site = owner.post("/api/v1/sites", json!({ "name": name })).await;
        sites.push(id_of(&site.expect(201).json()));
    }
    let resource = |site: &str, name: &str, kind: &str, address: &str| {
        json!({
            "site": site, "name": name, "kind": kind, "address": address,
            "filters": [{"protocol": "any"}],
        })
    };
    let one = resource(&sites[0], "one", "address", "10.0.0.1");
    let one = owner
        .post("/api/v1/resources", one)
        .await
        .expect(201)
        .json();
    assert_eq!(one.get("warnings"), None);
    let other = resource(&sites[1], "elsewhere", "address", "10.0.0.1");
    let other = owner.post("/api/v1/resources", other).await;
    assert_eq!(other.expect(201).json().get("warnings"), None);
    let two = resource(&sites[0], "two", "cidr", "10.0.0.1/32");
    let two = owner
        .post("/api/v1/resources", two)
        .await
        .expect(201)
        .json();
    let warned = |resource: &Value, of: &str| {
        let warnings = resource["warnings"].as_array().cloned().unwrap_or_default();
        assert_eq!(warnings.len(), 1, "{resource}");
        assert!(warnings[0].as_str().unwrap().contains(of), "{resource}");
    };
    warned(&two, "\"one\", which is older");
    let at = format!("/api/v1/resources/{}", id_of(&one));
    let read = owner.get(&at).await.expect(200).json();
    warned(&read, "\"two\", which is newer");
    // Both for ports of their own are meant so.
    let ports = json!({"filters": [{"protocol": "icmp"}]});
    owner.patch(&at, "*", ports).await.expect(200);
    let ports = json!({"filters": [{"protocol": "tcp", "ports": [443]}]});
    let two = format!("/api/v1/resources/{}", id_of(&two));
    let changed = owner.patch(&two, "*", ports).await.expect(200).json();
    assert_eq!(changed.get("warnings"), None, "{changed}");
    let file = json!({"sites": [{"name": "a"}], "resources": [
        {"name": "three", "site": "a", "kind": "address", "address": "10.0.0.1", "filters": [{"protocol": "icmp"}]},
    ]});
    let report = owner.post("/api/v1/apply", file).await.expect(200).json();
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("resource \"three\": ") && warning.contains("\"one\", which is older"),
        "{warning}"
    );
}

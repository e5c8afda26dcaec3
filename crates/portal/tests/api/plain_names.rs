//! Names in the file of a plain WireGuard device with gateways at two sites (ADR 0061).

use crate::live_machines::{Machine, gateway_named};
use crate::support::{Running, fresh_key, make_token};
use culvert_store::TokenScope;
use culvert_wire::messages::{GatewayFeature, ToGateway};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/plain-clients";
const EARLIER: [GatewayFeature; 1] = [GatewayFeature::PlainDns];
const WITH_GRANTS_ALONE: [GatewayFeature; 2] =
    [GatewayFeature::PlainDns, GatewayFeature::SiteNames];
const OF_TODAY: [GatewayFeature; 4] = [
    GatewayFeature::PlainDns,
    GatewayFeature::SiteNames,
    GatewayFeature::DeviceEndpoints,
    GatewayFeature::AdmittedDns,
];

/// Two sites, a gateway at each with these features, and a resource by name at each that the group of one person may use.
struct Scene {
    running: Running,
    actor: Value,
    gateways: Vec<Value>,
    _machines: Vec<Machine<ToGateway>>,
}

async fn scene(features: [&[GatewayFeature]; 2]) -> Scene {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let mut post = async |path: &str, body: Value| {
        let made = owner.post(path, body).await.expect(201).json();
        made["id"].clone()
    };
    let actor = post("/api/v1/actors", json!({"name": "ada", "kind": "user"})).await;
    let group = post("/api/v1/groups", json!({"name": "staff"})).await;
    let members = format!("/api/v1/groups/{}/members", group.as_str().unwrap());
    post(&members, json!({"actor": actor})).await;
    let (mut machines, mut gateways) = (Vec::new(), Vec::new());
    for (number, features) in (1_u8..).zip(features) {
        let name = format!("site-{number}");
        let site = post("/api/v1/sites", json!({"name": name})).await;
        let body = json!({
            "site": site, "name": format!("names {number}"), "kind": "dns",
            "address": format!("*.{name}.example"), "filters": [{"protocol": "any"}],
        });
        let resource = post("/api/v1/resources", body).await;
        let body = json!({"name": name, "group": group, "resource": resource});
        post("/api/v1/policies", body).await;
        let site = site.as_str().unwrap().parse().unwrap();
        let (_, token) = make_token(store, account, TokenScope::Gateway { site }).await;
        let machine = gateway_named(&running, &token, (&name, 30 + number), features).await;
        machines.push(machine);
    }
    let mut owner = running.owner().await;
    let listed = owner.get("/api/v1/gateways").await.expect(200).json();
    for name in ["site-1", "site-2"] {
        let mut items = listed["items"].as_array().unwrap().iter();
        let found = items.find(|item| item["name"] == name).unwrap();
        gateways.push(found["id"].clone());
    }
    Scene {
        running,
        actor,
        gateways,
        _machines: machines,
    }
}

impl Scene {
    async fn add(&self, name: &str, order: [usize; 2]) -> Value {
        let body = json!({
            "name": name, "public_key": fresh_key().to_string(), "actor": self.actor,
            "gateways": order.map(|at| self.gateways[at].clone()),
        });
        let mut owner = self.running.owner().await;
        owner.post(PATH, body).await.expect(201).json()
    }
}

fn has_limit(file: &Value, words: &str) -> bool {
    let limits = file["limits"].as_array().unwrap().iter();
    let mut limits = limits.map(|limit| limit.as_str().unwrap());
    limits.any(|limit| limit.contains(words))
}

fn allowed(file: &Value, place: usize) -> Vec<&str> {
    let allowed = file["peers"][place]["allowed_ips"].as_array().unwrap();
    allowed.iter().map(|text| text.as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_gateway_of_a_file_has_its_share_of_the_ranges_for_names() {
    let scene = scene([&OF_TODAY, &OF_TODAY]).await;
    for (name, order) in [("phone", [0, 1]), ("tablet", [1, 0])] {
        let file = scene.add(name, order).await;
        let server = file["dns"][0].as_str().unwrap();
        let own = format!("{server}/32");
        let first = allowed(&file, 0);
        assert_eq!(first.len(), 3, "{first:?}");
        for network in ["100.96.0.0/14", "fd00:2021:1111:8000::/110", &own] {
            assert!(first.contains(&network), "{network}: {first:?}");
        }
        let second = ["100.100.0.0/14", "fd00:2021:1111:8000::4:0/110"];
        assert_eq!(allowed(&file, 1), second);
        assert!(
            has_limit(&file, "while the portal and those gateways"),
            "{file}"
        );
        assert!(!has_limit(&file, "earlier version"), "{file}");
        // It is the same when it is shown again.
        let id = file["client"]["id"].as_str().unwrap();
        let mut owner = scene.running.owner().await;
        let again = owner.get(&format!("{PATH}/{id}")).await.expect(200).json();
        assert_eq!(again["peers"], file["peers"]);
    }
}

#[tokio::test]
async fn a_first_gateway_of_an_earlier_version_gets_a_file_with_the_whole_ranges() {
    let scene = scene([&EARLIER, &OF_TODAY]).await;
    let file = scene.add("phone", [0, 1]).await;
    let first = allowed(&file, 0);
    assert!(first.contains(&"100.96.0.0/11"), "{first:?}");
    assert_eq!(allowed(&file, 1), [""; 0]);
    assert!(has_limit(&file, "give it a new key and file"), "{file}");
    // Another order is another file: there, the earlier one finds no names for it.
    let file = scene.add("tablet", [1, 0]).await;
    assert!(allowed(&file, 0).contains(&"100.96.0.0/14"));
    assert!(
        has_limit(&file, "at the site of \"site-1\" are refused"),
        "{file}"
    );
}

#[tokio::test]
async fn a_new_key_makes_a_file_with_shares_and_another_look_at_it_does_not() {
    let scene = scene([&EARLIER, &OF_TODAY]).await;
    let file = scene.add("phone", [0, 1]).await;
    let id = file["client"]["id"].as_str().unwrap();
    let at = format!("{PATH}/{id}");
    let mut owner = scene.running.owner().await;
    // With the other gateway first, a file has shares.
    let body = json!({
        "public_key": fresh_key().to_string(),
        "gateways": [scene.gateways[1], scene.gateways[0]],
    });
    let changed = owner.post(&format!("{at}/key"), body).await;
    let changed = changed.expect(200).json();
    assert!(allowed(&changed, 0).contains(&"100.96.0.0/14"));
    let again = owner.get(&at).await.expect(200).json();
    assert_eq!(again["peers"], changed["peers"]);
}

/// Takes the owner's access at these sites away.
async fn take_access(scene: &Scene, sites: &[&str]) {
    let mut owner = scene.running.owner().await;
    let policies = owner.get("/api/v1/policies").await.expect(200).json();
    for policy in policies["items"].as_array().unwrap() {
        if sites.contains(&policy["name"].as_str().unwrap()) {
            let at = format!("/api/v1/policies/{}", policy["id"].as_str().unwrap());
            owner.delete(&at).await.expect(204);
        }
    }
}

#[tokio::test]
async fn a_file_is_the_same_whatever_its_owner_may_use_by_name() {
    let scene = scene([&OF_TODAY, &OF_TODAY]).await;
    let with_all = scene.add("phone", [0, 1]).await;
    let id = with_all["client"]["id"].as_str().unwrap().to_owned();
    for sites in [&["site-1"], &["site-2"]] {
        take_access(&scene, sites).await;
        let mut owner = scene.running.owner().await;
        let file = owner.get(&format!("{PATH}/{id}")).await.expect(200).json();
        for field in ["dns", "peers", "file"] {
            assert_eq!(file[field], with_all[field], "without {sites:?}");
        }
        assert!(!has_limit(&file, "has no DNS server"), "{file}");
        assert!(
            has_limit(
                &file,
                &format!(
                    "at the site of \"{}\" that the device can use now",
                    sites[0]
                )
            ),
            "{file}"
        );
    }
    assert!(has_limit(&with_all, "Without the line `DNS`"), "{with_all}");
}

#[tokio::test]
async fn a_first_gateway_that_answers_by_grants_alone_is_no_dns_server_without_access_at_its_site()
{
    let scene = scene([&WITH_GRANTS_ALONE, &OF_TODAY]).await;
    take_access(&scene, &["site-1"]).await;
    let file = scene.add("phone", [0, 1]).await;
    assert_eq!(file["dns"], json!([]));
    assert!(
        has_limit(&file, "no policy gives the owner a resource at its site"),
        "{file}"
    );
    take_access(&scene, &["site-2"]).await;
    let file = scene.add("tablet", [0, 1]).await;
    assert_eq!(file["dns"], json!([]));
    assert!(
        has_limit(&file, "no policy gives the owner a resource by name"),
        "{file}"
    );
}

//! Plain WireGuard devices over the REST API.

use crate::live_machines::{Machine, gateway_that};
use crate::support::{
    Client, Running, enrol_client, enrol_gateway, fresh_key, make_actor, make_token,
};
use crate::things::make_things;
use culvert_ids::{ActorId, GatewayId, SiteId};
use culvert_store::{
    ActorKind, Gateway, MAX_PLAIN_CLIENT_GATEWAYS, MAX_PLAIN_CLIENTS_PER_ACTOR, Role, StoreExt,
    TokenScope,
};
use culvert_wire::PublicKey;
use culvert_wire::messages::{DeviceEndpoint, FromGateway, GatewayFeature, ToGateway};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/plain-clients";

/// A user with an API token.
async fn user(running: &Running) -> (ActorId, Client) {
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::User).await;
    let role = Role::User;
    let (_, secret) = make_token(store, account, TokenScope::Api { actor, role }).await;
    (actor, running.client().await.with(&secret))
}

fn new(name: &str, gateway: GatewayId) -> Value {
    json!({
        "name": name, "public_key": fresh_key().to_string(), "gateways": [gateway],
        "endpoints": {gateway.to_string(): "vpn.example.com:51820"},
    })
}

async fn allow_own_devices(running: &Running, on: bool) {
    let mut owner = running.owner().await;
    let body = json!({"own_devices": on});
    let account = owner.patch("/api/v1/account", "*", body).await.expect(200);
    assert_eq!(account.json()["own_devices"], on);
}

#[tokio::test]
async fn the_answer_has_all_that_the_file_needs_but_the_private_key() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut owner = running.owner().await;
    // The device can use none of these.
    for (name, kind, address, applications) in [
        ("names", "dns", "*.corp.example", json!("any")),
        ("ruled", "address", "10.9.9.9", json!({"only": ["backup"]})),
        ("without a policy", "address", "10.9.9.8", json!("any")),
    ] {
        let body = json!({
            "site": things.site, "name": name, "kind": kind, "address": address,
            "filters": [{"protocol": "any"}], "applications": applications,
        });
        let made = owner
            .post("/api/v1/resources", body)
            .await
            .expect(201)
            .json();
        if name != "without a policy" {
            let body = json!({"name": name, "group": things.group, "resource": made["id"]});
            owner.post("/api/v1/policies", body).await.expect(201);
        }
    }
    let mut body = new("phone", things.gateway);
    body["actor"] = json!(things.member);
    let key = body["public_key"].clone();
    let added = owner.post(PATH, body).await.expect(201).json();
    let gateway: Gateway = store.get_as(account, things.gateway).await.unwrap();
    let peers = json!([{
        "gateway": things.gateway, "gateway_name": gateway.name,
        "gateway_key": gateway.public_key.to_string(),
        "endpoint": "vpn.example.com:51820", "allowed_ips": ["10.0.0.1/32"],
    }]);
    assert_eq!((&added["peers"], &added["dns"]), (&peers, &json!([])));
    let client = &added["client"];
    assert_eq!(client["public_key"], key);
    assert_eq!(client["gateways"], json!([things.gateway]));
    let addresses = json!([
        format!("{}/32", client["ipv4"].as_str().unwrap()),
        format!("{}/128", client["ipv6"].as_str().unwrap()),
    ]);
    assert_eq!(added["addresses"], addresses);
    let file = added["file"].as_str().unwrap();
    for line in [
        "PrivateKey = REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE",
        &format!("PublicKey = {}", gateway.public_key),
        "AllowedIPs = 10.0.0.1/32",
        "Endpoint = vpn.example.com:51820",
        "PersistentKeepalive = 25",
    ] {
        assert!(file.lines().any(|found| found == line), "{line}: {file}");
    }
    let limits = added["limits"].to_string();
    for word in [
        "gateways of its file alone",
        "applications",
        "operating system",
        "by name",
    ] {
        assert!(limits.contains(word), "{word}: {limits}");
    }
    // It is shown again, without an address that nobody reports.
    let id = client["id"].as_str().unwrap();
    let shown = owner.get(&format!("{PATH}/{id}")).await.expect(200).json();
    assert_eq!(
        (&shown["client"], &shown["peers"][0]["endpoint"]),
        (client, &Value::Null)
    );
    assert!(shown["limits"].to_string().contains("not connected"));
    let listed = owner
        .get(&format!("/api/v1/clients/{id}"))
        .await
        .expect(200);
    assert_eq!(&listed.json(), client);
    // Another client has no file.
    let other = format!("{PATH}/{}", things.client);
    owner.get(&other).await.problem(409);
}

#[tokio::test]
async fn a_key_that_cannot_be_one_or_exists_is_refused() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut owner = running.owner().await;
    let zero = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let one = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let eight = "4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA=";
    for (key, status) in [(zero, 422), (one, 422), (eight, 422), ("phone", 422)] {
        let mut body = new("phone", things.gateway);
        body["public_key"] = json!(key);
        let answer = owner.post(PATH, body).await;
        assert!(
            [status, 400].contains(&answer.status.as_u16()),
            "{answer:?}"
        );
    }
    let client: culvert_store::Client = store.get_as(account, things.client).await.unwrap();
    let plain: culvert_store::Client = store.get_as(account, things.plain).await.unwrap();
    let gateway: Gateway = store.get_as(account, things.gateway).await.unwrap();
    for key in [client.public_key, plain.public_key, gateway.public_key] {
        let mut body = new("phone", things.gateway);
        body["public_key"] = json!(key.to_string());
        owner.post(PATH, body).await.problem(409);
        let rekey = format!("{PATH}/{}/key", things.plain);
        let body = json!({"public_key": key.to_string()});
        let expected = match key == plain.public_key {
            true => 200,
            false => 409,
        };
        assert_eq!(owner.post(&rekey, body).await.status, expected);
    }
    owner
        .post(PATH, new("phone", things.gateway))
        .await
        .expect(201);
    owner
        .post(PATH, new("PHONE", things.gateway))
        .await
        .problem(409);
}

#[tokio::test]
async fn people_add_devices_of_their_own_where_the_account_lets_them() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let (actor, mut user) = user(&running).await;
    user.post(PATH, new("phone", things.gateway))
        .await
        .problem(403);
    allow_own_devices(&running, true).await;
    let mut body = new("phone", things.gateway);
    body["actor"] = json!(things.member);
    user.post(PATH, body).await.problem(403);
    let added = user.post(PATH, new("phone", things.gateway)).await;
    let added = added.expect(201).json();
    assert_eq!(added["client"]["actor"], actor.to_string());
    let id = added["client"]["id"].as_str().unwrap().to_owned();
    let at = format!("/api/v1/clients/{id}");
    // Another's device is not there. The person's own is renamed, and gets another key.
    user.get(&format!("{PATH}/{}", things.plain))
        .await
        .problem(404);
    let renamed = user.patch(&at, "*", json!({"name": "tablet"})).await;
    assert_eq!(renamed.expect(200).json()["name"], "tablet");
    let key = fresh_key().to_string();
    let rekey = format!("{PATH}/{id}/key");
    let changed = user
        .post(&rekey, json!({"public_key": key}))
        .await
        .expect(200);
    assert_eq!(changed.json()["client"]["public_key"], key);
    // A version that somebody else has replaced is not changed.
    let body = json!({"public_key": fresh_key().to_string()});
    let headers = [("if-match", "\"1\"")];
    user.json("POST", &rekey, &headers, body).await.problem(412);
    // A client that Culvert runs on stays what administrators change.
    let (laptop, _) = enrol_client(store, account, actor).await;
    user.delete(&format!("/api/v1/clients/{laptop}"))
        .await
        .problem(403);
    allow_own_devices(&running, false).await;
    let body = json!({"public_key": fresh_key().to_string()});
    user.post(&rekey, body).await.problem(403);
    user.delete(&at).await.expect(204);
    user.get(&at).await.problem(404);
}

#[tokio::test]
async fn a_device_without_a_gateway_gets_the_only_one() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let body = || json!({"name": "phone", "public_key": fresh_key().to_string()});
    let none = owner.post(PATH, body()).await.problem(422);
    assert!(
        none.to_string().contains("no gateway has enrolled"),
        "{none}"
    );
    let site = owner.post("/api/v1/sites", json!({"name": "office"})).await;
    let site = site.expect(201).json()["id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let (only, _) = enrol_gateway(store, account, site).await;
    let added = owner.post(PATH, body()).await.expect(201).json();
    assert_eq!(added["client"]["gateways"], json!([only]));
    assert!(added["limits"].to_string().contains("leads nowhere"));
    // It is not deleted while a device has its key.
    owner
        .delete(&format!("/api/v1/gateways/{only}"))
        .await
        .problem(409);
    let (other, _) = enrol_gateway(store, account, site).await;
    let several = owner.post(PATH, body()).await.problem(422).to_string();
    for id in [only, other] {
        assert!(several.contains(&id.to_string()), "{several}");
    }
    // Another key and another gateway at once.
    let rekey = format!("{PATH}/{}/key", added["client"]["id"].as_str().unwrap());
    let mut new = body();
    new.as_object_mut().unwrap().remove("name");
    new["gateways"] = json!([other]);
    let moved = owner.post(&rekey, new).await.expect(200).json();
    assert_eq!(moved["client"]["gateways"], json!([other]));
    owner
        .delete(&format!("/api/v1/gateways/{only}"))
        .await
        .expect(204);
}

#[tokio::test]
async fn one_person_has_a_bounded_number_of_devices() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut owner = running.owner().await;
    for number in 0..MAX_PLAIN_CLIENTS_PER_ACTOR {
        let body = new(&format!("device {number}"), things.gateway);
        owner.post(PATH, body).await.expect(201);
    }
    let more = owner.post(PATH, new("one more", things.gateway)).await;
    assert!(more.status.is_client_error(), "{more:?}");
    assert!(more.text.contains("of one actor"), "{more:?}");
    // Another's devices have room of their own.
    let mut body = new("another's", things.gateway);
    body["actor"] = json!(things.member);
    owner.post(PATH, body).await.expect(201);
}

/// A site with a gateway.
async fn add_site(running: &Running, name: &str) -> (SiteId, GatewayId) {
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": name})).await;
    let site = site.expect(201).json()["id"].as_str().unwrap().parse();
    let site = site.unwrap();
    (site, enrol_gateway(store, account, site).await.0)
}

#[tokio::test]
async fn one_file_leads_to_a_gateway_of_each_site() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let (depot, second) = add_site(&running, "depot").await;
    let mut owner = running.owner().await;
    // The first address is at both sites.
    for address in ["10.0.0.1", "10.7.7.7"] {
        let body = json!({
            "site": depot, "name": format!("depot {address}"), "kind": "address", "address": address,
            "filters": [{"protocol": "any"}],
        });
        let made = owner.post("/api/v1/resources", body).await;
        let made = made.expect(201).json();
        let body = json!({"name": made["name"], "group": things.group, "resource": made["id"]});
        owner.post("/api/v1/policies", body).await.expect(201);
    }
    let mut body = new("phone", things.gateway);
    body["actor"] = json!(things.member);
    body["gateways"] = json!([things.gateway, second]);
    let added = owner.post(PATH, body).await.expect(201).json();
    assert_eq!(added["client"]["gateways"], json!([things.gateway, second]));
    let allowed = |number: usize| added["peers"][number]["allowed_ips"].clone();
    assert_eq!(allowed(0), json!(["10.0.0.1/32"]));
    assert_eq!(allowed(1), json!(["10.7.7.7/32"]));
    let file = added["file"].as_str().unwrap();
    assert_eq!(file.matches("[Peer]").count(), 2, "{file}");
    let limits = added["limits"].to_string();
    assert!(
        limits.contains("10.0.0.1/32 is at the sites of"),
        "{limits}"
    );
    // Both gateways stay as long as the file has them. Another key alone keeps them.
    let rekey = format!("{PATH}/{}/key", added["client"]["id"].as_str().unwrap());
    let body = json!({"public_key": fresh_key().to_string()});
    let changed = owner.post(&rekey, body).await.expect(200).json();
    assert_eq!(
        changed["client"]["gateways"],
        json!([things.gateway, second])
    );
    let at = format!("/api/v1/gateways/{second}");
    owner.delete(&at).await.problem(409);
    let body = json!({
        "public_key": changed["client"]["public_key"], "gateways": [things.gateway],
    });
    owner.post(&rekey, body).await.expect(200);
    owner.delete(&at).await.expect(204);
}

#[tokio::test]
async fn gateways_and_endpoints_that_fit_no_file_are_refused() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let (beside, _) = enrol_gateway(store, account, things.site).await;
    let (_, second) = add_site(&running, "depot").await;
    let (_, revoked) = add_site(&running, "closed").await;
    let mut owner = running.owner().await;
    let revoke = format!("/api/v1/gateways/{revoked}/revoke");
    owner.post(&revoke, json!({})).await.expect(200);
    let first = things.gateway;
    let many: Vec<_> = (0..=MAX_PLAIN_CLIENT_GATEWAYS).map(|_| second).collect();
    let endpoint = |id: GatewayId, text: &str| json!({id.to_string(): text});
    let at = "vpn.example.com:51820";
    for (gateways, endpoints, words) in [
        (vec![first, beside], json!({}), "are of one site"),
        (vec![second, second], json!({}), "twice"),
        (vec![first, revoked], json!({}), "is revoked"),
        (many, json!({}), "at most 8"),
        (
            vec![GatewayId::from_bytes([7; 16])],
            json!({}),
            "does not exist",
        ),
        (
            vec![first],
            endpoint(second, at),
            "does not use this gateway",
        ),
        (
            vec![first],
            endpoint(first, "vpn\nPostUp = reboot:1"),
            "HOST:PORT",
        ),
    ] {
        let mut body = new("phone", first);
        body["gateways"] = json!(gateways);
        body["endpoints"] = endpoints;
        let refused = owner.post(PATH, body).await.problem(422).to_string();
        assert!(refused.contains(words), "{words}: {refused}");
    }
    // Nothing of this has taken the name.
    owner.post(PATH, new("phone", first)).await.expect(201);
}

/// A gateway that tells where devices are, and its id.
async fn telling_gateway(running: &Running, site: SiteId) -> (Machine<ToGateway>, GatewayId) {
    let (store, account) = (running.store.as_ref(), running.account());
    let (_, token) = make_token(store, account, TokenScope::Gateway { site }).await;
    let features = vec![GatewayFeature::DeviceEndpoints];
    let mut gateway = gateway_that(running, &token, features).await;
    assert!(matches!(
        gateway.hear().await,
        ToGateway::DevicesAdmitted { .. }
    ));
    let mut owner = running.owner().await;
    let listed = owner
        .get("/api/v1/gateways?name=gateway")
        .await
        .expect(200)
        .json();
    let id = listed["items"][0]["id"].as_str().unwrap();
    (gateway, id.parse().unwrap())
}

#[tokio::test]
async fn the_place_of_a_device_is_shown_with_its_gateway_and_judged() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut owner = running.owner().await;
    let conditions = json!([{"kind": "public_address", "cidrs": ["198.51.100.0/24"]}]);
    let policy = format!("/api/v1/policies/{}", things.policy);
    let body = json!({"conditions": conditions});
    owner.patch(&policy, "*", body).await.expect(200);
    let (mut gateway, id) = telling_gateway(&running, things.site).await;
    let mut body = new("phone", id);
    body["actor"] = json!(things.member);
    let key: PublicKey = body["public_key"].as_str().unwrap().parse().unwrap();
    let added = owner.post(PATH, body).await.expect(201).json();
    let device = added["client"]["id"].as_str().unwrap().to_owned();
    let endpoints = format!("{PATH}/{device}/endpoints");
    assert_eq!(owner.get(&endpoints).await.expect(200).json(), json!([]));
    assert!(matches!(
        gateway.hear().await,
        ToGateway::DeviceAdmitted { .. }
    ));
    let explain = format!(
        "/api/v1/explain?client={device}&resource={}",
        things.resource
    );
    let explained = owner.get(&explain).await.expect(200).json();
    let text = explained["text"].as_str().unwrap();
    assert!(text.contains("has not heard the device"), "{text}");

    let handshake = culvert_portal_base::now();
    let told = FromGateway::DeviceEndpoints {
        devices: vec![DeviceEndpoint {
            client: device.parse().unwrap(),
            client_key: key,
            address: Some("198.51.100.7".parse().unwrap()),
            handshake,
        }],
        more: false,
    };
    gateway.say(&told).await;
    assert!(matches!(gateway.hear().await, ToGateway::Grant { .. }));
    let shown = owner.get(&endpoints).await.expect(200).json();
    assert_eq!(
        shown,
        json!([{
            "gateway": id, "address": "198.51.100.7",
            "last_handshake": handshake.to_string(), "counts": true,
        }])
    );
    let explained = owner.get(&explain).await.expect(200).json();
    assert_eq!(explained["judged_address"], "198.51.100.7");
    let text = explained["text"].as_str().unwrap();
    assert!(
        text.contains("address: 198.51.100.7, where \"gateway\" hears the device"),
        "{text}"
    );
    // The row is written behind the hub.
    let client = format!("/api/v1/clients/{device}");
    let row = loop {
        let row = owner.get(&client).await.expect(200).json();
        if !row["last_seen"].is_null() {
            break row;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(row["last_seen"], handshake.to_string());
    assert_eq!(row["last_address"], "198.51.100.7");
    assert_eq!(row["software"], Value::Null);
    // Another client has no such places.
    let other = format!("{PATH}/{}/endpoints", things.client);
    owner.get(&other).await.problem(409);
}

#[tokio::test]
async fn a_file_is_shown_with_the_endpoints_that_are_given_again() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut owner = running.owner().await;
    let added = owner.post(PATH, new("phone", things.gateway)).await;
    let added = added.expect(201).json();
    let at = format!("{PATH}/{}", added["client"]["id"].as_str().unwrap());
    let given = format!("{at}?endpoints={}=vpn.example.com:51820", things.gateway);
    let shown = owner.get(&given).await.expect(200).json();
    assert_eq!(shown["file"], added["file"]);
    for wrong in [
        "vpn.example.com:51820",
        "gate=vpn.example.com:51820",
        &format!("{}=vpn.example.com", things.gateway),
        &format!("{}=vpn.example.com:51820", GatewayId::from_bytes([9; 16])),
    ] {
        owner
            .get(&format!("{at}?endpoints={wrong}"))
            .await
            .problem(422);
    }
}

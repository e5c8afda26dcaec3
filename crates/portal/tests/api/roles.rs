//! Every route with everyone. The routes come from the document that the portal serves, so that a
//! new one can't be forgotten: without an example here, the test fails.

use crate::support::{
    Answer, Client, Running, api_token, birth, enrol_client, fresh_key, make_actor, make_token,
    now, other_account,
};
use crate::things::{Things, make_things};
use culvert_base::UnixTime;
use culvert_ids::GroupId;
use culvert_store::{
    ActorKind, Author, ListFilter, Mutation, PageLimit, Provider, Role, Seq, StoreExt, TokenScope,
};
use serde_json::{Value, json};

/// A route of the document.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) template: String,
}

async fn routes(anyone: &mut Client) -> Vec<Route> {
    let document = anyone.get("/api/v1/openapi.json").await.expect(200).json();
    let mut routes = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            assert!(
                ["GET", "POST", "PATCH", "DELETE"].contains(&method.as_str()),
                "{method} {template}"
            );
            let template = template.clone();
            routes.push(Route { method, template });
        }
    }
    assert!(routes.len() >= 50, "{}", routes.len());
    routes
}

impl Route {
    /// It asks for no API token: set-up has a token of its own, and a machine for which somebody is to
    /// sign in has none yet (`devices.rs`).
    pub(crate) fn is_setup(&self) -> bool {
        self.template == "/api/v1/setup" || self.is_for_strangers()
    }

    fn is_for_strangers(&self) -> bool {
        self.template.starts_with("/api/v1/device-sign-ins")
    }

    /// Their own clients alone, so that others' are as if they were not there.
    fn is_for_users(&self) -> bool {
        matches!(
            (&*self.method, &*self.template),
            ("GET", "/api/v1/clients" | "/api/v1/clients/{id}")
                | ("POST", "/api/v1/clients/{id}/revoke")
                | ("GET", "/api/v1/plain-clients/{id}")
                | ("GET", "/api/v1/plain-clients/{id}/endpoints")
                | ("POST", "/api/v1/plain-clients/{id}/key")
        )
    }

    fn reads(&self) -> bool {
        self.method == "GET"
    }

    fn names_a_thing(&self) -> bool {
        (self.template.contains('{') && !self.template.contains("/export/"))
            || self.template == "/api/v1/explain"
    }

    pub(crate) fn path(&self, things: &Things) -> String {
        let kind = self.template.split('/').nth(3).unwrap();
        let id = match kind {
            "actors" => things.actor.to_string(),
            "groups" => things.group.to_string(),
            "sites" => things.site.to_string(),
            "resources" => things.resource.to_string(),
            "policies" => things.policy.to_string(),
            "clients" => things.client.to_string(),
            "plain-clients" => things.plain.to_string(),
            "gateways" => things.gateway.to_string(),
            "relays" => things.relay.to_string(),
            "tokens" => things.token.to_string(),
            "providers" => things.provider.to_string(),
            "identities" => things.identity.to_string(),
            "explain" => {
                let (client, resource) = (things.client, things.resource);
                return format!("{}?client={client}&resource={resource}", self.template);
            }
            _ => String::new(),
        };
        let path = self.template.replace("{id}", &id);
        let path = path.replace("{actor}", &things.member.to_string());
        let path = path.replace("{name}", &things.sink);
        let path = path.replace("{format}", "csv");
        assert!(!path.contains('{'), "a new parameter in {path}");
        match (
            self.method.as_str(),
            kind,
            self.template.matches('/').count(),
        ) {
            // Their dependents are deleted too.
            ("DELETE", "actors" | "sites", 4) => format!("{path}?cascade=true"),
            _ => path,
        }
    }

    /// A body that is right, where the route takes one.
    fn body(&self, things: &Things) -> Option<Value> {
        let name = format!("new {}", GroupId::new(UnixTime::EPOCH, birth().1));
        let route = self.template.strip_prefix("/api/v1/").unwrap();
        let body = match (self.method.as_str(), route) {
            ("GET" | "DELETE", _) => return None,
            (
                "POST",
                "clients/{id}/verify"
                | "clients/{id}/unverify"
                | "clients/{id}/revoke"
                | "gateways/{id}/verify"
                | "gateways/{id}/unverify"
                | "gateways/{id}/drain"
                | "gateways/{id}/undrain"
                | "gateways/{id}/revoke"
                | "relays/{id}/drain"
                | "relays/{id}/undrain"
                | "relays/{id}/revoke"
                | "tokens/{id}/revoke"
                | "sinks/{name}/test",
            ) => return None,
            ("POST", "actors/{id}/sign-in") => {
                json!({"role": "auditor", "password": "correct horse battery"})
            }
            // The actor has an API token as auditor, which a lesser role would lower.
            ("POST", "actors/{id}/invitation") => json!({"role": "auditor"}),
            ("POST", "invitations") => json!({"name": name, "role": "user"}),
            ("PATCH", "retention") => json!({"access": {"days": 30, "entries": 5000}}),
            ("PATCH", "sinks/{name}") => json!({"logs": ["access", "changes"]}),
            ("POST", "sinks") => {
                let number = birth().1[7];
                json!({"sink": {"name": format!("new-{number}"), "logs": ["access"], "target": {
                    "kind": "file", "file": format!("new-{number}"), "max_mib": 1, "keep": 1,
                }}})
            }
            ("PATCH", "account") => json!({"grant_lifetime_s": 600}),
            ("PATCH", _) => json!({ "name": name }),
            ("POST", "actors") => json!({"kind": "user", "name": name}),
            ("POST", "groups" | "sites") => json!({ "name": name }),
            ("POST", "groups/{id}/members") => json!({"actor": things.actor}),
            ("POST", "resources") => json!({
                "site": things.site, "name": name, "kind": "dns", "address": "*.corp.example",
                "filters": [{"protocol": "any"}],
            }),
            ("POST", "policies") => {
                json!({"name": name, "group": things.group, "resource": things.resource})
            }
            ("POST", "tokens") => {
                json!({"kind": "api", "actor": things.actor, "role": "auditor", "name": name})
            }
            ("POST", "providers") => {
                json!({"name": name, "issuer": "https://id.example", "client_id": "culvert"})
            }
            ("POST", "identities") => {
                json!({"provider": things.provider, "subject": "2", "actor": things.member})
            }
            ("POST", "plain-clients") => json!({
                "name": name, "public_key": fresh_key().to_string(), "actor": things.member,
                "gateways": [things.gateway],
            }),
            ("POST", "plain-clients/{id}/key") => json!({"public_key": fresh_key().to_string()}),
            ("POST", "device-sign-ins") => json!({"machine": "laptop"}),
            ("POST", "device-sign-ins/ask") => json!({"device_code": "x"}),
            ("POST", "apply") => json!({"groups": [{ "name": name }]}),
            ("POST", "setup") => json!({ "owner": name }),
            other => panic!("{other:?} has no example: add one"),
        };
        Some(body)
    }

    /// The body refers to things by their ids.
    fn refers(&self) -> bool {
        let body = [
            "groups/{id}/members",
            "resources",
            "policies",
            "tokens",
            "identities",
            "plain-clients",
        ];
        let route = self.template.strip_prefix("/api/v1/").unwrap();
        self.method == "POST" && body.contains(&route)
    }

    pub(crate) async fn send(&self, client: &mut Client, things: &Things) -> Answer {
        let path = self.path(things);
        let headers: &[_] = match self.method.as_str() {
            "PATCH" => &[("if-match", "*")],
            _ => &[],
        };
        match self.body(things) {
            Some(body) => client.json(&self.method, &path, headers, body).await,
            None => client.send(&self.method, &path, headers, None).await,
        }
    }
}

async fn seq(running: &Running) -> Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

#[tokio::test]
async fn an_auditor_reads_everything_and_changes_nothing() {
    let running = Running::start().await;
    let mut auditor = running.with_role(Role::Auditor).await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let before = seq(&running).await;
    for route in routes(&mut auditor).await {
        let answer = route.send(&mut auditor, &things).await;
        match route.reads() {
            true => assert_eq!(answer.status, 200, "{route:?} {answer:?}"),
            false if route.is_for_strangers() => assert!(answer.status.is_success()),
            false if route.is_setup() => assert_eq!(answer.status, 401),
            false => {
                assert_eq!(answer.status, 403, "{route:?} {answer:?}");
                answer.problem(403);
            }
        }
    }
    // The role is judged first: another answer would tell what is there.
    let nobody = "gw_00000000000000000000000000";
    for path in [things.gateway.to_string().as_str(), nobody] {
        let path = format!("/api/v1/gateways/{path}/drain?now=true");
        auditor.send("POST", &path, &[], None).await.problem(403);
    }
    let body = json!({"groups": [{"name": "x"}]});
    auditor
        .post("/api/v1/apply?dry_run=true", body)
        .await
        .expect(200);
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn a_user_sees_and_gives_up_the_own_clients_and_nothing_else() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let role = Role::User;
    let (_, secret) = make_token(store, account, TokenScope::Api { actor, role }).await;
    let (own, _) = enrol_client(store, account, actor).await;
    let mut user = running.client().await.with(&secret);
    let things = make_things(store, account).await;
    let before = seq(&running).await;
    for route in routes(&mut user).await {
        let answer = route.send(&mut user, &things).await;
        let expected = match (&*route.method, &*route.template) {
            ("POST", "/api/v1/setup") => 401,
            ("POST", "/api/v1/device-sign-ins") => 201,
            ("POST", "/api/v1/device-sign-ins/ask") => 200,
            ("GET", "/api/v1/clients") => 200,
            // They are another's.
            (
                "GET",
                "/api/v1/clients/{id}"
                | "/api/v1/plain-clients/{id}"
                | "/api/v1/plain-clients/{id}/endpoints",
            )
            | ("POST", "/api/v1/clients/{id}/revoke" | "/api/v1/plain-clients/{id}/key") => 404,
            _ => 403,
        };
        assert_eq!(answer.status, expected, "{route:?} {answer:?}");
    }
    user.get("/metrics").await.problem(403);
    let body = json!({"groups": [{"name": "x"}]});
    user.post("/api/v1/apply?dry_run=true", body)
        .await
        .problem(403);
    let list = user.get("/api/v1/clients").await.expect(200).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["items"][0]["id"], own.to_string());
    let other = format!("/api/v1/clients?actor={}", things.member);
    let others = user.get(&other).await.expect(200).json();
    assert_eq!(others["items"], json!([]));
    let at = format!("/api/v1/clients/{own}");
    user.get(&at).await.expect(200);
    user.patch(&at, "*", json!({"name": "x"}))
        .await
        .problem(403);
    for word in ["verify", "unverify"] {
        let path = format!("{at}/{word}");
        user.send("POST", &path, &[], None).await.problem(403);
    }
    user.delete(&at).await.problem(403);
    assert_eq!(seq(&running).await, before, "nothing was changed");
    let path = format!("{at}/revoke");
    user.send("POST", &path, &[], None).await.expect(200);
}

#[tokio::test]
async fn admins_and_owners_may_use_every_route() {
    let running = Running::start().await;
    for role in [Role::Admin, Role::Owner] {
        let mut client = running.with_role(role).await;
        for route in routes(&mut client).await {
            if route.is_setup() {
                continue;
            }
            let things = make_things(running.store.as_ref(), running.account()).await;
            let answer = route.send(&mut client, &things).await;
            assert!(answer.status.is_success(), "{role:?} {route:?} {answer:?}");
            // An account has room for few of them.
            clear_providers(&running).await;
        }
    }
}

pub(crate) async fn clear_providers(running: &Running) {
    let (store, account) = (&running.store, running.account());
    let filter = ListFilter::default();
    let all = store.list_as::<Provider>(account, &filter, None, PageLimit::MAX);
    let all = all.await.unwrap().items;
    let deletions = all.into_iter().map(|provider| Mutation::Delete {
        id: provider.id.into(),
        expected_version: None,
        cascade: false,
    });
    let deletions = deletions.collect();
    let written = store.write(account, Author::PORTAL, now(), deletions).await;
    written.unwrap();
}

/// For every role, a stranger gets the same answer about things that exist as about things that do
/// not.
#[tokio::test]
async fn ghsa_6v5r_nobody_of_another_account_finds_anything_by_any_id() {
    let running = Running::start().await;
    let store = running.store.as_ref();
    let other = other_account(store).await;
    let things = make_things(store, running.account()).await;
    // So that lists have something to show.
    make_things(store, other).await;
    let before = seq(&running).await;
    for role in [Role::Owner, Role::Admin, Role::Auditor, Role::User] {
        let secret = api_token(store, other, role).await;
        let mut stranger = running.client().await.with(&secret);
        for route in routes(&mut stranger).await {
            if route.is_setup() {
                continue;
            }
            let answer = route.send(&mut stranger, &things).await;
            let what = format!("{role:?} {route:?} {answer:?}");
            let may = match role {
                Role::Owner | Role::Admin => true,
                Role::Auditor => route.reads(),
                Role::User => route.is_for_users(),
            };
            match (may, route.names_a_thing(), route.refers()) {
                // Some look a thing up first, and find none.
                (false, true, _) => assert!([403, 404].contains(&answer.status.as_u16()), "{what}"),
                (false, false, _) => assert_eq!(answer.status, 403, "{what}"),
                (true, true, _) => assert_eq!(answer.status, 404, "{what}"),
                (true, false, true) => assert_eq!(answer.status, 422, "{what}"),
                (true, false, false) => assert!(answer.status.is_success(), "{what}"),
            }
            if !route.names_a_thing() && !route.refers() {
                for id in things.ids() {
                    assert!(!answer.text.contains(&id), "{role:?} {route:?} shows {id}");
                }
            }
        }
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn an_admin_does_not_become_an_owner() {
    let running = Running::start().await;
    let store = running.store.as_ref();
    let account = running.account();
    let owner = make_actor(store, account, ActorKind::Admin).await;
    let scope = TokenScope::Api {
        actor: owner,
        role: Role::Owner,
    };
    let (owner_token, _) = make_token(store, account, scope).await;
    let client_scope = TokenScope::Client { actor: owner };
    let (owner_client_token, _) = make_token(store, account, client_scope).await;
    let own = make_actor(store, account, ActorKind::Admin).await;
    let mut admin = running.with_role(Role::Admin).await;
    let before = seq(&running).await;

    let make_owner = json!({"kind": "api", "actor": own, "role": "owner", "name": "t"});
    admin.post("/api/v1/tokens", make_owner).await.problem(403);
    for body in [
        json!({"kind": "api", "actor": owner, "role": "admin", "name": "t"}),
        json!({"kind": "client", "actor": owner, "name": "t"}),
    ] {
        admin.post("/api/v1/tokens", body).await.problem(403);
    }
    let at = format!("/api/v1/actors/{owner}");
    for body in [json!({"disabled": true}), json!({"name": "x"})] {
        admin.patch(&at, "*", body).await.problem(403);
    }
    admin
        .delete(&format!("{at}?cascade=true"))
        .await
        .problem(403);
    for token in [owner_token, owner_client_token] {
        let at = format!("/api/v1/tokens/{token}");
        admin
            .send("POST", &format!("{at}/revoke"), &[], None)
            .await
            .problem(403);
        admin.delete(&at).await.problem(403);
    }
    let disable = json!({"actors": [
        {"name": format!("actor {owner}"), "kind": "admin", "disabled": true}
    ]});
    admin.post("/api/v1/apply", disable).await.problem(403);
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn the_last_owner_stays() {
    let running = Running::start().await;
    let store = running.store.as_ref();
    let account = running.account();
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let scope = TokenScope::Api {
        actor,
        role: Role::Owner,
    };
    let (token, secret) = make_token(store, account, scope).await;
    let mut owner = running.client().await.with(&secret);
    let revoke = format!("/api/v1/tokens/{token}/revoke");
    let at = format!("/api/v1/actors/{actor}");
    owner.send("POST", &revoke, &[], None).await.problem(409);
    owner
        .delete(&format!("/api/v1/tokens/{token}"))
        .await
        .problem(409);
    owner
        .patch(&at, "*", json!({"disabled": true}))
        .await
        .problem(409);
    owner
        .delete(&format!("{at}?cascade=true"))
        .await
        .problem(409);
    let disable = json!({"actors": [
        {"name": format!("actor {actor}"), "kind": "admin", "disabled": true}
    ]});
    owner.post("/api/v1/apply", disable).await.problem(409);

    let second = running.owner().await;
    owner.send("POST", &revoke, &[], None).await.expect(200);
    drop(second);
    owner.get("/api/v1/account").await.problem(401);
}

#[tokio::test]
async fn an_owners_token_of_a_person_counts_as_a_way_in_only_where_the_person_is_an_owner() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let owners_token = async || {
        let actor = make_actor(store, account, ActorKind::Admin).await;
        let scope = TokenScope::Api {
            actor,
            role: Role::Owner,
        };
        let (token, secret) = make_token(store, account, scope).await;
        (actor, token, running.client().await.with(&secret))
    };
    let (_, token, mut owner) = owners_token().await;
    let revoke = format!("/api/v1/tokens/{token}/revoke");
    for (role, status) in [("admin", 409), ("owner", 200)] {
        let (person, _, _) = owners_token().await;
        let at = format!("/api/v1/actors/{person}/sign-in");
        owner.post(&at, json!({ "role": role })).await.expect(200);
        let revoked = owner.send("POST", &revoke, &[], None).await;
        revoked.expect(status);
    }
}

#[tokio::test]
async fn every_change_of_what_has_a_version_names_it() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let before = seq(&running).await;
    let stale = [("if-match", "\"999\"")];
    for route in routes(&mut owner).await {
        let path = route.path(&things);
        // A membership is there or not; it has no version.
        let has_version = !route.template.contains("/members");
        match route.method.as_str() {
            "PATCH" => {
                let body = route.body(&things).unwrap();
                let blind = owner.json("PATCH", &path, &[], body.clone()).await;
                blind.problem(428);
                let late = owner.json("PATCH", &path, &stale, body).await;
                late.problem(412);
                let shown = owner.get(&path).await.expect(200);
                let version = shown.json()["version"].to_string();
                assert_eq!(shown.header("etag"), format!("\"{version}\""), "{route:?}");
            }
            "DELETE" if has_version => {
                let late = owner.send("DELETE", &path, &stale, None).await;
                late.problem(412);
            }
            "POST" if route.template.contains("/{id}/") && has_version => {
                let late = match route.body(&things) {
                    Some(body) => owner.json("POST", &path, &stale, body).await,
                    None => owner.send("POST", &path, &stale, None).await,
                };
                late.problem(412);
            }
            _ => {}
        }
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn every_list_comes_in_pages() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let mut lists = 0;
    for route in routes(&mut owner).await {
        let path = route.path(&things);
        // There are few sinks, exports have all, and a device has 8 gateways at most.
        let is_single = [
            "account",
            "status",
            "portals",
            "explain",
            "retention",
            "activity",
            "sinks",
            "sinks/{name}",
            "plain-clients/{id}/endpoints",
        ];
        let name = route.template.strip_prefix("/api/v1/").unwrap();
        if !route.reads()
            || is_single.contains(&name)
            || name.ends_with("/{id}")
            || name.contains("/export/")
        {
            continue;
        }
        let page = owner.get(&format!("{path}?limit=1")).await.expect(200);
        let items = page.json()["items"].as_array().map(Vec::len);
        assert!(matches!(items, Some(0 | 1)), "{route:?} {page:?}");
        for wrong in ["limit=0", "limit=201", "cursor=nonsense", "flower=1"] {
            let refused = owner.get(&format!("{path}?{wrong}")).await;
            assert_eq!(refused.status, 422, "{route:?} {wrong}");
        }
        lists += 1;
    }
    assert!(lists >= 12, "{lists}");
}

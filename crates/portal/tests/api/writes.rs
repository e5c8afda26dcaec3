//! A write reads the rights of its author, the row and each row that it refers to once, in its transaction. The answer
//! is what the write has left; nothing is read for it.

use crate::armed_routes::World;
use crate::support::{Client, api_token, id_of};
use crate::things::Things;
use culvert_store::Role;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time within which a thread of the database has told its last statement.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Statements that read, by the method of the store and by what they read.
type Reads = BTreeMap<String, usize>;

/// Each write finds its author in its transaction, after the place of the last change: token and actor at once.
const AUTHOR: [&str; 2] = ["write: end of account", "write: some of token"];

/// The ways by which actors are owners, to tell whether a row is an owner's or is the last way in for one.
const OWNERS: [&str; 2] = ["owners: end of account", "owners: some of actor"];

/// The ways by which owners come in, before what could end one and at the end of the write.
const STAYS: [&str; 2] = ["write: some of actor"; 2];

/// The part of a statement's meaning that its text has.
fn read(method: &str, sql: &str) -> Option<String> {
    let rest = sql.strip_prefix("SELECT ")?;
    let (columns, rest) = rest.split_once(" FROM ")?;
    let (table, condition) = rest.split_once(' ').unwrap_or((rest, ""));
    let of_id = condition == "WHERE account = ? AND id = ?";
    let what = match columns {
        "last_seq" => "end",
        "count(*) AS rows" => "number",
        "id" if of_id => "reference",
        "id" if condition.contains("name_key IN (") => "name",
        _ if of_id => "row",
        _ => "some",
    };
    // The sinks of the logs read their settings after every change.
    if (method, what, table) == ("get", "row", "account") {
        return None;
    }
    Some(format!("{method}: {what} of {table}"))
}

fn sum<'a>(reads: impl IntoIterator<Item = &'a &'a str>) -> Reads {
    let mut sum = Reads::new();
    for read in reads {
        *sum.entry((*read).to_owned()).or_default() += 1;
    }
    sum
}

/// A client whose writes are counted.
struct Writer<'a> {
    world: &'a World,
    client: Client,
    failed: Vec<String>,
}

impl<'a> Writer<'a> {
    async fn new(world: &'a World, role: Role, from: u8) -> Self {
        let running = &world.running;
        let bearer = api_token(running.store.as_ref(), running.account(), role).await;
        Self {
            world,
            client: running.client_at(from).await.with(&bearer),
            failed: Vec::new(),
        }
    }

    /// Does a request that writes. Beside what each write reads, it reads what is in `expected`.
    async fn counts(&mut self, method: &str, path: &str, body: Value, expected: &[&str]) -> Value {
        let path = format!("/api/v1{path}");
        let statements = self.world.held.statements();
        statements.take();
        let headers = [("if-match", "*")];
        let body_of = |body: &Value| match body {
            Value::Null => &[][..],
            _ => &[("content-type", "application/json")][..],
        };
        let mut all = body_of(&body).to_vec();
        if method == "PATCH" {
            all.extend(headers);
        }
        let bytes = (!body.is_null()).then(|| body.to_string().into());
        let answer = self.client.send(method, &path, &all, bytes).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");

        let expected = sum(AUTHOR.iter().chain(expected));
        let mut found = Reads::new();
        let began = std::time::Instant::now();
        loop {
            for statement in statements.take() {
                if let Some(read) = read(statement.method, &statement.sql) {
                    *found.entry(read).or_default() += 1;
                }
            }
            if found.values().sum::<usize>() >= expected.values().sum() || began.elapsed() > TIMEOUT
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if found != expected {
            let lines = |more: &Reads, less: &Reads| {
                let more = more.iter();
                let more = more.filter(|(read, times)| less.get(*read) != Some(*times));
                more.map(|(read, times)| format!("{times} {read}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            self.failed.push(format!(
                "{method} {path}: {}; expected {}",
                lines(&found, &expected),
                lines(&expected, &found)
            ));
        }
        match answer.text.is_empty() {
            true => Value::Null,
            false => answer.json(),
        }
    }

    async fn creates(&mut self, path: &str, body: Value, expected: &[&str]) -> String {
        let made = self.counts("POST", path, body, expected).await;
        // A new token is told beside its secret.
        id_of(made.get("token").unwrap_or(&made))
    }

    async fn changes(&mut self, path: &str, body: Value, expected: &[&str]) {
        self.counts("PATCH", path, body, expected).await;
    }

    async fn deletes(&mut self, path: &str, expected: &[&str]) {
        self.counts("DELETE", path, Value::Null, expected).await;
    }

    fn finish(self) {
        assert!(self.failed.is_empty(), "{:#?}", self.failed);
    }
}

async fn scene() -> (World, Things) {
    let world = World::start(None).await;
    let things = world.things().await;
    world.held.statements();
    (world, things)
}

#[tokio::test]
async fn groups_and_memberships_are_written_with_one_read_of_each_row() {
    let (world, things) = scene().await;
    let mut owner = Writer::new(&world, Role::Owner, 1).await;
    let new = ["write: name of actor_group", "write: number of actor_group"];
    let group = owner.creates("/groups", json!({"name": "one"}), &new).await;
    let at = format!("/groups/{group}");
    let reads = ["get: row of actor_group", "write: row of actor_group"];
    let renames = [&reads[..], &["write: name of actor_group"]].concat();
    owner.changes(&at, json!({"name": "two"}), &renames).await;
    // The name with other letters, and then the same one: nothing else can have it.
    owner.changes(&at, json!({"name": "TWO"}), &reads).await;
    owner.changes(&at, json!({"name": "TWO"}), &reads).await;

    let members = format!("{at}/members");
    let joins = [
        // The answer has the actor's name, and an identity may have made the membership.
        "get: row of actor",
        "list: end of account",
        "list: reference of actor",
        "list: some of identity",
        "write: reference of actor_group",
        "write: reference of actor",
        "write: some of membership",
        "write: number of membership",
    ];
    let member = json!({"actor": things.member});
    owner.counts("POST", &members, member, &joins).await;
    let leaves = [
        "list: end of account",
        "list: reference of actor_group",
        "list: reference of actor",
        "list: some of membership",
        "write: row of membership",
    ];
    let at_member = format!("{members}/{}", things.member);
    owner.deletes(&at_member, &leaves).await;
    let goes = [
        "write: row of actor_group",
        "write: some of membership",
        "write: some of policy",
    ];
    owner.deletes(&at, &goes).await;
    owner.finish();
}

#[tokio::test]
async fn sites_resources_and_policies_are_written_with_one_read_of_each_row() {
    let (world, things) = scene().await;
    let mut owner = Writer::new(&world, Role::Owner, 2).await;
    let new = ["write: name of site", "write: number of site"];
    let site = owner.creates("/sites", json!({"name": "one"}), &new).await;
    let at_site = format!("/sites/{site}");
    let renames = [
        "get: row of site",
        "write: row of site",
        "write: name of site",
    ];
    owner
        .changes(&at_site, json!({"name": "two"}), &renames)
        .await;

    let body = json!({"site": site, "name": "one", "kind": "address", "address": "10.0.0.9", "filters": [{"protocol": "any"}]});
    let new = [
        "write: reference of site",
        "write: name of resource",
        "write: number of resource",
    ];
    // The answer warns of other resources of the address in the site: one list for each of its two spellings, an
    // address and a network of one, whatever their length.
    let warns = [
        "list: end of account",
        "list: reference of site",
        "list: some of resource",
    ]
    .repeat(2);
    let new = [&new[..], &warns].concat();
    let resource = owner.creates("/resources", body, &new).await;
    let at_resource = format!("/resources/{resource}");
    let reads = ["get: row of resource", "write: row of resource"];
    let reads = [&reads[..], &warns].concat();
    let moves = [&reads[..], &["write: reference of site"]].concat();
    let other = json!({"site": things.site});
    owner.changes(&at_resource, other.clone(), &moves).await;
    owner.changes(&at_resource, other, &reads).await;
    let address = json!({"address": "10.0.0.10"});
    owner.changes(&at_resource, address, &reads).await;

    let body = json!({"name": "one", "group": things.group, "resource": resource});
    let new = [
        "write: reference of actor_group",
        "write: reference of resource",
        "write: name of policy",
        "write: number of policy",
    ];
    let policy = owner.creates("/policies", body, &new).await;
    let at_policy = format!("/policies/{policy}");
    let reads = ["get: row of policy", "write: row of policy"];
    let disabled = json!({"disabled": true});
    owner.changes(&at_policy, disabled.clone(), &reads).await;
    owner.changes(&at_policy, disabled, &reads).await;
    let moves = [&reads[..], &["write: reference of resource"]].concat();
    let other = json!({"resource": things.resource, "group": things.group});
    owner.changes(&at_policy, other, &moves).await;
    owner.deletes(&at_policy, &["write: row of policy"]).await;
    let goes = ["write: row of resource", "write: some of policy"];
    owner.deletes(&at_resource, &goes).await;
    let goes = [
        "write: row of site",
        "write: some of resource",
        "write: some of gateway",
        "write: some of token",
    ];
    owner.deletes(&at_site, &goes).await;
    owner.finish();
}

#[tokio::test]
async fn actors_and_tokens_are_written_with_one_read_of_each_row() {
    let (world, things) = scene().await;
    let mut owner = Writer::new(&world, Role::Owner, 3).await;
    let new = ["write: name of actor", "write: number of actor"];
    let body = json!({"kind": "service_account", "name": "one"});
    let actor = owner.creates("/actors", body, &new).await;
    let at_actor = format!("/actors/{actor}");
    let reads = ["get: row of actor", "write: row of actor"];
    let renames = [&reads[..], &["write: name of actor"]].concat();
    owner
        .changes(&at_actor, json!({"name": "two"}), &renames)
        .await;
    let shuts_out = [&reads[..], &OWNERS[..], &STAYS[..]].concat();
    let disabled = json!({"disabled": true});
    owner.changes(&at_actor, disabled, &shuts_out).await;

    let names = ["write: name of token", "write: number of token"];
    let of_site = [&names[..], &["write: reference of site"]].concat();
    let of_actor = [&names[..], &["write: reference of actor"]].concat();
    // Users have no API tokens: the kind of the actor is read for that, and must be so in the write.
    let of_api = ["get: row of actor", "write: row of actor"];
    let of_api = [&names[..], &of_api[..]].concat();
    let body = json!({"kind": "gateway", "name": "one", "site": things.site});
    owner.creates("/tokens", body, &of_site).await;
    let body = json!({"kind": "client", "name": "two", "actor": actor});
    owner.creates("/tokens", body, &of_actor).await;
    let body = json!({"kind": "api", "name": "three", "actor": actor, "role": "admin"});
    let token = owner.creates("/tokens", body, &of_api).await;
    let at_token = format!("/tokens/{token}");
    let ends = [&OWNERS[..], &["get: row of token", "write: row of token"]].concat();
    let revoke = format!("{at_token}/revoke");
    for _ in 0..2 {
        owner.counts("POST", &revoke, Value::Null, &ends).await;
    }
    owner.deletes(&at_token, &ends).await;
    // Its other token goes along, and is read as it goes.
    let goes = [
        &OWNERS[..],
        &STAYS[..],
        &[
            "write: row of actor",
            "write: some of membership",
            "write: some of identity",
            "write: some of token",
            "write: some of client",
        ],
    ];
    owner
        .deletes(&format!("{at_actor}?cascade=true"), &goes.concat())
        .await;
    owner.finish();
}

#[tokio::test]
async fn an_admin_s_writes_ask_once_whether_a_row_is_an_owner_s() {
    let (world, things) = scene().await;
    let mut admin = Writer::new(&world, Role::Admin, 4).await;
    // The transaction asks for itself, after the portal has for its answer: the row may become an owner's in between.
    let asks = [&OWNERS[..], &["write: some of actor"]].concat();
    let new = [
        "write: name of actor",
        "write: number of actor",
        "write: some of actor",
    ];
    let body = json!({"kind": "user", "name": "one"});
    let actor = admin.creates("/actors", body, &new).await;
    let at_actor = format!("/actors/{actor}");
    let reads = [&asks[..], &["get: row of actor", "write: row of actor"]].concat();
    let renames = [&reads[..], &["write: name of actor"]].concat();
    admin
        .changes(&at_actor, json!({"name": "two"}), &renames)
        .await;
    let disabled = json!({"disabled": true});
    let shuts_out = [&reads[..], &STAYS[..]].concat();
    admin.changes(&at_actor, disabled, &shuts_out).await;
    let body = json!({"kind": "client", "name": "one", "actor": actor});
    let new = [
        &OWNERS[..],
        &[
            "write: some of actor",
            "write: reference of actor",
            "write: name of token",
            "write: number of token",
        ],
    ];
    let token = admin.creates("/tokens", body, &new.concat()).await;
    let ends = [&asks[..], &["get: row of token", "write: row of token"]].concat();
    admin.deletes(&format!("/tokens/{token}"), &ends).await;
    let goes = [
        &asks[..],
        &STAYS[..],
        &[
            "write: row of actor",
            "write: some of membership",
            "write: some of identity",
            "write: some of token",
            "write: some of client",
        ],
    ];
    admin.deletes(&at_actor, &goes.concat()).await;

    let at_client = format!("/clients/{}/verify", things.client);
    let judges = ["get: row of client", "write: row of client"];
    admin.counts("POST", &at_client, Value::Null, &judges).await;
    admin.finish();
}

#[tokio::test]
async fn providers_and_clients_are_written_with_one_read_of_each_row() {
    let (world, things) = scene().await;
    let mut owner = Writer::new(&world, Role::Owner, 5).await;
    let groups = json!([
        {"value": "a", "group": things.group},
        {"value": "b", "group": things.group},
    ]);
    // All groups of the settings are looked for at once. There are few providers, which are counted by a list.
    let of_groups = ["names: end of account", "names: some of actor_group"];
    let new = [
        &of_groups[..],
        &[
            "list: end of account",
            "list: some of provider",
            "write: name of provider",
            "write: number of provider",
        ],
    ];
    let body = json!({
        "name": "one", "issuer": "https://id.example.com", "client_id": "culvert", "groups": groups,
    });
    let provider = owner.creates("/providers", body, &new.concat()).await;
    let at = format!("/providers/{provider}");
    let reads = ["get: row of provider", "write: row of provider"];
    let body = json!({"client_id": "other"});
    owner.changes(&at, body.clone(), &reads).await;
    owner.changes(&at, body, &reads).await;
    let renames = [&reads[..], &["write: name of provider"]].concat();
    owner.changes(&at, json!({"name": "two"}), &renames).await;

    // The actor signs in from here on, and its row must be what it was when that was asked.
    let links = [
        "get: row of actor",
        "write: reference of provider",
        "write: row of actor",
        "write: some of identity",
        "write: number of identity",
    ];
    let body = json!({"provider": provider, "subject": "s", "actor": things.actor});
    // This one does not sign in yet: its row changes.
    let first = [&links[..], &STAYS[..]].concat();
    owner.creates("/identities", body, &first).await;

    let at_client = format!("/clients/{}", things.client);
    let judges = ["get: row of client", "write: row of client"];
    for action in ["verify", "verify", "unverify", "revoke"] {
        let path = format!("{at_client}/{action}");
        owner.counts("POST", &path, Value::Null, &judges).await;
    }
    owner.deletes(&at_client, &["write: row of client"]).await;
    owner.finish();
}

//! A list makes as many queries with 10,000 rows as with 10, on every page of the console and at every endpoint of
//! the API that reads. Both are taken from what the portal serves, so that a new list is counted as well.

use crate::armed_routes::World;
use crate::browser::{Browser, PASSWORD, person};
use crate::console_routes::with_ids;
use crate::held_store::{BESIDE, Calls, HeldStore};
use crate::served::served;
use crate::support::{Answer, Client, api_token, birth, make_token, now};
use crate::things::Things;
use culvert_ids::{
    ActorId, ClientId, GatewayId, GrantId, GroupId, IdentityId, MembershipId, PolicyId, ResourceId,
    SiteId, TokenId,
};
use culvert_store::{
    AccessEntry, Actor, ActorKind, Author, Decision, Enrolment, FlowBatch, FlowEntry, Gateway,
    Group, Identity, MAX_PAGE, Membership, Mutation, Policy, Resource, Role, Seen, Site, Stamp,
    StoreExt, Token as TokenRow, TokenScope, TokenUses,
};
use culvert_wire::PublicKey;
use culvert_wire::messages::FlowEnd;
use culvert_wire::model::{Applications, Filter, Target, TargetKind};
use culvert_wire::token::{Secret, Token, TokenKind};
use std::collections::BTreeMap;
use std::ops::Range;

const FEW: u32 = 10;
const MANY: u32 = 10_000;

/// Machines enrol one by one, each with a flush of the disk: more of them than a store reads at once.
const MANY_MACHINES: u32 = MAX_PAGE as u32 + 50;

/// Rows of one write.
const CHUNK: u32 = 500;

/// Other work of the portal asks the store beside a request. Of so many requests one is alone.
const TRIES: usize = 3;

/// Kinds that some lists leave out are common: five of a hundred rows are of those that they show.
const fn is_rare(number: u32) -> bool {
    number % 100 < 5
}

/// The same text in each name, so that all are found by it.
fn name(what: &str, number: u32) -> String {
    format!("{what} number {number}")
}

/// The rows of one number, each referring to those of its own number or to the one thing of its kind.
fn rows(things: &Things, number: u32) -> Vec<Mutation> {
    let (ms, random) = birth();
    let stamp = Stamp::default();
    let (actor, group) = (ActorId::new(ms, random), GroupId::new(ms, random));
    let (site, resource) = (SiteId::new(ms, random), ResourceId::new(ms, random));
    let kind = match is_rare(number) {
        true => ActorKind::ServiceAccount,
        false => ActorKind::User,
    };
    let mut rows: Vec<Mutation> = vec![
        Mutation::Create(
            Actor {
                id: actor,
                kind,
                name: name("actor", number),
                disabled: false,
                sign_in: None,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Group {
                id: group,
                name: name("group", number),
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Membership {
                id: MembershipId::new(ms, random),
                group: things.group,
                actor,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Site {
                id: site,
                name: name("site", number),
                relays: None,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Resource {
                id: resource,
                site,
                name: name("resource", number),
                target: Target {
                    kind: TargetKind::Address,
                    address: format!("10.{}.{}.1", number / 256, number % 256),
                },
                inbound: Vec::new(),
                filters: vec![Filter::Any],
                applications: Applications::Any,
                within: None,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Policy {
                id: PolicyId::new(ms, random),
                name: name("policy", number),
                group,
                resource,
                disabled: false,
                conditions: Vec::new(),
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Identity {
                id: IdentityId::new(ms, random),
                provider: things.provider,
                subject: name("subject", number),
                actor: things.member,
                memberships: Vec::new(),
                stamp,
            }
            .into(),
        ),
    ];
    let scope = match is_rare(number) {
        true => TokenScope::Client { actor },
        false => TokenScope::Session {
            actor: things.member,
        },
    };
    let token = TokenRow {
        id: TokenId::new(ms, random),
        scope,
        name: name("token", number),
        uses: TokenUses::Many,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp,
    };
    let mut secret = [9; 32];
    secret[..10].copy_from_slice(&random);
    let digest = Secret::new(secret).digest();
    rows.push(Mutation::CreateToken { token, digest });
    rows
}

/// Fills every list with rows of these numbers.
async fn fill(world: &World, things: &Things, numbers: Range<u32>) {
    let (store, account) = (&world.running.store, world.running.account());
    let mut from = numbers.start;
    while from < numbers.end {
        let chunk = from..(from + CHUNK).min(numbers.end);
        from = chunk.end;
        let rows = chunk.clone().flat_map(|number| rows(things, number));
        let write = store.write(account, Author::PORTAL, now(), rows.collect());
        write.await.unwrap();
        let entries = chunk.clone().map(access).collect();
        store.append_access_log(account, entries).await.unwrap();
        let flows = FlowBatch {
            gateway: things.gateway,
            run: 1,
            batch: u64::from(chunk.start) + 1,
            lost: 0,
            flows: chunk.map(flow).collect(),
        };
        store.append_flows(account, vec![flows]).await.unwrap();
    }
}

/// Bytes of an id that no other number has.
fn bytes(number: u32) -> [u8; 16] {
    let mut bytes = [2; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn access(number: u32) -> AccessEntry {
    AccessEntry {
        at: now(),
        client: ClientId::from_bytes(bytes(number)),
        actor: Some(ActorId::from_bytes(bytes(number))),
        resource: ResourceId::from_bytes(bytes(number)),
        gateway: Some(GatewayId::from_bytes(bytes(number))),
        policy: None,
        grant: None,
        decision: Decision::Denied,
        reason: "no policy".to_owned(),
    }
}

fn flow(number: u32) -> FlowEntry {
    FlowEntry {
        at: now(),
        started: now(),
        client: ClientId::from_bytes(bytes(number)),
        actor: Some(ActorId::from_bytes(bytes(number))),
        resource: ResourceId::from_bytes(bytes(number)),
        grant: GrantId::from_bytes(bytes(number)),
        protocol: 6,
        address: "192.0.2.1".parse().unwrap(),
        inbound: false,
        port: 443,
        application: None,
        path: None,
        relay: None,
        sent_bytes: 1_000,
        sent_packets: 2,
        received_bytes: 3_000,
        received_packets: 4,
        end: FlowEnd::Closed,
    }
}

fn machine<I: std::fmt::Display>(new_id: I, number: u32) -> Enrolment<I> {
    let mut key = [6; 32];
    key[..10].copy_from_slice(&birth().1);
    Enrolment {
        machine: format!("machine {new_id}"),
        name: name("machine", number),
        new_id,
        public_key: PublicKey::from_bytes(key),
        seen: Seen {
            at: now(),
            address: None,
            software: "0.1.0".to_owned(),
        },
    }
}

/// Clients of one actor and gateways of one site. An administrator has verified most of the gateways.
async fn enrol(world: &World, things: &Things, numbers: Range<u32>) {
    let (store, account) = (&world.running.store, world.running.account());
    let mut principals = Vec::new();
    let (actor, site) = (things.member, things.site);
    for (scope, kind) in [
        (TokenScope::Client { actor }, TokenKind::Client),
        (TokenScope::Gateway { site }, TokenKind::Gateway),
        (TokenScope::Relay, TokenKind::Relay),
    ] {
        let (_, text) = make_token(store.as_ref(), account, scope).await;
        let bearer = text.parse::<Token>().unwrap().bearer;
        let digest = bearer.secret.digest();
        let principal = store.authenticate(bearer.id, &digest, kind, now()).await;
        principals.push(principal.unwrap());
    }
    let mut verified = Vec::new();
    for number in numbers {
        let (ms, random) = birth();
        let client = machine(ClientId::new(ms, random), number);
        let enrolled = store.enrol_client(account, &principals[0], client, now());
        enrolled.await.unwrap();
        let gateway = machine(GatewayId::new(ms, random), number);
        let enrolled = store.enrol_gateway(account, &principals[1], gateway, now());
        let id = enrolled.await.unwrap().id;
        if !is_rare(number) {
            let mut row: Gateway = store.get_as(account, id).await.unwrap();
            row.verified = Some(now());
            verified.push(Mutation::Update {
                entity: row.into(),
                expected_version: None,
            });
        }
    }
    let write = store.write(account, Author::PORTAL, now(), verified);
    write.await.unwrap();
}

/// The pages and endpoints that read, with ids in their paths.
fn paths(world: &World, things: &Things) -> Vec<String> {
    // Assets and streams are no lists, and an export is as long as its log. The others are for who has not
    // signed in, and answer with another page to who has.
    const OTHERS: [&str; 16] = [
        "/assets/",
        "/favicon.ico",
        "/live",
        "/set-up",
        "/invitation",
        "/sign-in",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/openapi.json",
        "/api/v1/session/",
        "/log/access/export/",
        "/log/changes/export/",
        "/log/flows/export/",
        "/confirm",
        "/me/passkeys/",
    ];
    let mut paths = Vec::new();
    for route in served(&world.running) {
        let template = route.template.as_str();
        let of_page = template.strip_prefix("/api/v1").unwrap_or(template);
        let is_other = |other: &&str| template.starts_with(*other) || of_page.starts_with(*other);
        if route.method != "GET" || OTHERS.iter().any(is_other) {
            continue;
        }
        let path = with_ids(template, |prefix| things.id(prefix));
        let (client, resource) = (things.client, things.resource);
        paths.push(match template {
            "/api/v1/explain" => format!("{path}?client={client}&resource={resource}"),
            _ => path,
        });
    }
    assert!(paths.len() >= 60, "{}", paths.len());
    paths
}

/// Those who read.
struct Readers {
    browser: Browser,
    client: Client,
}

impl Readers {
    async fn get(&mut self, path: &str) -> Answer {
        match path.starts_with("/api/") {
            true => self.client.get(path).await,
            false => self.browser.get(path).await,
        }
    }

    /// The calls that each path makes to the store.
    async fn count(&mut self, held: &HeldStore, paths: &[String]) -> BTreeMap<String, Calls> {
        let mut counted = BTreeMap::new();
        for path in paths {
            let mut fewest: Option<Calls> = None;
            for _ in 0..TRIES {
                held.take_calls();
                self.get(path).await.expect(200);
                let mut calls = held.take_calls();
                calls.retain(|method, _| !BESIDE.contains(method));
                let sum = |calls: &Calls| calls.values().sum::<usize>();
                if fewest.as_ref().is_none_or(|known| sum(&calls) < sum(known)) {
                    fewest = Some(calls);
                }
            }
            counted.insert(path.clone(), fewest.unwrap());
        }
        counted
    }
}

#[tokio::test]
async fn a_list_of_10_000_rows_makes_as_many_queries_as_one_of_10() {
    let world = World::start(None).await;
    let things = world.things().await;
    let running = &world.running;
    let (_, name) = person(running, Role::Owner).await;
    let mut browser = Browser::open(running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let bearer = api_token(running.store.as_ref(), running.account(), Role::Owner).await;
    let client = running.client_at(250).await.with(&bearer);
    let mut readers = Readers { browser, client };
    let paths = paths(&world, &things);

    fill(&world, &things, 0..FEW).await;
    enrol(&world, &things, 0..FEW).await;
    let few = readers.count(&world.held, &paths).await;
    fill(&world, &things, FEW..MANY).await;
    enrol(&world, &things, FEW..MANY_MACHINES).await;
    // The first connections were idle for too long.
    readers.browser.move_on(running).await;
    readers.client = running.client_at(249).await.with(&bearer);
    let many = readers.count(&world.held, &paths).await;

    // The change log asks for names once, where its newest entries have ids: those of machines have none.
    let calls = |counted: &BTreeMap<String, Calls>, path: &str| {
        let mut calls = counted[path].clone();
        if path == "/log/changes" {
            assert!(calls.remove("names").unwrap_or(0) <= 1, "{path}");
        }
        calls
    };
    let longer = |path: &&String| calls(&few, path) != calls(&many, path);
    let longer: Vec<_> = paths
        .iter()
        .filter(longer)
        .map(|path| format!("{path}: {:?}, then {:?}", few[path], many[path]))
        .collect();
    assert!(longer.is_empty(), "{longer:#?}");
}

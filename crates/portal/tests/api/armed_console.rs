//! Every form of the console, sent by someone who is shut out once the portal has let them in.

use crate::armed_routes::{Caller, ShutOut, World};
use crate::authenticator::Authenticator;
use crate::browser::{Browser, PASSWORD};
use crate::console_routes::{is_before_signing_in, with_ids};
use crate::factors::{self, secret_of};
use crate::passkeys::{self, HOST, ORIGIN};
use crate::served::served;
use crate::support::{birth, fresh_key, make_token, now};
use crate::things::Things;
use culvert_ids::IdentityId;
use culvert_store::{
    Account, Actor, Author, Entity, EntityId, Identity, ListFilter, Mutation, PageLimit, Role,
    SecondFactorRule, Stamp, StoreExt, Token, TokenScope,
};
use serde_json::json;
use std::borrow::Cow;

const NEW_PASSWORD: &str = "another horse battery";

const WAYS: [ShutOut; 6] = [
    ShutOut::EndSessions,
    ShutOut::Disable,
    ShutOut::Delete,
    ShutOut::Demote,
    ShutOut::EndSignIn,
    ShutOut::SetPassword,
];

/// The log of changes does not show their effect. Examples are a fresh proof, a question to an authenticator or a
/// provider, and a decision about a waiting machine. Others are a line for a sink, the name of a passkey, and recovery
/// codes. Their answer says whether it was done.
const UNLOGGED: [&str; 12] = [
    "/confirm/passkey",
    "/confirm/password",
    "/confirm/provider",
    "/device/approve",
    "/device/deny",
    "/me/link",
    "/me/passkeys",
    "/me/passkeys/{handle}/name",
    "/me/recovery-codes",
    "/me/second-factor",
    "/settings/sinks/{name}/test",
    "/theme",
];

/// Something that no other has in its name.
fn fresh(what: &str) -> String {
    let (_, random) = birth();
    let number = u64::from_be_bytes(random[..8].try_into().unwrap());
    format!("{what}-{number}")
}

/// A form that is about to be sent.
struct Filled {
    path: String,
    fields: Vec<(Cow<'static, str>, String)>,
}

/// Things that belong to the caller alone.
#[derive(Default)]
struct Own {
    /// The thing that the path names.
    id: Option<String>,
    fields: Vec<(&'static str, String)>,
}

async fn browser_of(world: &mut World, caller: &Caller) -> Browser {
    let mut browser = Browser::open(&world.running).await;
    browser.client = world.client().await;
    HOST.clone_into(&mut browser.client.host);
    browser.cookie = Some(format!("__Host-culvert={}", caller.bearer));
    browser
}

/// Someone who has signed in; for their password, with one.
async fn caller(world: &mut World, template: &str) -> Caller {
    let mut caller = world.caller(|actor| TokenScope::Session { actor }).await;
    if ["/me/password", "/confirm/password"].contains(&template) {
        let path = format!("/api/v1/actors/{}/sign-in", caller.actor);
        let body = json!({"role": "owner", "password": PASSWORD});
        world.owner().await.post(&path, body).await.expect(200);
        let (store, account) = (world.running.store.as_ref(), world.running.account());
        let actor = caller.actor;
        (caller.token, caller.bearer) =
            make_token(store, account, TokenScope::Session { actor }).await;
    }
    caller
}

async fn own(
    world: &mut World,
    template: &str,
    things: &Things,
    caller: &Caller,
    browser: &mut Browser,
) -> Own {
    let actor = caller.actor;
    let of = |id: Option<String>| Own {
        id,
        ..Own::default()
    };
    let with = |fields| Own { id: None, fields };
    match template {
        "/me/password" => with(vec![
            ("current", PASSWORD.to_owned()),
            ("password", NEW_PASSWORD.to_owned()),
            ("again", NEW_PASSWORD.to_owned()),
        ]),
        "/confirm/password" => with(vec![("current", PASSWORD.to_owned())]),
        "/confirm/passkey" => {
            let phone = Authenticator::new(fresh("phone").as_bytes(), ORIGIN);
            passkeys::add(browser, &phone, |_| {}).await.expect(200);
            let page = browser.get("/confirm").await.expect(200);
            let question = passkeys::question(&page, "get");
            let credential = phone.sign(passkeys::challenge(&question), |_| {});
            with(vec![("credential", credential)])
        }
        "/confirm/provider" => {
            identity_of(world, things, caller).await;
            Own::default()
        }
        "/me/sessions/{id}/end" | "/me/sessions/end-others" => {
            let (store, account) = (world.running.store.as_ref(), world.running.account());
            let (other, _) = make_token(store, account, TokenScope::Session { actor }).await;
            of(Some(other.to_string()))
        }
        "/me/unlink/{id}" => of(Some(identity_of(world, things, caller).await.to_string())),
        "/me/second-factor/confirm" => {
            let page = browser.submit("/me/second-factor", &[]).await.expect(200);
            with(vec![("code", secret_of(&page).code())])
        }
        "/me/second-factor/remove" | "/me/recovery-codes" => {
            factors::enrol(browser).await;
            Own::default()
        }
        "/me/passkeys/confirm" => {
            let page = browser.submit("/me/passkeys", &[("name", "Phone")]).await;
            let question = passkeys::question(&page.expect(200), "create");
            let phone = Authenticator::new(fresh("phone").as_bytes(), ORIGIN);
            let credential = phone.register(passkeys::challenge(&question), |_| {});
            with(vec![("credential", credential)])
        }
        "/me/passkeys/{handle}/name" | "/me/passkeys/{handle}/remove" => {
            let phone = Authenticator::new(fresh("phone").as_bytes(), ORIGIN);
            passkeys::add(browser, &phone, |_| {}).await.expect(200);
            let path = passkeys::path_of_passkey(browser).await;
            of(path.rsplit('/').next().map(str::to_owned))
        }
        "/device/approve" | "/device/deny" => {
            let body = json!({"machine": "laptop"});
            let mut machine = world.client().await;
            let begun = machine.post("/api/v1/device-sign-ins", body).await;
            let begun = begun.expect(201).json();
            with(vec![(
                "code",
                begun["user_code"].as_str().unwrap().to_owned(),
            )])
        }
        _ => Own::default(),
    }
}

/// An identity of the caller at the provider.
async fn identity_of(world: &World, things: &Things, caller: &Caller) -> IdentityId {
    let (born, random) = birth();
    let identity = Identity {
        id: IdentityId::new(born, random),
        provider: things.provider,
        subject: fresh("subject"),
        actor: caller.actor,
        memberships: Vec::new(),
        stamp: Stamp::default(),
    };
    let id = identity.id;
    let create = vec![Mutation::Create(identity.into())];
    let (store, account) = (&world.running.store, world.running.account());
    let made = store.write(account, Author::PORTAL, now(), create).await;
    made.unwrap();
    id
}

/// The version of what the form changes, and its id.
async fn version(world: &World, template: &str, things: &Things) -> (u64, EntityId) {
    let account = world.running.account();
    let id: EntityId = match template.split('/').nth(1).unwrap() {
        "people" if template != "/people" && !template.ends_with("second-factor") => {
            things.member.into()
        }
        "clients" => things.client.into(),
        "wireguard" if template != "/wireguard/new" => things.plain.into(),
        "gateways" => things.gateway.into(),
        "relays" => things.relay.into(),
        "groups" => things.group.into(),
        "policies" => things.policy.into(),
        "resources" => things.resource.into(),
        "sites" => things.site.into(),
        "tokens" => things.token.into(),
        "settings" if template == "/settings/tokens/selected" => things.token.into(),
        "settings" if template.starts_with("/settings/providers/{id}") => things.provider.into(),
        _ => account.into(),
    };
    let row: Entity = world.running.store.get(account, id).await.unwrap();
    (row.stamp().version, id)
}

/// The form, filled in right.
async fn fill(
    world: &mut World,
    template: &str,
    things: &Things,
    caller: &Caller,
    browser: &mut Browser,
) -> Filled {
    let own = own(world, template, things, caller, browser).await;
    let named = |kind: &str, prefix: &str| format!("{kind} {}", things.id(prefix));
    let kind = match template {
        "/settings/tokens" => "client",
        "/settings/sinks" => "file",
        _ => "user",
    };
    let site = match template {
        "/first-steps" => fresh("site"),
        // A token of a client is of no site.
        "/settings/tokens" => String::new(),
        _ => named("site", "site"),
    };
    let fixed = [
        ("kind", kind),
        ("role", "user"),
        ("uses", "many"),
        ("filters", "tcp:80"),
        ("address", "10.0.0.2"),
        ("issuer", "https://id.example"),
        ("client_id", "culvert"),
        ("second_factor", "administrators"),
        ("require_verified_gateways", "yes"),
        ("cut", "yes"),
        ("unknown_people", "refuse"),
        ("grant_lifetime_s", "600"),
        ("paths", "direct"),
        ("ended_access", "release"),
        ("own_devices", "yes"),
        ("use", "chosen"),
        ("step", "site"),
        ("flow_log", "yes"),
        ("access_days", "30"),
        ("access_entries", "5000"),
        ("flows_days", "30"),
        ("flows_entries", "5000"),
        ("logs", "access"),
        ("max_mib", "1"),
        ("keep", "1"),
        ("search", "corp.example"),
        ("cascade", "yes"),
        ("sure", "yes"),
        ("theme", "dark"),
    ];
    let (version, thing) = version(world, template, things).await;
    let mut fields = own.fields;
    let more = fixed.map(|(name, value)| (name, value.to_owned()));
    let more = more.into_iter().chain([
        ("version", version.to_string()),
        ("name", fresh("new")),
        ("file", fresh("file")),
        ("subject", fresh("subject")),
        ("site", site),
        ("group", named("group", "grp")),
        ("resource", named("resource", "res")),
        ("actor", format!("actor {}", things.actor)),
        ("provider", things.id("idp")),
        ("public_key", fresh_key().to_string()),
    ]);
    fields.extend(more);
    let mut fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| (Cow::from(name), value))
        .collect();
    if let Some(list) = template.strip_suffix("/selected") {
        let action = match list {
            "/people" | "/policies" => "disable",
            "/groups" | "/resources" => "delete",
            "/gateways" | "/relays" => "drain",
            _ => "revoke",
        };
        fields.push((thing.to_string().into(), version.to_string()));
        fields.push(("action".into(), action.to_owned()));
    }
    if template.starts_with("/wireguard/") {
        // A form with many gateways takes their names and ids.
        let gateway = things.gateway.to_string();
        fields.push((format!("gateways.{gateway}").into(), "yes".to_owned()));
        fields.push(("gateways".into(), gateway));
    }
    let id_of = |prefix: &str| own.id.clone().unwrap_or_else(|| things.id(prefix));
    let path = with_ids(template, id_of);
    Filled { path, fields }
}

/// Has the thing be such that the form changes something.
async fn prepare(world: &mut World, template: &str, things: &Things) {
    let mut owner = world.owner().await;
    if template == "/people/{id}/withdraw" {
        let at = with_ids(template, |prefix| things.id(prefix)).replace("/withdraw", "");
        let at = at.replace("/people/", "/api/v1/actors/");
        let invite = owner.post(&format!("{at}/invitation"), json!({})).await;
        invite.expect(201);
        return;
    }
    let (path, patch) = match template {
        "/people/{id}/enable" => (
            format!("actors/{}", things.member),
            json!({"disabled": true}),
        ),
        "/policies/{id}/enable" => (
            format!("policies/{}", things.policy),
            json!({"disabled": true}),
        ),
        "/settings/sinks/{name}/pause" => {
            (format!("sinks/{}", things.sink), json!({"paused": false}))
        }
        "/people/{id}/groups" => {
            let (group, member) = (things.group, things.member);
            let path = format!("/api/v1/groups/{group}/members/{member}");
            owner.delete(&path).await.expect(204);
            return;
        }
        "/clients/{id}/unverify"
        | "/gateways/{id}/unverify"
        | "/gateways/{id}/undrain"
        | "/relays/{id}/undrain" => {
            let path = match template {
                "/relays/{id}/undrain" => format!("relays/{}/drain", things.relay),
                "/clients/{id}/unverify" => format!("clients/{}/verify", things.client),
                "/gateways/{id}/unverify" => format!("gateways/{}/verify", things.gateway),
                _ => format!("gateways/{}/drain", things.gateway),
            };
            let path = format!("/api/v1/{path}");
            owner.send("POST", &path, &[], None).await.expect(200);
            return;
        }
        _ => return,
    };
    let path = format!("/api/v1/{path}");
    owner.patch(&path, "*", patch).await.expect(200);
}

/// Asks nobody for a second factor, whatever a form has set.
async fn require_no_factor(world: &World) {
    let (store, account) = (&world.running.store, world.running.account());
    let mut row: Account = store.get_as(account, account).await.unwrap();
    row.settings.second_factor = SecondFactorRule::Off;
    let update = vec![Mutation::Update {
        entity: row.into(),
        expected_version: None,
    }];
    let updated = store.write(account, Author::PORTAL, now(), update).await;
    updated.unwrap();
}

#[tokio::test]
async fn no_form_of_the_console_does_anything_for_whom_was_shut_out_while_it_was_on_its_way() {
    let mut world = World::start(Some(ORIGIN)).await;
    let served = served(&world.running).into_iter();
    let forms = served.filter(|route| !route.is_of_api() && route.is_mutating());
    // Nobody has signed in yet who sends those: `setup.rs`, `invitations.rs`, `console.rs`, `factors.rs`, `passkeys.rs`.
    let (before, forms): (Vec<_>, Vec<_>) =
        forms.partition(|route| is_before_signing_in(&route.template));
    assert_eq!(before.len(), 6, "{before:?}");
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for form in &forms {
        assert_eq!(form.method, "POST", "{form:?}");
        let template = &*form.template;
        let things = world.things().await;
        prepare(&mut world, template, &things).await;
        for how in WAYS.map(Some).into_iter().chain([None]) {
            let caller = caller(&mut world, template).await;
            let mut browser = browser_of(&mut world, &caller).await;
            let filled = fill(&mut world, template, &things, &caller, &mut browser).await;
            let fields: Vec<(&str, &str)> = filled
                .fields
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect();
            let token = browser.form_token().await;
            let request = browser.submit_with(&filled.path, &token, &fields);
            let (answer, changes) = world.attempt(&caller, how, request).await;
            let status = answer.status.as_u16();
            let is_sent_away = status == 303 && answer.header("location") == "/sign-in";
            let is_right = match how {
                // The choice of colours is the browser's, and changes nothing here.
                Some(_) if template == "/theme" => changes.is_empty(),
                Some(_) => (is_sent_away || status >= 400) && changes.is_empty(),
                // The provider is not there, and the portal has asked it.
                None if ["/me/link", "/confirm/provider"].contains(&template) => {
                    status == 502 || status == 503
                }
                None => {
                    let is_done = matches!(status, 200 | 303);
                    let signs_out = template.contains("sign-out");
                    let is_logged = !UNLOGGED.contains(&template);
                    is_done && is_sent_away == signs_out && changes.is_empty() != is_logged
                }
            };
            if !is_right {
                let location = answer.header("location").to_owned();
                let text = answer.text.chars().take(3_000).collect::<String>();
                wrong.push(format!(
                    "{template} {how:?}: {status} {location} {changes:?} {text}"
                ));
            }
        }
        require_no_factor(&world).await;
        tried += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!(
        "{tried} forms of the console were tried in {} ways",
        WAYS.len()
    );
    assert_eq!(tried, forms.len());
    assert!(tried >= 70, "{tried}");
}

async fn sessions_of(world: &World, actor: culvert_ids::ActorId) -> usize {
    let filter = ListFilter {
        refers_to: vec![actor.into()],
        ..ListFilter::default()
    };
    let (store, account) = (&world.running.store, world.running.account());
    let all = store.list_as::<Token>(account, &filter, None, PageLimit::MAX);
    let all = all.await.unwrap().items.into_iter();
    all.filter(|row| matches!(row.scope, TokenScope::Session { .. }))
        .count()
}

#[tokio::test]
async fn a_password_that_was_on_its_way_gives_nobody_back_the_role_or_the_sign_in() {
    let mut world = World::start(Some(ORIGIN)).await;
    let things = world.things().await;
    let template = "/me/password";
    for how in [ShutOut::Demote, ShutOut::EndSignIn] {
        let bob = caller(&mut world, template).await;
        let mut browser = browser_of(&mut world, &bob).await;
        let filled = fill(&mut world, template, &things, &bob, &mut browser).await;
        let fields = filled.fields.iter();
        let fields: Vec<_> = fields.map(|(name, value)| (&**name, &**value)).collect();
        let token = browser.form_token().await;
        let request = browser.submit_with(template, &token, &fields);
        let (answer, changes) = world.attempt(&bob, Some(how), request).await;
        assert_ne!(answer.status, 200, "{how:?}");
        assert!(changes.is_empty(), "{how:?}: {changes:?}");
        let account = world.running.account();
        let row: Actor = world
            .running
            .store
            .get_as(account, bob.actor)
            .await
            .unwrap();
        let role = row.sign_in.map(|sign_in| sign_in.role);
        let expected = (how == ShutOut::Demote).then_some(Role::Auditor);
        assert_eq!(role, expected, "{how:?}");
        assert_eq!(sessions_of(&world, bob.actor).await, 0, "{how:?}");
    }
}

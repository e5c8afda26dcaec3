//! Every route of the console with every role, and with ids of things that are there: of this account, and
//! of another one in the same database.

use crate::browser::{Browser, signed_in};
use crate::console_routes::{Route, is_before_signing_in, routes_with};
use crate::support::{Running, other_account};
use crate::things::{Things, make_things};
use culvert_store::{Role, Seq};

/// Valid fields of a form, so that nothing but the role can be the reason for a refusal.
fn fields(things: &Things, path: &str) -> Vec<(&'static str, String)> {
    let of = |kind: &str, prefix: &str| format!("{kind} {}", things.id(prefix));
    // Tokens and people have kinds of their own.
    let kind = if path == "/settings/tokens" {
        "client"
    } else {
        "user"
    };
    let fields = [
        ("name", "x"),
        ("version", "1"),
        ("role", "user"),
        ("kind", kind),
        ("password", "correct horse battery"),
        ("uses", "many"),
        ("filters", "tcp:80"),
        ("address", "10.0.0.1"),
        ("issuer", "https://id.example"),
        ("client_id", "culvert"),
        ("subject", "2"),
        ("second_factor", "off"),
        ("require_verified_gateways", "no"),
        ("unknown_people", "refuse"),
        ("grant_lifetime_s", "600"),
        ("paths", "any"),
        ("step", "site"),
    ];
    let fields = fields.map(|(name, value)| (name, value.to_owned()));
    let named = [
        ("site", of("site", "site")),
        ("group", of("group", "grp")),
        ("resource", of("resource", "res")),
        ("actor", of("actor", "act")),
        ("provider", things.id("idp")),
    ];
    fields.into_iter().chain(named).collect()
}

/// Passkeys are found by a handle that only their own person is shown, and formats of a file are no things.
fn id_in(things: &Things, prefix: &str) -> String {
    match prefix {
        "key" => "key_00000000000000000000000000".to_owned(),
        "csv" => "csv".to_owned(),
        prefix => things.id(prefix),
    }
}

/// Of who signs in, and of their own sign-in.
fn is_own(path: &str) -> bool {
    path.starts_with("/me")
        || path.starts_with("/confirm")
        || path.starts_with("/device")
        || path == "/sign-out"
}

/// True if the path needs no sign-in.
fn is_open(path: &str) -> bool {
    is_before_signing_in(path)
        || path.starts_with("/assets/")
        || matches!(path, "/live" | "/favicon.ico")
}

async fn seq(running: &Running) -> Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

/// Opens it and sends it a form, whichever it has: the methods, and the statuses of the answers.
async fn outcomes(
    browser: &mut Browser,
    form_token: &str,
    things: &Things,
    route: &Route,
) -> Vec<(&'static str, u16)> {
    let mut outcomes = Vec::new();
    if route.is_page {
        let page = browser.get(&route.path).await;
        outcomes.push(("GET", page.status.as_u16()));
    }
    if route.is_form {
        let fields = fields(things, &route.path);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let answer = browser.submit_with(&route.path, form_token, &fields).await;
        outcomes.push(("POST", answer.status.as_u16()));
    }
    outcomes
}

#[tokio::test]
async fn every_route_of_the_console_with_every_role_and_ids_of_this_and_another_account() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let other = other_account(store).await;
    let others = make_things(store, other).await;
    let mut wrong = Vec::new();
    for role in [Role::Auditor, Role::User, Role::Admin, Role::Owner] {
        let mut browser = signed_in(&running, role).await;
        let token = browser.form_token().await;
        let before = seq(&running).await;
        let may_change = matches!(role, Role::Admin | Role::Owner);
        let mut check = |route: &Route, method: &str, status: u16, allowed: &[u16]| {
            if !allowed.contains(&status) {
                let path = &route.path;
                wrong.push(format!(
                    "{role:?} {method} {path}: {status}, not {allowed:?}"
                ));
            }
        };
        let own = routes_with(|prefix| id_in(&things, prefix));
        for route in own.iter().filter(|route| !is_open(&route.path)) {
            // The tests of each page cover the actions of administrators.
            if is_own(&route.path) || may_change {
                continue;
            }
            for (method, status) in outcomes(&mut browser, &token, &things, route).await {
                let allowed: &[u16] = match (role, method, &*route.path) {
                    (_, "POST", "/theme") => &[303, 422],
                    (Role::Auditor, "POST", _) => &[403],
                    (_, "GET", path) if path.ends_with("/new") => &[403],
                    (Role::Auditor, _, _) => &[200],
                    (_, "GET", "/") => &[303],
                    // The list of the own ones.
                    (_, "GET", "/clients") => &[200],
                    _ => &[403, 404],
                };
                check(route, method, status, allowed);
            }
        }
        let foreign = routes_with(|prefix| id_in(&others, prefix));
        let foreign = foreign.iter().filter(|route| {
            let path = &route.path;
            !route.is_single && !is_open(path) && !path.contains("/export/")
        });
        for route in foreign {
            for (method, status) in outcomes(&mut browser, &token, &things, route).await {
                let allowed: &[u16] = match (role, method) {
                    _ if is_own(&route.path) => &[404],
                    (Role::Owner | Role::Admin, _) | (Role::Auditor, "GET") => &[404],
                    // A role without the right gets a refusal, or the answer that there is no such
                    // thing.
                    _ => &[403, 404],
                };
                check(route, method, status, allowed);
            }
        }
        assert_eq!(seq(&running).await, before, "{role:?} changed something");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

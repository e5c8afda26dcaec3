//! Every route that is served, with nobody and with tokens that are for other places.

use crate::behind_a_proxy::UPGRADE;
use crate::console_routes::with_ids;
use crate::roles::Route;
use crate::served::{Served, served};
use crate::support::{Client, Running};
use crate::things::{Things, make_things};
use culvert_store::{Role, Seq};

async fn seq(running: &Running) -> Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

/// Routes that ask nobody who they are.
const OPEN: [&str; 18] = [
    "/api/v1/device-sign-ins",
    "/api/v1/device-sign-ins/ask",
    "/api/v1/openapi.json",
    "/assets/console.js",
    "/assets/forms.js",
    "/assets/inter-latin-ext.woff2",
    "/assets/inter-latin.woff2",
    "/assets/logo.svg",
    "/assets/passkey.js",
    "/assets/style.css",
    "/assets/wireguard.js",
    "/favicon.ico",
    "/healthz",
    "/invitation",
    "/invitation/{link}",
    "/readyz",
    "/set-up",
    "/sign-in",
];

/// Routes of the console before anybody has signed in.
fn is_open(template: &str) -> bool {
    OPEN.contains(&template) || template.starts_with("/sign-in/")
}

/// Under the prefix of the API, or read by programs with a token as it is.
fn is_of_api(route: &Route) -> bool {
    route.template.starts_with("/api/") || route.template == "/metrics"
}

/// The side of a session, `client`, `gateway` or `relay`: a token of the other side is not valid there.
fn side(template: &str) -> Option<&str> {
    template.strip_prefix("/api/v1/session/")
}

/// CVE-2026-29771: a route that everybody forgot to guard.
#[tokio::test]
async fn cve_2026_29771_no_route_answers_a_stranger_or_a_machine() {
    let running = Running::start().await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let setup = running.setup_token();
    let api = running.with_role(Role::Owner).await.token().unwrap();
    let before = seq(&running).await;
    let served = served(&running);
    let (open, guarded): (Vec<_>, Vec<_>) = served
        .into_iter()
        .partition(|route| is_open(&route.template));
    for template in OPEN {
        assert!(
            open.iter().any(|route| route.template == template),
            "{template}"
        );
    }
    assert!(guarded.len() >= 170, "{}", guarded.len());
    for (at, Served { method, template }) in guarded.into_iter().enumerate() {
        let from = u8::try_from(at % 250).unwrap() + 1;
        let route = Route { method, template };
        let tokens = [
            None,
            Some(things.client_secret.as_str()).filter(|_| side(&route.template) != Some("client")),
            Some(things.gateway_secret.as_str())
                .filter(|_| side(&route.template) != Some("gateway")),
            Some(things.relay_secret.as_str()).filter(|_| side(&route.template) != Some("relay")),
            Some(setup.as_str()).filter(|_| !route.is_setup()),
            Some(&*api).filter(|_| side(&route.template).is_some() || !is_of_api(&route)),
            Some("cv_api_00000000000000000000000000.AAAA"),
            Some("nonsense"),
        ];
        for token in tokens {
            let mut client = running.client_at(from).await;
            match is_of_api(&route) {
                true => {
                    client.set_token(token);
                    let path = &*route.template;
                    let answer = match side(path) {
                        Some(_) => client.send("GET", path, &UPGRADE, None).await,
                        None if path == "/metrics" => client.get(path).await,
                        None => route.send(&mut client, &things).await,
                    };
                    assert_eq!(answer.status, 401, "{route:?} {answer:?}");
                    assert!(answer.header("www-authenticate").starts_with("Bearer"));
                    answer.problem(401);
                }
                false => assert_sent_away(&mut client, &route, &things, token).await,
            }
        }
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

/// A page or a form leads whoever has not signed in to where they do.
async fn assert_sent_away(
    client: &mut Client,
    route: &Route,
    things: &Things,
    token: Option<&str>,
) {
    let cookie = token.map(|token| format!("__Host-culvert={token}"));
    let mut headers = vec![
        ("origin", "https://localhost"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    headers.extend(cookie.as_deref().map(|cookie| ("cookie", cookie)));
    let body = (route.method != "GET").then(|| b"name=x".to_vec());
    let path = with_ids(&route.template, |prefix: &str| match prefix {
        "key" | "csv" => prefix.to_owned(),
        prefix => things.id(prefix),
    });
    let answer = client.send(&route.method, &path, &headers, body).await;
    let to = answer.header("location");
    let is_sent_away = answer.status == 303 && to.starts_with("/sign-in");
    assert!(is_sent_away, "{route:?} {answer:?}");
}

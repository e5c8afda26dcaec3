//! People who sign in by an identity provider: a real one, which scripts/peers.sh fetches.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::fresh_proof::{send_waiting, waiting};
use crate::openid_provider::{CLIENT_SECRET, Kind, OpenIdProvider, at_own_name, own_name, path_of};
use crate::support::{Answer, Client, Running, id_of};
use culvert_store::{Role, StoreExt};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A portal, a provider that it knows, and an owner.
struct Scene {
    running: Running,
    openid: OpenIdProvider,
    owner: Client,
    /// The provider at the portal.
    id: String,
}

impl Scene {
    async fn new(kind: &Kind, settings: Value) -> Self {
        let running = Running::start().await;
        let openid = OpenIdProvider::start(&running, kind);
        let mut owner = running.owner().await;
        let described = openid.described(&settings);
        let made = owner.post("/api/v1/providers", described).await.expect(201);
        let id = id_of(&made.json());
        Self {
            running,
            openid,
            owner,
            id,
        }
    }

    /// The way to the provider, as the page for signing in has it.
    async fn begin(&self, browser: &mut Browser, next: &str) -> String {
        let page = browser.get("/sign-in").await.expect(200);
        let way = format!("/sign-in/with/{}", self.id);
        assert!(page.text.contains(&way), "the page has the way");
        let answer = browser.get(&format!("{way}?next={next}")).await.expect(303);
        answer.header("location").to_owned()
    }

    /// Goes to the provider and comes back.
    async fn arrive(&self, browser: &mut Browser, subject: &str) -> Answer {
        let url = self.begin(browser, "/").await;
        let back = self.openid.sign_in(&url, subject).await;
        browser.get(path_of(&self.running, &back)).await
    }

    async fn change(&mut self, patch: Value) {
        let at = format!("/api/v1/providers/{}", self.id);
        self.owner.patch(&at, "*", patch).await.expect(200);
    }

    async fn actor_named(&mut self, name: &str) -> Value {
        let at = format!("/api/v1/actors?name={}", name.replace(' ', "+"));
        self.owner.get(&at).await.expect(200).json()["items"][0].clone()
    }

    async fn group(&mut self, name: &str) -> String {
        let made = self
            .owner
            .post("/api/v1/groups", json!({"name": name}))
            .await;
        id_of(&made.expect(201).json())
    }

    async fn members(&mut self, group: &str) -> Vec<String> {
        let at = format!("/api/v1/groups/{group}/members");
        let page = self.owner.get(&at).await.expect(200).json();
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|member| member["actor_name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn link(&mut self, actor: &str, subject: &str) -> Answer {
        let body = json!({"provider": self.id, "subject": subject, "actor": actor});
        self.owner.post("/api/v1/identities", body).await
    }
}

#[tokio::test]
async fn somebody_new_becomes_a_user_with_the_groups_of_the_claim_and_these_follow() {
    let kind = Kind::default();
    let mut scene = Scene::new(&kind, json!({"unknown_people": "make"})).await;
    let (staff, hand) = (scene.group("Staff").await, scene.group("Hand").await);
    let both = scene.group("Both").await;
    scene
        .change(json!({"groups_claim": "groups", "groups": [
            {"value": "cn=staff", "group": staff}, {"value": "both", "group": both},
        ]}))
        .await;
    let person = |groups: &[&str]| json!({"s-1": {"preferred_username": "ada", "groups": groups}});
    scene.openid.knows(&person(&["cn=staff", "unmapped"]));
    let mut browser = at_own_name(&scene.running).await;
    let arrived = scene.arrive(&mut browser, "s-1").await.expect(303);
    assert_eq!(arrived.header("location"), "/");
    browser.get("/clients").await.expect(200);
    let ada = scene.actor_named("ada").await;
    assert_eq!(ada["kind"], "user");
    let sign_in = json!({"role": "user", "recovery_codes": 0, "passkeys": 0});
    assert_eq!(ada["sign_in"], sign_in, "and no password");
    assert_eq!(scene.members(&staff).await, ["ada"]);
    assert!(scene.members(&both).await.is_empty());

    // What people make stays, and what the provider says follows with every sign-in.
    for group in [&hand, &both] {
        let at = format!("/api/v1/groups/{group}/members");
        let member = json!({"actor": ada["id"]});
        scene.owner.post(&at, member).await.expect(201);
    }
    scene.openid.knows(&person(&["both"]));
    scene.arrive(&mut browser, "s-1").await.expect(303);
    assert!(scene.members(&staff).await.is_empty());
    assert_eq!(scene.members(&both).await, ["ada"]);
    scene.openid.knows(&person(&["cn=staff"]));
    scene.arrive(&mut browser, "s-1").await.expect(303);
    assert_eq!(scene.members(&staff).await, ["ada"]);
    assert_eq!(
        scene.members(&both).await,
        ["ada"],
        "somebody made it by hand"
    );
    assert_eq!(scene.members(&hand).await, ["ada"]);

    // With the provider go its identities, what it brought, and the sessions.
    let at = format!("/api/v1/providers/{}", scene.id);
    scene.owner.delete(&at).await.expect(204);
    assert!(scene.members(&staff).await.is_empty());
    assert_eq!(scene.members(&hand).await, ["ada"]);
    browser.get("/clients").await.expect(303);
    let page = browser.get("/sign-in").await.expect(200);
    assert!(!page.text.contains("/sign-in/with/"));
}

#[tokio::test]
async fn groups_may_stand_in_the_id_token_and_the_secret_in_the_form_or_nowhere() {
    for kind in [
        Kind {
            claims_in_id_token: true,
            public: true,
            ..Kind::default()
        },
        Kind {
            secret_in_form: true,
            ..Kind::default()
        },
    ] {
        let mut settings = json!({"unknown_people": "make"});
        if kind.public {
            settings["client_secret"] = Value::Null;
        }
        let mut scene = Scene::new(&kind, settings).await;
        let staff = scene.group("Staff").await;
        let groups = json!([{"value": "staff", "group": staff}]);
        scene
            .change(json!({"groups_claim": "groups", "groups": groups}))
            .await;
        scene
            .openid
            .knows(&json!({"s-1": {"name": "Ada", "groups": "staff"}}));
        let mut browser = at_own_name(&scene.running).await;
        scene.arrive(&mut browser, "s-1").await.expect(303);
        assert_eq!(scene.members(&staff).await, ["Ada"]);
    }
}

#[tokio::test]
async fn nobody_is_known_by_a_name_or_an_address_but_by_the_linked_subject() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let (actor, name) = person(&scene.running, Role::Auditor).await;
    scene.openid.knows(&json!({
        "s-1": {"preferred_username": name, "email": name, "email_verified": true},
        "s-2": {"preferred_username": name},
    }));
    let mut browser = at_own_name(&scene.running).await;
    let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
    assert!(refused.text.contains("s-1"), "it says what to link");
    assert!(browser.cookie.is_none());
    let before = scene.actor_named(&name).await;

    scene.link(&actor.to_string(), "s-1").await.expect(201);
    assert_eq!(scene.link(&actor.to_string(), "s-1").await.status, 409);
    scene.arrive(&mut browser, "s-1").await.expect(303);
    browser.get("/people").await.expect(200);
    let after = scene.actor_named(&name).await;
    assert_eq!(after["sign_in"], before["sign_in"], "the role stays");
    scene.arrive(&mut browser, "s-2").await.expect(403);

    // Unlinked, the sessions end, and it is as before.
    let identities = scene
        .owner
        .get("/api/v1/identities")
        .await
        .expect(200)
        .json();
    let id = id_of(&identities["items"][0]);
    let mut other = signed_in_as(&scene.running, &name).await;
    scene
        .owner
        .delete(&format!("/api/v1/identities/{id}"))
        .await
        .expect(204);
    other.get("/people").await.expect(303);
    scene.arrive(&mut browser, "s-1").await.expect(403);
}

async fn signed_in_as(running: &Running, name: &str) -> Browser {
    let mut browser = at_own_name(running).await;
    browser.sign_in(name, PASSWORD).await.expect(303);
    browser
}

#[tokio::test]
async fn who_may_not_sign_in_may_not_by_a_provider_either() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let (actor, _) = person(&scene.running, Role::User).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    scene.link(&actor.to_string(), "s-1").await.expect(201);
    let mut browser = at_own_name(&scene.running).await;
    scene.arrive(&mut browser, "s-1").await.expect(303);
    let at = format!("/api/v1/actors/{actor}");
    scene
        .owner
        .delete(&format!("{at}/sign-in"))
        .await
        .expect(200);
    browser.get("/me").await.expect(303);
    let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
    assert!(refused.text.contains("an administrator has to let you"));
    let role = json!({"role": "user"});
    scene
        .owner
        .post(&format!("{at}/sign-in"), role)
        .await
        .expect(200);
    scene.arrive(&mut browser, "s-1").await.expect(303);
    let ended = scene.owner.delete(&format!("{at}/sessions")).await;
    ended.expect(204);
    browser.get("/me").await.expect(303);
    let disabled = json!({"disabled": true});
    scene.owner.patch(&at, "*", disabled).await.expect(200);
    scene.arrive(&mut browser, "s-1").await.expect(403);

    // A provider that is disabled is on no page, and lets nobody in who is on the way.
    let url = scene.begin(&mut browser, "/").await;
    scene.change(json!({"disabled": true})).await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let refused = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(403);
    assert!(
        refused
            .text
            .contains("Nobody signs in by this identity provider")
    );
    let page = browser.get("/sign-in").await.expect(200);
    assert!(!page.text.contains("/sign-in/with/"));
    let way = format!("/sign-in/with/{}", scene.id);
    assert!(
        browser
            .get(&way)
            .await
            .expect(403)
            .text
            .contains("Nobody signs in")
    );
}

#[tokio::test]
async fn a_state_is_good_once_in_the_browser_that_began() {
    let scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    let mut browser = at_own_name(&scene.running).await;
    let refused = async |browser: &mut Browser, url: &str, why: &str| {
        let answer = browser.get(path_of(&scene.running, url)).await.expect(403);
        assert!(answer.text.contains(why), "{why}: {}", answer.text);
        assert!(
            answer
                .header("set-cookie")
                .starts_with("__Host-culvert-way=")
        );
    };
    // Foreign: an attacker has somebody else's browser end what began in another one.
    let url = scene.begin(&mut browser, "/").await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let mut victim = at_own_name(&scene.running).await;
    refused(&mut victim, &back, "in another browser").await;
    assert!(victim.cookie.is_none());
    // It is used up by that.
    refused(&mut browser, &back, "used already").await;

    // Replayed: by the same browser, with all that it had.
    let url = scene.begin(&mut browser, "/").await;
    let way = browser.way.clone();
    let back = scene.openid.sign_in(&url, "s-1").await;
    browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(303);
    browser.way = way;
    refused(&mut browser, &back, "used already").await;

    // Made up, or missing; and an answer of another issuer.
    let own = scene.running.portal.whereabouts().url;
    for query in ["", "?state=x&code=y", "?code=y", "?state="] {
        let url = format!("{own}/sign-in/callback{query}");
        refused(&mut browser, &url, "was not begun here").await;
    }
    for issuer in ["https%3A%2F%2Fevil.example", ""] {
        let url = scene.begin(&mut browser, "/").await;
        let back = scene.openid.sign_in(&url, "s-1").await;
        let (before, _) = back
            .split_once("&iss=")
            .expect("the provider says who it is");
        let forged = format!("{before}&iss={issuer}");
        refused(&mut browser, &forged, "not from the identity provider").await;
    }
    // A code that was used, and one of another sign-in.
    let url = scene.begin(&mut browser, "/").await;
    let state = url
        .split("state=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let code = back
        .split("code=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let issuer = scene.openid.issuer.replace(':', "%3A").replace('/', "%2F");
    let mixed = format!("{own}/sign-in/callback?state={state}&code={code}&iss={issuer}");
    refused(&mut browser, &mixed, "invalid_grant").await;
    // What the provider says is text.
    let url = scene.begin(&mut browser, "/").await;
    let state = url
        .split("state=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let said = "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let url = format!("{own}/sign-in/callback?state={state}&{said}");
    let page = browser.get(path_of(&scene.running, &url)).await.expect(403);
    assert!(page.text.contains("access_denied") && !page.text.contains("<script"));
}

/// Whoever is at the provider chooses what is said there of them.
#[tokio::test]
async fn what_a_provider_says_of_somebody_is_text_on_every_page() {
    const NAME: &str = "<script>alert(1)</script>\"'&";
    const TEXT: &str = "&#60;script&#62;alert(1)";
    let scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene
        .openid
        .knows(&json!({"s-1": {"preferred_username": NAME}}));
    let mut browser = at_own_name(&scene.running).await;
    scene.arrive(&mut browser, "s-1").await.expect(303);
    let own = browser.get("/me").await.expect(200).text;
    assert!(own.contains(TEXT) && !own.contains("<script>"), "{own}");
    let mut owner = signed_in(&scene.running, Role::Owner).await;
    for path in ["/people", "/log/changes"] {
        let page = owner.get(path).await.expect(200).text;
        assert!(page.contains(TEXT), "{path}: {page}");
        assert!(!page.contains("<script>"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_session_that_somebody_else_chose_ends_and_none_is_taken_over() {
    let scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    let attacker = signed_in(&scene.running, Role::User).await;
    let mut victim = at_own_name(&scene.running).await;
    victim.cookie.clone_from(&attacker.cookie);
    scene.arrive(&mut victim, "s-1").await.expect(303);
    assert_ne!(victim.cookie, attacker.cookie);
    let mut then = at_own_name(&scene.running).await;
    then.cookie.clone_from(&attacker.cookie);
    then.get("/").await.expect(303);
}

#[tokio::test]
async fn signing_in_by_a_provider_leads_to_no_other_site() {
    let scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    let mut browser = at_own_name(&scene.running).await;
    for (next, to) in [
        ("/clients", "/clients"),
        ("/device%3Fcode%3DBCDF-GHJK", "/device?code=BCDF-GHJK"),
        ("/device%3Fcode%3D%22%3E", "/"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/device%3Fcode%3DBCDF-GHJK%0d%0aa:b", "/"),
    ] {
        let url = scene.begin(&mut browser, next).await;
        let back = scene.openid.sign_in(&url, "s-1").await;
        let arrived = browser
            .get(path_of(&scene.running, &back))
            .await
            .expect(303);
        assert_eq!(arrived.header("location"), to, "{next}");
    }
    // Under another name, the way leads to the portal's own first, where the cookie is to be.
    "localhost".clone_into(&mut browser.client.host);
    let way = format!("/sign-in/with/{}?next=/clients", scene.id);
    let answer = browser.get(&way).await.expect(303);
    let own = scene.running.portal.whereabouts().url;
    assert_eq!(answer.header("location"), format!("{own}{way}"));
}

#[tokio::test]
async fn a_person_links_an_identity_and_only_in_the_session_that_asked() {
    let scene = Scene::new(&Kind::default(), json!({})).await;
    scene
        .openid
        .knows(&json!({"s-1": {"name": "Ada"}, "s-2": {"name": "Bob"}}));
    let (_, name) = person(&scene.running, Role::Admin).await;
    let (_, other_name) = person(&scene.running, Role::Admin).await;
    let mut browser = signed_in_as(&scene.running, &name).await;
    let link = async |browser: &mut Browser, subject: &str| {
        let fields = [("provider", &*scene.id)];
        let page = browser.submit("/me/link", &fields).await.expect(200);
        let (_, url) = page
            .text
            .split_once(&format!("href=\"{}", scene.openid.issuer))
            .unwrap();
        let url = url.split('"').next().unwrap().replace("&#38;", "&");
        let url = format!("{}{}", scene.openid.issuer, url.replace("&amp;", "&"));
        scene.openid.sign_in(&url, subject).await
    };
    // Somebody else has signed in meanwhile: the way belongs to the session in which it began.
    let back = link(&mut browser, "s-1").await;
    let mut other = signed_in_as(&scene.running, &other_name).await;
    other.way.clone_from(&browser.way);
    let refused = other.get(path_of(&scene.running, &back)).await.expect(403);
    assert!(
        refused
            .text
            .contains("The session in which this was begun is over")
    );

    let back = link(&mut browser, "s-1").await;
    let linked = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(303);
    assert_eq!(linked.header("location"), "/me?done=linked");
    let page = browser.get("/me").await.expect(200);
    assert!(page.text.contains("s-1"));
    let back = link(&mut other, "s-1").await;
    let taken = other.get(path_of(&scene.running, &back)).await.expect(403);
    assert!(taken.text.contains("linked with another actor"));
    assert!(taken.text.contains("signed in as before"));

    let mut fresh = at_own_name(&scene.running).await;
    scene.arrive(&mut fresh, "s-1").await.expect(303);
    let page = fresh.get("/me").await.expect(200);
    assert!(page.text.contains(&name));
    // It goes again, and this session goes on.
    let (_, at) = page.text.split_once("/me/unlink/").unwrap();
    let at = format!("/me/unlink/{}", at.split('"').next().unwrap());
    let foreign = other.submit(&at, &[]).await;
    foreign.expect(404);
    fresh.submit(&at, &[]).await.expect(303);
    fresh.get("/me").await.expect(200);
    browser.get("/me").await.expect(303);
    let mut fresh = at_own_name(&scene.running).await;
    scene.arrive(&mut fresh, "s-1").await.expect(403);
}

/// The way that a page has to the provider.
fn way_on(scene: &Scene, page: &Answer) -> String {
    let issuer = &scene.openid.issuer;
    let (_, url) = page.text.split_once(&format!("href=\"{issuer}")).unwrap();
    let url = url.split('"').next().unwrap();
    let url = url.replace("&#38;", "&").replace("&amp;", "&");
    format!("{issuer}{url}")
}

#[tokio::test]
async fn who_signs_in_by_a_provider_alone_proves_there_anew_who_they_are() {
    let mut scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene
        .openid
        .knows(&json!({"s-1": {"name": "Ada"}, "s-2": {"name": "Bob"}}));
    let mut browser = at_own_name(&scene.running).await;
    scene.arrive(&mut browser, "s-1").await.expect(303);
    let body = json!({"machine": "laptop"});
    let mut machine = scene.running.client().await;
    let begun = machine.post("/api/v1/device-sign-ins", body).await;
    let begun = begun.expect(201).json();
    let code = begun["user_code"].as_str().unwrap();
    // The provider did not say when it asked: its session may be hours old.
    let ticket = waiting(browser.submit("/device/approve", &[("code", code)]).await);
    let at = format!("/confirm?form={ticket}");
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains("With Example") && !page.text.contains("name=\"current\""));
    let begin = async |browser: &mut Browser| {
        let fields = [("form", &*ticket), ("provider", &*scene.id)];
        let page = browser.submit("/confirm/provider", &fields).await;
        way_on(&scene, &page.expect(200))
    };
    let url = begin(&mut browser).await;
    assert!(
        url.contains("prompt=login") && url.contains("max_age=0"),
        "{url}"
    );
    // Somebody else signs in there.
    let back = scene.openid.sign_in(&url, "s-2").await;
    let refused = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(403);
    assert!(
        refused.text.contains("knows you as somebody else"),
        "{}",
        refused.text
    );
    // The answer comes to another session.
    let url = begin(&mut browser).await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let mut other = at_own_name(&scene.running).await;
    scene.arrive(&mut other, "s-1").await.expect(303);
    other.way.clone_from(&browser.way);
    other.get(path_of(&scene.running, &back)).await.expect(403);
    let done = format!("/confirm/done?form={ticket}");
    browser.get(&done).await.expect(303);

    // The person at the browser leaves out that the provider is to ask.
    let url = begin(&mut browser).await;
    let quietly = url.replace("prompt=login&max_age=0&", "");
    let back = scene.openid.sign_in(&quietly, "s-1").await;
    let refused = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(403);
    assert!(refused.text.contains("no auth_time"), "{}", refused.text);
    browser.get(&done).await.expect(303);

    let url = begin(&mut browser).await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let proven = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(303);
    assert_eq!(proven.header("location"), done);
    let approved = send_waiting(&mut browser, &ticket, "/device/approve").await;
    approved.expect(200);
    let fields = [("form", &*ticket), ("provider", &*scene.id)];
    let (_, name) = person(&scene.running, Role::Admin).await;
    let mut unknown = signed_in_as(&scene.running, &name).await;
    unknown
        .submit("/confirm/provider", &fields)
        .await
        .expect(404);
    scene.change(json!({"disabled": true})).await;
    let page = browser.get(&at).await.expect(200);
    assert!(!page.text.contains("With Example"));
}

#[tokio::test]
async fn a_token_of_a_clock_that_is_off_is_refused() {
    for (minutes, why) in [(-120, "it has expired"), (120, "from the future")] {
        let kind = Kind {
            clock_ms: minutes * 60_000,
            ..Kind::default()
        };
        let scene = Scene::new(&kind, json!({"unknown_people": "make"})).await;
        scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
        let mut browser = at_own_name(&scene.running).await;
        let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
        assert!(refused.text.contains(why), "{minutes}: {}", refused.text);
        assert!(browser.cookie.is_none());
    }
}

#[tokio::test]
async fn a_provider_that_is_away_or_not_believed_is_named_on_a_page() {
    let mut scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    let mut browser = at_own_name(&scene.running).await;
    let way = format!("/sign-in/with/{}", scene.id);
    // Nobody vouches for its certificate.
    scene.change(json!({"ca": ""})).await;
    let page = browser.get(&way).await.expect(502);
    assert!(page.text.contains("certificate"), "{}", page.text);
    let ca = scene.openid.ca.clone();
    scene.change(json!({"ca": ca})).await;
    // The secret is another: the provider says so.
    scene.change(json!({"client_secret": "another"})).await;
    let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
    assert!(refused.text.contains("invalid_client"), "{}", refused.text);
    scene.change(json!({"client_secret": CLIENT_SECRET})).await;
    // It goes away while somebody is there.
    let url = scene.begin(&mut browser, "/").await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    scene.openid.stop();
    let page = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(502);
    assert!(page.text.contains("can&#39;t be asked"), "{}", page.text);
    assert!(browser.cookie.is_none());
    // Passwords still work.
    let (_, name) = person(&scene.running, Role::User).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
}

/// One that never answers, and one whose answer never ends.
#[tokio::test]
async fn a_provider_that_is_silent_or_talks_without_end_is_given_up() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (endless, ca, talking) = endless().await;
    let begin = async |owner: &mut Client, name: &str, address: SocketAddr, ca: &str| {
        let new = json!({
            "name": name, "issuer": format!("https://{address}"), "client_id": "c", "ca": ca,
        });
        let made = owner.post("/api/v1/providers", new).await.expect(201);
        format!("/sign-in/with/{}", id_of(&made.json()))
    };
    let address = silent.local_addr().unwrap();
    let silent_way = begin(&mut owner, "silent", address, &ca).await;
    let endless_way = begin(&mut owner, "endless", endless, &ca).await;
    let mut browser = at_own_name(&running).await;
    let page = browser.get(&endless_way).await.expect(502);
    assert!(page.text.contains("length limit exceeded"), "{}", page.text);
    let page = browser.get(&silent_way).await.expect(502);
    assert!(
        page.text.contains("did not answer within 10 s"),
        "{}",
        page.text
    );
    talking.abort();
}

async fn endless() -> (SocketAddr, String, JoinHandle<()>) {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let talking = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // Until the portal has had enough.
        while stream.write_all(&[b' '; 16_384]).await.is_ok() {}
    });
    (address, certified.cert.pem(), talking)
}

#[tokio::test]
async fn a_secret_of_the_portal_at_a_provider_is_never_shown() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let mut pages = Vec::new();
    for path in ["/api/v1/providers", "/api/v1/log/changes"] {
        pages.push(scene.owner.get(path).await.text);
    }
    let at = format!("/api/v1/providers/{}", scene.id);
    pages.push(scene.owner.get(&at).await.expect(200).text);
    let mut browser = signed_in(&scene.running, Role::Owner).await;
    own_name(&scene.running, &mut browser);
    for path in [
        "/settings/providers".to_owned(),
        format!("/settings/providers/{}", scene.id),
        "/log/changes".to_owned(),
    ] {
        pages.push(browser.get(&path).await.expect(200).text);
    }
    for page in &pages {
        for part in [CLIENT_SECRET, "of the test"] {
            assert!(!page.contains(part), "{page}");
        }
    }
    assert!(pages.iter().any(|page| page.contains("secret_set")));
    let provider = scene.id.parse().unwrap();
    let account = scene.running.account();
    let row: culvert_store::Provider = scene.running.store.get_as(account, provider).await.unwrap();
    assert!(!format!("{row:?}").contains("of the test"));
}

#[tokio::test]
async fn a_provider_that_owners_come_in_by_is_changed_by_owners_alone() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let (owner, _) = person(&scene.running, Role::Owner).await;
    let mut admin = scene.running.with_role(Role::Admin).await;
    let at = format!("/api/v1/providers/{}", scene.id);
    let other = json!({"client_id": "other"});
    admin.patch(&at, "*", other.clone()).await.expect(200);
    let link = json!({"provider": scene.id, "subject": "s-1", "actor": owner});
    admin.post("/api/v1/identities", link).await.problem(403);
    let linked = scene.link(&owner.to_string(), "s-1").await.expect(201);
    admin.patch(&at, "*", other).await.problem(403);
    admin.delete(&at).await.problem(403);
    let identity = format!("/api/v1/identities/{}", id_of(&linked.json()));
    admin.delete(&identity).await.problem(403);
    let sessions = format!("/api/v1/actors/{owner}/sessions");
    admin.delete(&sessions).await.problem(403);
    scene.owner.delete(&at).await.expect(204);
}

#[tokio::test]
async fn a_provider_that_can_not_be_one_is_refused_by_its_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let good = json!({"name": "A", "issuer": "https://id.example", "client_id": "c"});
    for (field, value) in [
        ("name", json!("")),
        ("issuer", json!("http://id.example")),
        ("issuer", json!("https://user@id.example")),
        ("issuer", json!("https://id.example/?a=b")),
        ("issuer", json!("id.example")),
        ("client_id", json!("")),
        ("client_secret", json!("x".repeat(1_025))),
        ("ca", json!("no certificate")),
        ("scopes", json!(["two words"])),
        ("scopes", json!(vec!["x"; 17])),
        ("groups_claim", json!("x".repeat(257))),
        (
            "groups",
            json!([{"value": "x", "group": "grp_00000000000000000000000000"}]),
        ),
        ("unknown_people", json!("maybe")),
    ] {
        let mut wrong = good.clone();
        wrong[field] = value.clone();
        let problem = owner.post("/api/v1/providers", wrong).await.problem(422);
        let named = problem["errors"].to_string();
        assert!(named.contains(field), "{field} {value}: {problem}");
    }
    owner
        .post("/api/v1/providers", good.clone())
        .await
        .expect(201);
    owner.post("/api/v1/providers", good).await.problem(409);
    for number in 1..32 {
        let name = format!("more {number}");
        let more = json!({"name": name, "issuer": "https://id.example", "client_id": "c"});
        owner.post("/api/v1/providers", more).await.expect(201);
    }
    let more = json!({"name": "33", "issuer": "https://id.example", "client_id": "c"});
    owner.post("/api/v1/providers", more).await.problem(409);
}

#[tokio::test]
async fn a_provider_is_made_and_changed_by_pages_and_nothing_that_was_written_is_lost() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = owner.post("/api/v1/groups", json!({"name": "Staff"})).await;
    group.expect(201);
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = |name: &'static str, groups: &'static str, version: &'static str| {
        [
            ("name", name),
            ("issuer", "https://id.example"),
            ("client_id", "culvert"),
            ("client_secret", "hush-hush-hush"),
            ("scopes", "profile groups"),
            ("groups_claim", "groups"),
            ("groups", groups),
            ("unknown_people", "make"),
            ("disabled", "no"),
            ("version", version),
        ]
    };
    let at = "/settings/providers";
    let refused = browser
        .submit(at, &fields("Example", "staff", ""))
        .await
        .expect(422);
    assert!(refused.text.contains("is not like") && !refused.text.contains("hush"));
    let refused = browser
        .submit(at, &fields("Example", "a=Nobody", ""))
        .await
        .expect(422);
    assert!(refused.text.contains("a=Nobody"));
    let made = browser
        .submit(at, &fields("Example", "cn=staff=Staff", ""))
        .await
        .expect(303);
    let page = made
        .header("location")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let shown = browser.get(&page).await.expect(200);
    assert!(shown.text.contains("cn=staff=Staff") && !shown.text.contains("hush"));
    assert!(shown.text.contains("/sign-in/callback"));
    // Made, and given its secret: that is version 2.
    browser
        .submit(&page, &fields("Renamed", "", "2"))
        .await
        .expect(303);
    let late = browser
        .submit(&page, &fields("Mine", "staff=Staff", "2"))
        .await
        .expect(409);
    assert!(late.text.contains("Renamed") && late.text.contains("value=\"Mine\""));
    let wrong = browser.submit(&page, &fields("", "staff=Staff", "4")).await;
    assert!(wrong.expect(422).text.contains("staff=Staff"));
    let delete = format!("{page}/delete");
    browser
        .submit(&delete, &[("version", "4")])
        .await
        .expect(303);
    browser.get(&page).await.expect(404);
}

//! People who sign in by an identity provider: a real one, which scripts/peers.sh fetches.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::openid_provider::{Kind, OpenIdProvider, at_own_name, path_of};
use crate::support::{Answer, Client, Running, id_of};
use culvert_store::Role;
use serde_json::{Value, json};

/// A portal, a provider that it knows, and an owner.
pub(crate) struct Scene {
    pub(crate) running: Running,
    pub(crate) openid: OpenIdProvider,
    pub(crate) owner: Client,
    /// The provider at the portal.
    pub(crate) id: String,
}

impl Scene {
    pub(crate) async fn new(kind: &Kind, settings: Value) -> Self {
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
    pub(crate) async fn begin(&self, browser: &mut Browser, next: &str) -> String {
        let page = browser.get("/sign-in").await.expect(200);
        let way = format!("/sign-in/with/{}", self.id);
        assert!(page.text.contains(&way), "the page has the way");
        let answer = browser.get(&format!("{way}?next={next}")).await.expect(303);
        answer.header("location").to_owned()
    }

    /// Goes to the provider and comes back.
    pub(crate) async fn arrive(&self, browser: &mut Browser, subject: &str) -> Answer {
        let url = self.begin(browser, "/").await;
        let back = self.openid.sign_in(&url, subject).await;
        browser.get(path_of(&self.running, &back)).await
    }

    pub(crate) async fn change(&mut self, patch: Value) {
        let at = format!("/api/v1/providers/{}", self.id);
        self.owner.patch(&at, "*", patch).await.expect(200);
    }

    pub(crate) async fn actor_named(&mut self, name: &str) -> Value {
        let at = format!("/api/v1/actors?name={}", name.replace(' ', "+"));
        self.owner.get(&at).await.expect(200).json()["items"][0].clone()
    }

    pub(crate) async fn group(&mut self, name: &str) -> String {
        let made = self
            .owner
            .post("/api/v1/groups", json!({"name": name}))
            .await;
        id_of(&made.expect(201).json())
    }

    pub(crate) async fn members(&mut self, group: &str) -> Vec<String> {
        let at = format!("/api/v1/groups/{group}/members");
        let page = self.owner.get(&at).await.expect(200).json();
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|member| member["actor_name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn link(&mut self, actor: &str, subject: &str) -> Answer {
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

    // Memberships made by people stay; those from the provider follow each sign-in.
    for group in [&hand, &both] {
        let at = format!("/api/v1/groups/{group}/members");
        let member = json!({"actor": ada["id"]});
        scene.owner.post(&at, member).await.expect(201);
    }
    assert_eq!(scene.members(&staff).await, ["ada"]);
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

pub(crate) async fn signed_in_as(running: &Running, name: &str) -> Browser {
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
    // Text from the provider is shown as text.
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

/// Anyone who has an account at the provider chooses the text that it says of them.
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
    let led = format!("{way}&moved=1");
    assert_eq!(answer.header("location"), format!("{own}{led}"));
    // Behind a proxy that changes the name, it would lead there for ever.
    let answer = browser.get(&led).await.expect(409);
    assert!(answer.text.contains("Host: localhost`"), "{answer:?}");
    assert!(answer.text.contains(&own), "{answer:?}");
}

//! Passkeys: made, used, renamed and removed, and refused where anything is not as it should be.

use crate::authenticator::{Authenticator, Said, encode};
use crate::browser::{Browser, PASSWORD, person};
use crate::support::{Answer, Running, now};
use culvert_ids::ActorId;
use culvert_store::{Actor, Author, Mutation, Role, SignIn, StoreExt};
use serde_json::{Value, json};

pub(crate) const HOST: &str = "portal.example";
pub(crate) const ORIGIN: &str = "https://portal.example";

async fn portal() -> Running {
    Running::start_as(tempfile::tempdir().unwrap(), Some(ORIGIN)).await
}

async fn browser(running: &Running) -> Browser {
    let mut browser = Browser::open(running).await;
    HOST.clone_into(&mut browser.client.host);
    browser
}

/// The question of this kind that a page asks an authenticator.
pub(crate) fn question(page: &Answer, kind: &str) -> Value {
    let marked = format!("data-passkey=\"{kind}\" data-question=\"");
    let (_, rest) = page
        .text
        .split_once(&marked)
        .unwrap_or_else(|| panic!("{page:?}"));
    let text = rest.split('"').next().unwrap();
    let text = text.replace("&#34;", "\"").replace("&quot;", "\"");
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn challenge(question: &Value) -> &str {
    question["challenge"].as_str().unwrap()
}

/// Someone with a passkey, and the authenticator that holds it.
async fn with_passkey(running: &Running, role: Role) -> (ActorId, String, Authenticator, Answer) {
    let (actor, name) = person(running, role).await;
    let mut browser = browser(running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let phone = Authenticator::new(name.as_bytes(), ORIGIN);
    let made = add(&mut browser, &phone, |_| {}).await;
    (actor, name, phone, made)
}

pub(crate) async fn add(
    browser: &mut Browser,
    phone: &Authenticator,
    change: impl FnOnce(&mut Said),
) -> Answer {
    let page = browser
        .submit_enrolling("/me/passkeys", &[("name", "Phone")])
        .await;
    let question = question(&page.expect(200), "create");
    let credential = phone.register(challenge(&question), change);
    let fields = [("name", "Phone"), ("credential", &*credential)];
    browser
        .submit_enrolling("/me/passkeys/confirm", &fields)
        .await
}

fn of(actor: ActorId) -> impl FnOnce(&mut Said) {
    move |said| said.user = actor.as_bytes().to_vec()
}

/// Signs in by a passkey alone.
async fn sign_in(
    browser: &mut Browser,
    phone: &Authenticator,
    change: impl FnOnce(&mut Said),
) -> Answer {
    let page = browser.get("/sign-in").await.expect(200);
    let credential = phone.sign(challenge(&question(&page, "get")), change);
    browser
        .submit("/sign-in/passkey", &[("credential", &credential)])
        .await
}

/// The page of the one passkey of who signed in.
pub(crate) async fn path_of_passkey(browser: &mut Browser) -> String {
    path_in(&browser.get("/me/second-factor").await.expect(200))
}

fn path_in(own: &Answer) -> String {
    let (_, rest) = own.text.split_once("/me/passkeys/").unwrap();
    format!("/me/passkeys/{}", rest.split('"').next().unwrap())
}

async fn row(running: &Running, actor: ActorId) -> Actor {
    running
        .store
        .get_as(running.account(), actor)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_passkey_signs_in_by_itself() {
    let running = portal().await;
    let (actor, _, phone, made) = with_passkey(&running, Role::Owner).await;
    assert!(
        made.expect(200).text.contains("Recovery codes"),
        "the first factor brings codes"
    );
    let sign_in_of = row(&running, actor).await.sign_in.unwrap();
    assert_eq!((sign_in_of.passkeys, sign_in_of.recovery_codes), (1, 10));

    let mut browser = browser(&running).await;
    let page = browser.get("/sign-in").await.expect(200);
    let question = question(&page, "get");
    assert_eq!(question["rpId"], HOST);
    assert_eq!(question["userVerification"], "required");
    assert_eq!(
        question["allowCredentials"],
        json!([]),
        "it names nobody's keys"
    );
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'"), "{policy}");
    sign_in(&mut browser, &phone, of(actor)).await.expect(303);
    assert!(browser.cookie.is_some());
    browser.get("/people").await.expect(200);
    let own = browser.get("/me/second-factor").await.expect(200);
    assert!(own.text.contains("a passkey") && own.text.contains("Phone"));
    let log = browser.get("/log/changes").await.expect(200);
    assert!(
        log.text.contains("passkeys"),
        "that there is one is in the log"
    );
}

#[tokio::test]
async fn what_is_not_as_it_should_be_signs_nobody_in() {
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Admin).await;
    let (other, ..) = with_passkey(&running, Role::Owner).await;
    let mut browser = browser(&running).await;
    let changes: [fn(&mut Said); 6] = [
        |said| said.origin = "https://evil.example".to_owned(),
        |said| said.cross_origin = true,
        |said| said.rp_id = "evil.example".to_owned(),
        |said| said.flags &= !4,
        |said| said.kind = "webauthn.create".to_owned(),
        |said| said.challenge = encode(b"a challenge that nobody made, as long as"),
    ];
    for change in changes {
        let refused = sign_in(&mut browser, &phone, |said| {
            of(actor)(said);
            change(said);
        });
        refused.await.expect(401);
    }
    let refused = sign_in(&mut browser, &phone, of(other)).await;
    refused.expect(401);
    let refused = sign_in(&mut browser, &phone, |_| {}).await;
    refused.expect(401);
    let stranger = Authenticator::new(b"stranger", ORIGIN);
    sign_in(&mut browser, &stranger, of(actor))
        .await
        .expect(401);
    let twin = Authenticator::new(&phone.credential, ORIGIN);
    sign_in(&mut browser, &twin, of(actor)).await.expect(401);
    browser.move_on(&running).await;
    HOST.clone_into(&mut browser.client.host);
    for credential in ["", "{}", "not JSON", &"x".repeat(20_000)] {
        let fields = [("credential", credential)];
        let refused = browser.submit("/sign-in/passkey", &fields).await;
        assert!(
            [401, 413].contains(&refused.status.as_u16()),
            "{credential}"
        );
    }
    assert!(browser.cookie.is_none());
}

#[tokio::test]
async fn an_answer_is_of_use_once_and_one_that_has_not_counted_on_of_none() {
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    // A passkey that several devices have counts nothing: the challenge alone keeps its answer from a second use.
    for uses in [0, 5] {
        let page = browser.get("/sign-in").await.expect(200);
        let credential = phone.sign(challenge(&question(&page, "get")), |said| {
            of(actor)(said);
            said.uses = uses;
        });
        let fields = [("credential", &*credential)];
        browser
            .submit("/sign-in/passkey", &fields)
            .await
            .expect(303);
        browser.cookie = None;
        browser
            .submit("/sign-in/passkey", &fields)
            .await
            .expect(401);
    }
    for uses in [5, 4, 0] {
        let refused = sign_in(&mut browser, &phone, |said| {
            of(actor)(said);
            said.uses = uses;
        });
        refused.await.expect(401);
    }
    let counted_on = sign_in(&mut browser, &phone, |said| {
        of(actor)(said);
        said.uses = 6;
    });
    counted_on.await.expect(303);
}

#[tokio::test]
async fn a_passkey_stands_beside_a_password_as_a_code_does() {
    let running = portal().await;
    let (actor, name, phone, made) = with_passkey(&running, Role::Admin).await;
    let (_, _, others, _) = with_passkey(&running, Role::Owner).await;
    let mut browser = browser(&running).await;
    let second = async |browser: &mut Browser, phone: &Authenticator| {
        let page = browser.sign_in(&name, PASSWORD).await.expect(200);
        assert!(browser.cookie.is_none(), "it is no session yet");
        let question = question(&page, "get");
        assert_eq!(
            question["allowCredentials"][0]["id"],
            encode(name.as_bytes())
        );
        let (_, rest) = page.text.split_once("name=\"ticket\" value=\"").unwrap();
        let ticket = rest.split('"').next().unwrap().to_owned();
        let credential = phone.sign(challenge(&question), |_| {});
        let fields = [("ticket", &*ticket), ("credential", &*credential)];
        browser.submit("/sign-in/passkey/second", &fields).await
    };
    second(&mut browser, &others).await.expect(422);
    second(&mut browser, &phone).await.expect(303);
    assert!(browser.cookie.is_some());

    // An answer to the question asked after the password is not accepted without the password.
    let mut thief = self::browser(&running).await;
    let page = thief.sign_in(&name, PASSWORD).await.expect(200);
    let credential = phone.sign(challenge(&question(&page, "get")), of(actor));
    let fields = [("credential", &*credential)];
    thief.submit("/sign-in/passkey", &fields).await.expect(401);
    let fields = [("ticket", "made up"), ("credential", &*credential)];
    thief
        .submit("/sign-in/passkey/second", &fields)
        .await
        .expect(401);

    // A recovery code does where the authenticator is lost.
    let codes = crate::factors::copied(&made, "Recovery codes");
    let code = codes.lines().next().unwrap().to_owned();
    let page = thief.sign_in(&name, PASSWORD).await.expect(200);
    let (_, rest) = page.text.split_once("name=\"ticket\" value=\"").unwrap();
    let ticket = rest.split('"').next().unwrap().to_owned();
    let fields = [("ticket", &*ticket), ("code", &*code)];
    thief.submit("/sign-in/code", &fields).await.expect(303);
}

#[tokio::test]
async fn whose_second_factor_is_an_app_is_asked_for_a_code_and_for_no_passkey() {
    let running = portal().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    crate::factors::enrol(&mut browser).await;
    let mut browser = self::browser(&running).await;
    let page = browser.sign_in(&name, PASSWORD).await.expect(200).text;
    assert!(page.contains("action=\"/sign-in/code\""), "{page}");
    assert!(!page.contains("/sign-in/passkey/second"), "{page}");
}

#[tokio::test]
async fn a_password_that_was_given_once_signs_in_once_with_a_second_factor() {
    let running = portal().await;
    let (_, name, phone, made) = with_passkey(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    let page = browser.sign_in(&name, PASSWORD).await.expect(200);
    let (_, rest) = page.text.split_once("name=\"ticket\" value=\"").unwrap();
    let ticket = rest.split('"').next().unwrap().to_owned();
    let credential = phone.sign(challenge(&question(&page, "get")), |_| {});
    let fields = [("ticket", &*ticket), ("credential", &*credential)];
    let signed_in = browser.submit("/sign-in/passkey/second", &fields).await;
    signed_in.expect(303);

    // A code that is good does not help who has only what stood for the password.
    let codes = crate::factors::copied(&made, "Recovery codes");
    let code = codes.lines().next().unwrap().to_owned();
    let mut thief = self::browser(&running).await;
    let fields = [("ticket", &*ticket), ("code", &*code)];
    thief.submit("/sign-in/code", &fields).await.expect(401);
    assert!(thief.cookie.is_none());
}

#[tokio::test]
async fn a_passkey_that_was_not_made_here_and_now_is_not_kept() {
    let running = portal().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let phone = Authenticator::new(b"phone", ORIGIN);
    let changes: [fn(&mut Said); 4] = [
        |said| said.origin = "https://evil.example".to_owned(),
        |said| said.rp_id = "evil.example".to_owned(),
        |said| said.algorithm = -47,
        |said| said.flags &= !4,
    ];
    for change in changes {
        add(&mut browser, &phone, change).await.expect(422);
    }
    // The question of one session is not another's, nor one of signing in.
    let mut other = self::browser(&running).await;
    other.sign_in(&name, PASSWORD).await.expect(303);
    let page = other
        .submit("/me/passkeys", &[("name", "Phone")])
        .await
        .expect(200);
    let of_other = phone.register(challenge(&question(&page, "create")), |_| {});
    let page = self::browser(&running)
        .await
        .get("/sign-in")
        .await
        .expect(200);
    let of_sign_in = phone.register(challenge(&question(&page, "get")), |_| {});
    for credential in [of_other, of_sign_in] {
        let fields = [("name", "Phone"), ("credential", &*credential)];
        browser
            .submit("/me/passkeys/confirm", &fields)
            .await
            .expect(422);
    }
    browser
        .submit("/me/passkeys", &[("name", "")])
        .await
        .expect(422);
    assert_eq!(row(&running, actor).await.sign_in.unwrap().passkeys, 0);
    add(&mut browser, &phone, |_| {}).await.expect(200);
    add(&mut browser, &phone, |_| {}).await.expect(409);
}

#[tokio::test]
async fn a_passkey_is_renamed_and_removed_by_its_owner_and_by_who_resets_factors() {
    let running = portal().await;
    let (actor, name, phone, _) = with_passkey(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    sign_in(&mut browser, &phone, of(actor)).await.expect(303);
    let own = browser.get("/me/second-factor").await.expect(200);
    let path = path_in(&own);
    let mut stranger = crate::browser::signed_in(&running, Role::Owner).await;
    stranger.get(&path).await.expect(404);
    stranger
        .submit(&format!("{path}/remove"), &[])
        .await
        .expect(404);
    let fields = [("name", "Key in the drawer")];
    browser
        .submit(&format!("{path}/name"), &fields)
        .await
        .expect(303);
    assert!(
        browser
            .get(&path)
            .await
            .expect(200)
            .text
            .contains("Key in the drawer")
    );

    let mut owner = running.owner().await;
    owner
        .patch(
            "/api/v1/account",
            "*",
            json!({"second_factor": "everybody"}),
        )
        .await
        .expect(200);
    let refused = browser
        .submit(&format!("{path}/remove"), &[])
        .await
        .expect(409);
    assert!(refused.text.contains("is required"));
    owner
        .patch("/api/v1/account", "*", json!({"second_factor": "off"}))
        .await
        .expect(200);
    browser
        .submit(&format!("{path}/remove"), &[])
        .await
        .expect(303);
    let left = row(&running, actor).await.sign_in.unwrap();
    assert_eq!((left.passkeys, left.recovery_codes), (0, 0));
    browser.cookie = None;
    sign_in(&mut browser, &phone, of(actor)).await.expect(401);
    browser.sign_in(&name, PASSWORD).await.expect(303);

    add(&mut browser, &phone, |_| {}).await.expect(200);
    let path = format!("/api/v1/actors/{actor}/second-factor");
    owner.delete(&path).await.expect(200);
    assert_eq!(row(&running, actor).await.sign_in.unwrap().passkeys, 0);
    browser.cookie = None;
    sign_in(&mut browser, &phone, of(actor)).await.expect(401);
}

#[tokio::test]
async fn who_must_have_a_second_factor_may_make_it_a_passkey() {
    let running = portal().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut owner = running.owner().await;
    owner
        .patch(
            "/api/v1/account",
            "*",
            json!({"second_factor": "everybody"}),
        )
        .await
        .expect(200);
    let mut browser = browser(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    browser.get("/sites").await.expect(303);
    let phone = Authenticator::new(b"phone", ORIGIN);
    add(&mut browser, &phone, |_| {}).await.expect(200);
    browser.get("/sites").await.expect(200);
}

#[tokio::test]
async fn who_is_disabled_does_not_sign_in_by_a_passkey() {
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Admin).await;
    let mut owner = running.owner().await;
    owner
        .patch(
            &format!("/api/v1/actors/{actor}"),
            "*",
            json!({"disabled": true}),
        )
        .await
        .expect(200);
    let mut browser = browser(&running).await;
    sign_in(&mut browser, &phone, of(actor)).await.expect(401);
}

#[tokio::test]
async fn a_portal_at_an_address_offers_no_passkeys_and_says_why() {
    let running = Running::start().await;
    let mut browser = Browser::open(&running).await;
    let page = browser.get("/sign-in").await.expect(200);
    assert!(!page.text.contains("data-passkey"));
    let mut browser = crate::browser::signed_in(&running, Role::Admin).await;
    let page = browser.get("/me/second-factor").await.expect(200);
    assert!(page.text.contains("bound to a name"));
    browser
        .submit("/me/passkeys", &[("name", "Phone")])
        .await
        .expect(409);
}

#[tokio::test]
async fn signing_in_by_a_passkey_ends_the_session_that_the_browser_had() {
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    sign_in(&mut browser, &phone, of(actor)).await.expect(303);
    let before = browser.cookie.clone();
    sign_in(&mut browser, &phone, of(actor)).await.expect(303);
    assert_ne!(browser.cookie, before);
    browser.cookie = before;
    browser.get("/sites").await.expect(303);
}

#[tokio::test]
async fn of_sixteen_sessions_of_one_person_the_oldest_makes_room_for_one_more() {
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Admin).await;
    let mut cookies = Vec::new();
    let mut browser = browser(&running).await;
    for _ in 0..17 {
        browser.move_on(&running).await;
        HOST.clone_into(&mut browser.client.host);
        browser.cookie = None;
        sign_in(&mut browser, &phone, of(actor)).await.expect(303);
        cookies.push(browser.cookie.clone());
    }
    for (number, cookie) in cookies.into_iter().enumerate() {
        browser.cookie = cookie;
        let status = if number == 0 { 303 } else { 200 };
        browser.get("/me").await.expect(status);
    }
}

#[tokio::test]
async fn who_has_no_password_here_is_offered_no_passkey() {
    let running = portal().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut browser = browser(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    // As somebody whom an identity provider vouches for.
    let row = row(&running, actor).await;
    let sign_in = row.sign_in.map(|sign_in| SignIn {
        password_set: None,
        ..sign_in
    });
    let entity = Actor { sign_in, ..row }.into();
    let update = Mutation::Update {
        entity,
        expected_version: None,
    };
    running
        .store
        .write(running.account(), Author::PORTAL, now(), vec![update])
        .await
        .unwrap();
    let page = browser.get("/me/second-factor").await.expect(200);
    assert!(page.text.contains("identity provider") && !page.text.contains("class=\"fields\""));
    let fields = [("name", "Phone")];
    browser.submit("/me/passkeys", &fields).await.expect(409);
    browser.submit("/me/second-factor", &[]).await.expect(409);
}

#[tokio::test]
async fn the_name_of_a_passkey_is_text_on_every_page_that_has_it() {
    const NAME: &str = "<script>alert(1)</script>\"'&";
    let running = portal().await;
    let (actor, _, phone, _) = with_passkey(&running, Role::Owner).await;
    let mut browser = browser(&running).await;
    sign_in(&mut browser, &phone, of(actor)).await.expect(303);
    let path = path_of_passkey(&mut browser).await;
    let to = format!("{path}/name");
    let renamed = browser.submit(&to, &[("name", NAME)]).await;
    renamed.expect(303);
    for at in ["/me/second-factor", &*path] {
        let page = browser.get(at).await.expect(200).text;
        assert!(page.contains("&#60;script&#62;alert(1)"), "{at}: {page}");
        assert!(!page.contains("<script>alert"), "{at}: {page}");
    }
}

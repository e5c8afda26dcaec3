//! Second factors: codes of an authenticator app, recovery codes, and who must have them.

use crate::browser::{Browser, LIVE, PASSWORD, encode, person, signed_in};
use crate::support::{Answer, Running, api_token, birth, make_token, now, other_account};
use aws_lc_rs::hmac;
use culvert_base::UnixTime;
use culvert_ids::{ActorId, TokenId};
use culvert_store::{
    Actor, Author, FactorChange, Mutation, Role, SecretBytes, Seq, StoreExt, TokenScope,
};
use culvert_wire::token::Token;
use serde_json::json;

/// An authenticator app, which never shows a code twice.
pub(crate) struct App {
    pub(crate) secret: Vec<u8>,
    shown: u64,
}

impl App {
    pub(crate) fn new(secret: &str) -> Self {
        let secret = data_encoding::BASE32_NOPAD.decode(secret.as_bytes());
        Self {
            secret: secret.unwrap(),
            shown: 0,
        }
    }

    /// The code of the step that is now, or of the next one where that was shown before: the portal takes
    /// one step in advance.
    pub(crate) fn code(&mut self) -> String {
        let step = now().unix_ms() / 30_000;
        self.shown = step.max(self.shown + 1);
        self.again()
    }

    /// The code that was shown last.
    fn again(&self) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.secret);
        let tag = hmac::sign(&key, &self.shown.to_be_bytes());
        let at = usize::from(tag.as_ref()[19] & 15);
        let bits: [u8; 4] = tag.as_ref()[at..at + 4].try_into().unwrap();
        format!(
            "{:06}",
            (u32::from_be_bytes(bits) & 0x7fff_ffff) % 1_000_000
        )
    }

    /// A code that is not good now and was not.
    fn wrong(&self) -> String {
        let mut app = Self {
            secret: self.secret.clone(),
            shown: 0,
        };
        let right: Vec<String> = (0..8)
            .map(|ahead| {
                app.shown = now().unix_ms() / 30_000 + ahead - 3;
                app.again()
            })
            .collect();
        let mut codes = (0..1_000_000).map(|code| format!("{code:06}"));
        codes.find(|code| !right.contains(code)).unwrap()
    }
}

/// The text of a page between two others.
fn between<'a>(page: &'a Answer, from: &str, to: &str) -> &'a str {
    let rest = page
        .text
        .split_once(from)
        .unwrap_or_else(|| panic!("{page:?}"));
    rest.1.split(to).next().unwrap()
}

pub(crate) fn secret_of(page: &Answer) -> App {
    App::new(copied(page, "Or type this secret into it"))
}

/// The text that a page has under a title, to be copied.
pub(crate) fn copied<'a>(page: &'a Answer, title: &str) -> &'a str {
    between(page, &format!("data-copy=\"{title}\">"), "<")
}

/// Has who signed in set up an app. Returns it with the recovery codes.
pub(crate) async fn enrol(browser: &mut Browser) -> (App, Vec<String>) {
    let page = browser.submit("/me/second-factor", &[]).await.expect(200);
    let mut app = secret_of(&page);
    let codes = confirm(browser, &mut app).await;
    (app, codes)
}

async fn confirm(browser: &mut Browser, app: &mut App) -> Vec<String> {
    // A step may end between the two lines: the code before is good as well.
    let code = app.code();
    let page = browser
        .submit_enrolling("/me/second-factor/confirm", &[("code", &code)])
        .await;
    recovery_codes(&page.expect(200))
}

fn recovery_codes(page: &Answer) -> Vec<String> {
    let lines = copied(page, "Recovery codes").lines();
    lines.map(str::to_owned).collect()
}

/// Gives the password. Returns what stands for it.
pub(crate) async fn half_sign_in(browser: &mut Browser, name: &str) -> String {
    let page = browser.sign_in(name, PASSWORD).await.expect(200);
    assert!(browser.cookie.is_none(), "it is no session yet");
    between(&page, "name=\"ticket\" value=\"", "\"").to_owned()
}

pub(crate) async fn give(browser: &mut Browser, ticket: &str, code: &str) -> Answer {
    let fields = [("ticket", ticket), ("code", code)];
    browser.submit("/sign-in/code", &fields).await
}

async fn codes_left(running: &Running, actor: ActorId) -> u32 {
    let row: Actor = running
        .store
        .get_as(running.account(), actor)
        .await
        .unwrap();
    row.sign_in.unwrap().recovery_codes
}

#[tokio::test]
async fn an_app_is_confirmed_by_a_code_and_then_asked_for() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Owner).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let page = browser.submit("/me/second-factor", &[]).await.expect(200);
    assert!(page.text.contains("<svg class=\"drawing\" role=\"img\""));
    for part in ["style=", "src=\"http", "otpauth"] {
        assert!(!page.text.contains(part), "{part}");
    }
    // The portal's own script alone, which makes the button that copies the secret.
    let script = "<script src=\"/assets/console.js\" defer></script>";
    assert!(page.text.contains(script), "{}", page.text);
    assert_eq!(page.text.matches("<script").count(), 1);
    let mut app = secret_of(&page);

    // A secret that nobody confirmed counts for nothing.
    let wrong = [("code", &*app.wrong())];
    let again = browser.submit("/me/second-factor/confirm", &wrong).await;
    let again = again.expect(422);
    // The picture and the secret stay for the next code.
    let picture = |page: &Answer| between(page, "<svg class=\"drawing\"", "</svg>").to_owned();
    assert_eq!(picture(&again), picture(&page));
    assert_eq!(secret_of(&again).secret, app.secret);
    assert!(again.text.contains("aria-invalid=\"true\""));
    let mut other = Browser::open(&running).await;
    other.sign_in(&name, PASSWORD).await.expect(303);
    let codes = confirm(&mut browser, &mut app).await;
    assert_eq!(codes.len(), 10);
    let again = [("code", &*app.again())];
    let page = browser.submit("/me/second-factor/confirm", &again).await;
    page.expect(409);

    // The code that confirmed it is used up.
    let mut browser = Browser::open(&running).await;
    let ticket = half_sign_in(&mut browser, &name).await;
    for code in [
        &*app.again(),
        &*app.wrong(),
        "",
        "not a code at all",
        "aaaa-bbbb-cccc-dddd",
    ] {
        let refused = give(&mut browser, &ticket, code).await;
        assert!([401, 422].contains(&refused.status.as_u16()), "{code}");
        assert!(browser.cookie.is_none(), "{code}");
    }
    let ticket = half_sign_in(&mut browser, &name).await;
    give(&mut browser, &ticket, &app.code()).await.expect(303);
    assert!(browser.cookie.is_some());
    let mut replayer = Browser::open(&running).await;
    give(&mut replayer, &ticket, &app.again()).await.expect(401);
    let ticket = half_sign_in(&mut replayer, &name).await;
    give(&mut replayer, &ticket, &app.again()).await.expect(422);

    // The secret and the codes are nowhere any more.
    let secret = data_encoding::BASE32_NOPAD.encode(&app.secret);
    let mut shown = String::new();
    for path in ["/me", "/me/second-factor", "/people", "/log/changes"] {
        shown += &browser.get(path).await.expect(200).text;
    }
    let mut owner = running.owner().await;
    for path in [&*format!("/api/v1/actors/{actor}"), "/api/v1/log/changes"] {
        shown += &owner.get(path).await.text;
    }
    assert!(shown.contains("second_factor"), "but that there is one");
    for hidden in codes.iter().chain([&secret, &ticket]) {
        assert!(!shown.contains(&**hidden));
    }
}

#[tokio::test]
async fn a_recovery_code_stands_in_for_the_app_once() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Auditor).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (_, codes) = enrol(&mut browser).await;
    let mut other = Browser::open(&running).await;
    let ticket = half_sign_in(&mut other, &name).await;
    let typed = codes[3].to_uppercase().replace('-', " ");
    give(&mut other, &ticket, &typed).await.expect(303);
    assert_eq!(codes_left(&running, actor).await, 9);
    let mut again = Browser::open(&running).await;
    let ticket = half_sign_in(&mut again, &name).await;
    give(&mut again, &ticket, &codes[3]).await.expect(422);

    let new = browser.submit("/me/recovery-codes", &[]).await.expect(200);
    let new = recovery_codes(&new);
    assert_eq!(codes_left(&running, actor).await, 10);
    give(&mut again, &ticket, &codes[4]).await.expect(422);
    give(&mut again, &ticket, &new[4]).await.expect(303);
}

#[tokio::test]
async fn guesses_end_the_attempt_and_then_all_attempts() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    // Confirming it is the first of ten attempts.
    let (mut app, _) = enrol(&mut browser).await;
    let mut guesser = Browser::open(&running).await;
    let ticket = half_sign_in(&mut guesser, &name).await;
    for _ in 0..5 {
        give(&mut guesser, &ticket, &app.wrong()).await.expect(422);
    }
    give(&mut guesser, &ticket, &app.code()).await.expect(401);
    let ticket = half_sign_in(&mut guesser, &name).await;
    for _ in 0..4 {
        give(&mut guesser, &ticket, &app.wrong()).await.expect(422);
    }
    let refused = give(&mut guesser, &ticket, &app.again()).await.expect(429);
    assert!(!refused.header("retry-after").is_empty());
    assert!(guesser.cookie.is_none());
}

#[tokio::test]
async fn a_password_that_changed_is_no_half_of_signing_in() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, _) = enrol(&mut browser).await;
    let mut late = Browser::open(&running).await;
    let ticket = half_sign_in(&mut late, &name).await;
    let body = json!({"role": "admin", "password": PASSWORD});
    let path = format!("/api/v1/actors/{actor}/sign-in");
    running.owner().await.post(&path, body).await.expect(200);
    give(&mut late, &ticket, &app.code()).await.expect(401);
    // Another password does not get past the second factor.
    half_sign_in(&mut late, &name).await;
    // Nor does a ticket that nobody gave out.
    give(&mut late, "", &app.again()).await.expect(401);
}

/// The last change of the account.
async fn seq(running: &Running) -> Seq {
    let snapshot = running.store.snapshot(running.account()).await;
    snapshot.unwrap().seq
}

#[tokio::test]
async fn who_must_have_a_second_factor_gets_one_before_anything_else() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut user = signed_in(&running, Role::User).await;
    let mut before = Browser::open(&running).await;
    before.sign_in(&name, PASSWORD).await.expect(303);
    let form_token = before.form_token().await;
    let mut owner = running.owner().await;
    let rule = json!({"second_factor": "administrators"});
    owner.patch("/api/v1/account", "*", rule).await.expect(200);
    user.get("/clients").await.expect(200);

    let mut after = Browser::open(&running).await;
    after.sign_in(&name, PASSWORD).await.expect(303);
    for browser in [&mut before, &mut after] {
        for path in ["/", "/me", "/sites", "/people", "/clients", "/log/changes"] {
            let led = browser.get(path).await.expect(303);
            assert_eq!(led.header("location"), "/me/second-factor", "{path}");
            // The request that a page's script sends belongs to the same person.
            let led = browser.send("GET", path, LIVE, None).await.expect(303);
            assert_eq!(led.header("location"), "/me/second-factor", "{path}");
        }
        browser.get("/live?since=0").await.expect(403);
    }
    let unchanged = seq(&running).await;
    for header in ["x-culvert-live", "x-nothing"] {
        let origin = format!("https://{}", before.client.host);
        let headers = [("origin", &*origin), (header, "1")];
        let form = encode(&form_token, &[("name", "x")]);
        let led = before.send("POST", "/sites", &headers, Some(form)).await;
        assert_eq!(led.expect(303).header("location"), "/me/second-factor");
    }
    assert_eq!(seq(&running).await, unchanged);
    for path in [
        "/sites",
        "/me/password",
        "/me/recovery-codes",
        "/people/second-factor",
    ] {
        let fields = [("name", "x"), ("second_factor", "off"), ("version", "2")];
        let led = before.submit_with(path, &form_token, &fields).await;
        assert_eq!(led.expect(303).header("location"), "/me/second-factor");
    }
    let page = before.get("/me/second-factor").await.expect(200);
    assert!(page.text.contains("asks for a second factor"));

    let page = before
        .submit_with("/me/second-factor", &form_token, &[])
        .await;
    let mut app = secret_of(&page.expect(200));
    confirm(&mut before, &mut app).await;
    before.get("/sites").await.expect(200);
    after.get("/sites").await.expect(200);
    // And it stays.
    let page = before.submit("/me/second-factor/remove", &[]).await;
    assert_eq!(page.status, 409);

    let rule = json!({"second_factor": "everybody"});
    owner.patch("/api/v1/account", "*", rule).await.expect(200);
    user.get("/clients").await.expect(303);
    let rule = json!({"second_factor": "off"});
    owner.patch("/api/v1/account", "*", rule).await.expect(200);
    user.get("/clients").await.expect(200);
    let page = before.submit("/me/second-factor/remove", &[]).await;
    page.expect(303);
    Browser::open(&running)
        .await
        .sign_in(&name, PASSWORD)
        .await
        .expect(303);
}

#[tokio::test]
async fn a_lost_factor_is_taken_away_by_those_who_may_and_in_this_account() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Owner).await;
    let mut lost = Browser::open(&running).await;
    lost.sign_in(&name, PASSWORD).await.expect(303);
    enrol(&mut lost).await;
    let path = format!("/api/v1/actors/{actor}/second-factor");
    let other = other_account(running.store.as_ref()).await;
    let stranger = api_token(running.store.as_ref(), other, Role::Owner).await;
    let mut stranger = running.client().await.with(&stranger);
    stranger.delete(&path).await.problem(404);
    for role in [Role::User, Role::Auditor, Role::Admin] {
        let mut client = running.with_role(role).await;
        client.delete(&path).await.problem(403);
    }
    let mut admin = signed_in(&running, Role::Admin).await;
    let form = format!("/people/{actor}/reset-second-factor");
    admin.submit(&form, &[]).await.expect(403);
    lost.get("/me").await.expect(200);

    let mut owner = signed_in(&running, Role::Owner).await;
    let page = owner.get(&format!("/people/{actor}")).await.expect(200);
    assert!(page.text.contains(&form));
    owner.submit(&form, &[]).await.expect(303);
    lost.get("/me").await.expect(303);
    lost.cookie = None;
    lost.sign_in(&name, PASSWORD).await.expect(303);
    let log = running.owner().await.get("/api/v1/log/changes").await;
    assert!(log.expect(200).text.contains("second_factor"));
}

#[tokio::test]
async fn sessions_end_one_by_one_and_nobody_elses_do() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::User).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let mut second = Browser::open(&running).await;
    second.sign_in(&name, PASSWORD).await.expect(303);
    let mut third = Browser::open(&running).await;
    third.sign_in(&name, PASSWORD).await.expect(303);
    let id = |browser: &Browser| {
        let token = browser.cookie.clone().unwrap();
        let token = token.split_once('=').unwrap().1.parse::<Token>().unwrap();
        token.bearer.id
    };
    let mut foreign = signed_in(&running, Role::Owner).await;
    let ending = |id: TokenId| format!("/me/sessions/{id}/end");
    for path in [
        ending(id(&foreign)),
        ending(TokenId::new(UnixTime::EPOCH, birth().1)),
    ] {
        browser.submit(&path, &[]).await.expect(404);
    }
    let scope = TokenScope::Client { actor };
    let (client, _) = make_token(running.store.as_ref(), running.account(), scope).await;
    browser.submit(&ending(client), &[]).await.expect(404);
    foreign.get("/me").await.expect(200);

    browser.submit(&ending(id(&second)), &[]).await.expect(303);
    second.get("/me").await.expect(303);
    third.get("/me").await.expect(200);
    browser
        .submit("/me/sessions/end-others", &[])
        .await
        .expect(303);
    third.get("/me").await.expect(303);
    browser.get("/me").await.expect(200);
}

#[tokio::test]
async fn who_signs_in_with_a_password_has_sixteen_sessions_and_loses_the_oldest() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::User).await;
    let mut browsers = Vec::new();
    for _ in 0..17 {
        let mut browser = Browser::open(&running).await;
        browser.sign_in(&name, PASSWORD).await.expect(303);
        browsers.push(browser);
    }
    let mut statuses = Vec::new();
    for browser in &mut browsers {
        statuses.push(browser.get("/me").await.status.as_u16());
    }
    let signed_out = statuses.iter().filter(|status| **status == 303);
    assert_eq!(signed_out.count(), 1, "{statuses:?}");
    assert_eq!(statuses[0], 303, "the oldest");
}

/// The store denies a step that was used, whichever portal asks: two browsers with one code are one.
#[tokio::test]
async fn one_code_of_two_browsers_at_once_begins_one_session() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, _) = enrol(&mut browser).await;
    let (mut one, mut other) = (Browser::open(&running).await, Browser::open(&running).await);
    let first = half_sign_in(&mut one, &name).await;
    let second = half_sign_in(&mut other, &name).await;
    let code = app.code();
    let (one, other) = tokio::join!(
        give(&mut one, &first, &code),
        give(&mut other, &second, &code)
    );
    let mut statuses = [one.status.as_u16(), other.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 422]);
    let change = FactorChange::UseStep {
        secret: SecretBytes::new(app.secret.clone()),
        step: app.shown,
    };
    let replay = vec![Mutation::ChangeFactor { actor, change }];
    let account = running.account();
    let replay = running.store.write(account, Author::PORTAL, now(), replay);
    assert!(replay.await.is_err());
}

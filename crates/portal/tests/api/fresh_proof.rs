//! A fresh proof before acts that give access or weaken a proof (docs/sign-in.md).

use crate::authenticator::Authenticator;
use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::console_routes::{is_before_signing_in, no_such, routes_with};
use crate::factors::enrol;
use crate::passkeys::{self, HOST, ORIGIN};
use crate::support::{Answer, Running, make_token_at, now};
use culvert_ids::ActorId;
use culvert_store::{ListFilter, PageLimit, Provider, Role, StoreExt, TokenScope};
use culvert_wire::Timestamp;

/// Forms that wait for a fresh proof.
const ASKING: [&str; 30] = [
    "/clients/new",
    "/clients/selected",
    "/clients/{id}/verify",
    "/device/approve",
    "/first-steps",
    "/gateways/new",
    "/gateways/{id}/verify",
    "/me/link",
    "/me/passkeys",
    "/me/passkeys/{handle}/remove",
    "/me/password",
    "/me/recovery-codes",
    "/me/second-factor",
    "/me/second-factor/remove",
    "/people/invitations/new",
    "/people/second-factor",
    "/people/{id}/invitation",
    "/people/{id}/link",
    "/people/{id}/reset-second-factor",
    "/people/{id}/sign-in",
    "/people/{id}/token",
    "/relays/new",
    "/settings/providers",
    "/settings/providers/{id}",
    "/settings/providers/{id}/delete",
    "/settings/tokens",
    "/settings/verified-gateways",
    "/sites/{id}/token",
    "/wireguard/new",
    "/wireguard/{id}/key",
];

/// A browser in which the actor was proven so many minutes ago.
pub(crate) async fn proven_before(running: &Running, actor: ActorId, minutes: u64) -> Browser {
    let mut browser = Browser::open(running).await;
    let at = Timestamp::from_unix_ms(now().unix_ms() - minutes * 60_000);
    let scope = TokenScope::Session { actor };
    let store = running.store.as_ref();
    let (_, secret) = make_token_at(store, running.account(), scope, at).await;
    browser.cookie = Some(format!("__Host-culvert={secret}"));
    browser
}

/// The ticket of a form that waits, from the answer to it.
#[track_caller]
pub(crate) fn waiting(answer: Answer) -> String {
    let answer = answer.expect(303);
    let at = answer.header("location");
    let ticket = at.strip_prefix("/confirm?form=");
    ticket
        .unwrap_or_else(|| panic!("it leads to {at}"))
        .to_owned()
}

/// The hidden fields of the form on a page that goes to `path`, as a browser would send them.
pub(crate) fn hidden(page: &Answer, path: &str) -> Vec<(String, String)> {
    let (_, form) = page
        .text
        .split_once(&format!("action=\"{path}\""))
        .unwrap_or_else(|| panic!("no form to {path}: {}", page.text));
    let form = form.split("</form>").next().unwrap();
    let plain = |text: &str| {
        let known = [
            ("&#38;", "&"),
            ("&#60;", "<"),
            ("&#62;", ">"),
            ("&#34;", "\""),
            ("&#39;", "'"),
        ];
        known
            .iter()
            .rev()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = inputs.map(|input| {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        (plain(name), plain(rest.split('"').next().unwrap()))
    });
    fields.filter(|(name, _)| name != "form_token").collect()
}

/// Sends a form that waited from the page that has it.
pub(crate) async fn send_waiting(browser: &mut Browser, ticket: &str, path: &str) -> Answer {
    let page = browser.get(&format!("/confirm/done?form={ticket}")).await;
    let fields = hidden(&page.expect(200), path);
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    browser.submit(path, &fields).await
}

async fn prove(browser: &mut Browser, ticket: &str, fields: &[(&str, &str)]) -> Answer {
    let mut all = vec![("form", ticket)];
    all.extend(fields);
    browser.submit("/confirm/password", &all).await
}

#[tokio::test]
async fn acts_that_give_access_or_weaken_a_proof_wait_for_a_fresh_one_and_no_others_do() {
    let running = Running::start().await;
    let (actor, _) = person(&running, Role::Owner).await;
    let routes = routes_with(no_such);
    let forms = routes
        .iter()
        .filter(|route| route.is_form && !is_before_signing_in(&route.path));
    let mut asking = 0;
    for (number, route) in forms.enumerate() {
        for (minutes, is_old) in [(9, false), (11, true)] {
            // Some of them end the session.
            let mut browser = proven_before(&running, actor, minutes).await;
            browser.client = running.client_at(u8::try_from(number % 200).unwrap()).await;
            let answer = browser.submit(&route.path, &[("name", "x")]).await;
            let location = answer.headers.get("location");
            let led = location.is_some_and(|at| at.as_bytes().starts_with(b"/confirm?form="));
            let waits = ASKING.contains(&&*route.template);
            assert_eq!(
                led,
                is_old && waits,
                "{} after {minutes} min: {answer:?}",
                route.template
            );
            asking += usize::from(led);
        }
    }
    assert_eq!(asking, ASKING.len());
}

#[tokio::test]
async fn a_form_that_waited_for_a_fresh_proof_is_sent_as_it_was_filled_in() {
    let running = Running::start().await;
    let (actor, _) = person(&running, Role::Owner).await;
    let mut browser = proven_before(&running, actor, 11).await;
    let secret = "s3cret & <b>\"'+% ü";
    let fields = [
        ("name", "Example & <Söhne>"),
        ("issuer", "https://id.example"),
        ("client_id", "culvert"),
        ("client_secret", secret),
        ("ca", ""),
        ("scopes", "profile\nemail"),
        ("unknown_people", "refuse"),
    ];
    let ticket = waiting(browser.submit("/settings/providers", &fields).await);
    let page = browser
        .get(&format!("/confirm?form={ticket}"))
        .await
        .expect(200);
    assert!(!page.text.contains("s3cret"), "nothing is shown before");
    // Not without the proof, and in no other session.
    let done = format!("/confirm/done?form={ticket}");
    browser.get(&done).await.expect(303);
    let mut other = signed_in(&running, Role::Owner).await;
    let page = other.get(&done).await.expect(200);
    assert!(!page.text.contains("s3cret") && page.text.contains("No form waits"));
    let mut own = proven_before(&running, actor, 1).await;
    let page = own.get(&done).await.expect(200);
    assert!(
        !page.text.contains("s3cret"),
        "another session of the same person"
    );

    let right = prove(&mut browser, &ticket, &[("current", PASSWORD)]).await;
    assert_eq!(right.expect(303).header("location"), done);
    let page = browser.get(&done).await.expect(200);
    let sent = hidden(&page, "/settings/providers");
    let expected: Vec<_> = fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(sent, expected);
    send_waiting(&mut browser, &ticket, "/settings/providers")
        .await
        .expect(303);
    let filter = ListFilter::default();
    let store = &running.store;
    let all = store.list_as::<Provider>(running.account(), &filter, None, PageLimit::MAX);
    let made = all.await.unwrap().items.pop().unwrap();
    assert_eq!(made.name, "Example & <Söhne>");
    let stored = running
        .store
        .provider_secret(running.account(), made.id)
        .await
        .unwrap();
    assert_eq!(stored.unwrap().expose(), secret.as_bytes());
}

#[tokio::test]
async fn who_has_a_second_factor_proves_it_too_and_each_code_once() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut before = Browser::open(&running).await;
    before.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, codes) = enrol(&mut before).await;
    let mut browser = proven_before(&running, actor, 11).await;
    let ticket = waiting(browser.submit("/me/recovery-codes", &[]).await);
    let code = app.code();
    for wrong in [
        vec![("current", PASSWORD)],
        vec![("current", PASSWORD), ("code", "000-000")],
        vec![("current", "wrong horse battery"), ("code", &code)],
        vec![("code", &code)],
    ] {
        prove(&mut browser, &ticket, &wrong).await.expect(422);
        browser
            .get(&format!("/confirm/done?form={ticket}"))
            .await
            .expect(303);
    }
    let right = [("current", PASSWORD), ("code", &*code)];
    prove(&mut browser, &ticket, &right).await.expect(303);
    prove(&mut browser, &ticket, &right).await.expect(422);
    let recovery = [("current", PASSWORD), ("code", &*codes[0])];
    prove(&mut browser, &ticket, &recovery).await.expect(303);
    prove(&mut browser, &ticket, &recovery).await.expect(422);
    let made = send_waiting(&mut browser, &ticket, "/me/recovery-codes").await;
    made.expect(200);
}

#[tokio::test]
async fn a_session_and_the_password_set_no_new_password_without_the_second_factor() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Admin).await;
    let mut before = Browser::open(&running).await;
    before.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, _) = enrol(&mut before).await;
    let mut browser = proven_before(&running, actor, 11).await;
    let new = "a longer one than that";
    let fields = [("current", PASSWORD), ("password", new), ("again", new)];
    let ticket = waiting(browser.submit("/me/password", &fields).await);
    prove(&mut browser, &ticket, &[("current", PASSWORD)])
        .await
        .expect(422);
    // A correct password leads to the question for the code.
    let mut late = Browser::open(&running).await;
    late.sign_in(&name, PASSWORD).await.expect(200);
    late.sign_in(&name, new).await.expect(401);

    let code = app.code();
    let right = [("current", PASSWORD), ("code", &*code)];
    prove(&mut browser, &ticket, &right).await.expect(303);
    let changed = send_waiting(&mut browser, &ticket, "/me/password").await;
    assert_eq!(changed.expect(303).header("location"), "/me");
    late.sign_in(&name, PASSWORD).await.expect(401);
    late.sign_in(&name, new).await.expect(200);
}

#[tokio::test]
async fn a_passkey_of_the_person_is_a_fresh_proof_in_the_session_that_asked() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start_as(dir, Some(ORIGIN)).await;
    let at_host = async |mut browser: Browser| {
        HOST.clone_into(&mut browser.client.host);
        browser
    };
    let (actor, name) = person(&running, Role::Admin).await;
    let mut before = at_host(Browser::open(&running).await).await;
    before.sign_in(&name, PASSWORD).await.expect(303);
    let phone = Authenticator::new(b"phone", ORIGIN);
    passkeys::add(&mut before, &phone, |_| {}).await.expect(200);
    let (other, other_name) = person(&running, Role::Admin).await;
    let mut foreign = at_host(Browser::open(&running).await).await;
    foreign.sign_in(&other_name, PASSWORD).await.expect(303);
    let foreign_phone = Authenticator::new(b"foreign", ORIGIN);
    passkeys::add(&mut foreign, &foreign_phone, |_| {})
        .await
        .expect(200);
    assert_ne!(actor, other);

    let mut browser = at_host(proven_before(&running, actor, 11).await).await;
    let ticket = waiting(browser.submit("/me/recovery-codes", &[]).await);
    let at = format!("/confirm?form={ticket}");
    let give = async |browser: &mut Browser, credential: &str| {
        let fields = [("form", &*ticket), ("credential", credential)];
        browser.submit("/confirm/passkey", &fields).await
    };
    // A question of another session, and the passkey of another person.
    let mut second = at_host(proven_before(&running, actor, 11).await).await;
    let page = second.get(&at).await.expect(200);
    let question = passkeys::question(&page, "get");
    let other_origin = phone.sign(passkeys::challenge(&question), |_| {});
    give(&mut browser, &other_origin).await.expect(422);
    let page = browser.get(&at).await.expect(200);
    let question = passkeys::question(&page, "get");
    let anothers = foreign_phone.sign(passkeys::challenge(&question), |_| {});
    give(&mut browser, &anothers).await.expect(422);
    browser
        .get(&format!("/confirm/done?form={ticket}"))
        .await
        .expect(303);

    let own = phone.sign(passkeys::challenge(&question), |_| {});
    give(&mut browser, &own).await.expect(303);
    give(&mut browser, &own).await.expect(422);
    send_waiting(&mut browser, &ticket, "/me/recovery-codes")
        .await
        .expect(200);
}

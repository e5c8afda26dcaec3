//! Invitations: a link by which a person sets a password, once.

use crate::browser::{Browser, PASSWORD, fresh, person, signed_in};
use crate::factors::enrol;
use crate::support::{Answer, Client, Running, make_actor, make_token};
use culvert_ids::ActorId;
use culvert_store::{ActorKind, Role, TokenScope};
use serde_json::{Value, json};

const CHOSEN: &str = "battery staple horse";

/// The line of a link that is not good.
const NOT_VALID: &str = "This link is not valid.";

async fn made(owner: &mut Client, path: &str, body: Value) -> Value {
    owner.post(path, body).await.expect(201).json()
}

/// Invites a person: the id, the name and the path of the link.
async fn invited(owner: &mut Client, role: &str) -> (String, String, String) {
    let name = fresh("person");
    let body = json!({"name": name, "role": role});
    let issued = made(owner, "/api/v1/invitations", body).await;
    let id = issued["actor"]["id"].as_str().unwrap().to_owned();
    (id, name, path_of(&issued))
}

fn path_of(issued: &Value) -> String {
    let link = issued["link"].as_str().unwrap();
    let at = link.find("/invitation/").unwrap();
    assert!(link.starts_with("https://"), "{link}");
    link[at..].to_owned()
}

async fn accept(browser: &mut Browser, path: &str, password: &str) -> Answer {
    let link = path.strip_prefix("/invitation/").unwrap();
    let fields = [("link", link), ("password", password), ("again", password)];
    browser.submit_with("/invitation", "", &fields).await
}

fn assert_not_valid(answer: &Answer) {
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.text.contains(NOT_VALID), "{answer:?}");
}

#[tokio::test]
async fn a_person_is_invited_with_role_and_groups_and_signs_in_by_the_link() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = made(&mut owner, "/api/v1/groups", json!({"name": "staff"})).await;
    let mut admin = signed_in(&running, Role::Admin).await;
    let page = admin.get("/people").await.expect(200);
    assert!(
        page.text.contains("href=\"/people/invitations/new\""),
        "{page:?}"
    );
    let page = admin.get("/people/invitations/new").await.expect(200);
    let boxed = format!("groups.{}", group["id"].as_str().unwrap());
    assert!(page.text.contains(&boxed), "{page:?}");

    let name = "Grace Hopper";
    let fields = [("name", name), ("role", "auditor"), (&*boxed, "yes")];
    let page = admin
        .submit("/people/invitations/new", &fields)
        .await
        .expect(200);
    let (_, rest) = page.text.split_once("/invitation/").unwrap();
    let link = format!("/invitation/{}", rest.split('<').next().unwrap());
    assert!(
        page.text.contains("data-once"),
        "a reload sends nothing again"
    );
    let list = admin
        .get("/people?search=Grace&state=invited")
        .await
        .expect(200);
    assert!(list.text.contains("invited until"), "{list:?}");

    let mut browser = Browser::open(&running).await;
    // Programs open links of mails: that changes nothing.
    for method in ["GET", "HEAD", "GET"] {
        let page = browser.send(method, &link, &[], None).await.expect(200);
        // The path of the page is told to nobody.
        assert_eq!(page.header("referrer-policy"), "strict-origin");
        assert_eq!(page.header("cache-control"), "no-store");
    }
    let page = browser.get(&link).await.expect(200);
    assert!(page.text.contains(name), "{page:?}");
    let answer = accept(&mut browser, &link, CHOSEN).await.expect(303);
    assert_eq!(answer.header("location"), "/");
    browser.get("/people").await.expect(200);
    let members = format!("/api/v1/groups/{}/members", group["id"].as_str().unwrap());
    let members = owner.get(&members).await.expect(200).json();
    assert_eq!(members["items"][0]["actor_name"], name);

    // The link is used up, and the password is the one that was chosen.
    let mut other = Browser::open(&running).await;
    assert_not_valid(&other.get(&link).await);
    assert_not_valid(&accept(&mut other, &link, "another staple horse").await);
    other.sign_in(name, CHOSEN).await.expect(303);
    let list = admin.get("/people?search=Grace").await.expect(200);
    assert!(
        list.text.contains("Grace") && !list.text.contains("invited until"),
        "{list:?}"
    );
    let list = admin
        .get("/people?search=Grace&state=invited")
        .await
        .expect(200);
    assert!(!list.text.contains("Grace Hopper</a>"), "{list:?}");
}

#[tokio::test]
async fn a_link_that_is_used_ended_withdrawn_or_unknown_is_answered_alike() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut browser = Browser::open(&running).await;
    let (_, _, used) = invited(&mut owner, "user").await;
    accept(&mut browser, &used, CHOSEN).await.expect(303);

    let (withdrawn_id, _, withdrawn) = invited(&mut owner, "user").await;
    let at = format!("/api/v1/actors/{withdrawn_id}/invitation");
    let row = owner.delete(&at).await.expect(200).json();
    assert_eq!(row["sign_in"]["invitation_ends"], Value::Null);

    let (replaced_id, _, replaced) = invited(&mut owner, "user").await;
    let at = format!("/api/v1/actors/{replaced_id}/invitation");
    made(&mut owner, &at, json!({})).await;

    let (disabled_id, _, disabled) = invited(&mut owner, "user").await;
    let at = format!("/api/v1/actors/{disabled_id}");
    let body = json!({"disabled": true});
    owner.patch(&at, "*", body).await.expect(200);

    let (promoted_id, _, promoted) = invited(&mut owner, "user").await;
    let at = format!("/api/v1/actors/{promoted_id}/sign-in");
    owner.post(&at, json!({"role": "admin"})).await.expect(200);

    let (gone_id, _, gone) = invited(&mut owner, "user").await;
    let at = format!("/api/v1/actors/{gone_id}");
    owner.delete(&at).await.expect(204);

    let mut wrong = replaced.clone();
    let last = if wrong.ends_with('A') { "B" } else { "A" };
    wrong.replace_range(wrong.len() - 4..wrong.len() - 3, last);
    let mut texts = Vec::new();
    let ten_thousand = format!("/invitation/{}", "x".repeat(10_000));
    for (number, path) in [
        &*used,
        &withdrawn,
        &replaced,
        &disabled,
        &promoted,
        &gone,
        &wrong,
        "/invitation/x",
        "/invitation/%E2%80%AE%E2%80%8B",
        "/invitation/%3Cscript%3E",
        "/invitation/%00",
    ]
    .into_iter()
    .enumerate()
    {
        let mut browser = Browser::open(&running).await;
        browser.client = running.client_at(u8::try_from(number).unwrap() + 1).await;
        let answer = browser.get(path).await;
        assert_not_valid(&answer);
        texts.push(answer.text);
        if let Some(link) = path.strip_prefix("/invitation/") {
            let fields = [("link", link), ("password", CHOSEN), ("again", CHOSEN)];
            let answer = browser.submit_with("/invitation", "", &fields).await;
            assert_not_valid(&answer);
            texts.push(answer.text);
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    let too_long = browser.get(&ten_thousand).await;
    assert!(too_long.status.is_client_error(), "{too_long:?}");
}

#[tokio::test]
async fn of_two_browsers_that_use_one_link_at_once_exactly_one_wins() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for _ in 0..4 {
        let (_, name, link) = invited(&mut owner, "user").await;
        let mut one = Browser::open(&running).await;
        let mut other = Browser::open(&running).await;
        let passwords = ["first staple horse", "second staple horse"];
        let (first, second) = tokio::join!(
            accept(&mut one, &link, passwords[0]),
            accept(&mut other, &link, passwords[1]),
        );
        let statuses = [first.status.as_u16(), second.status.as_u16()];
        let winner = match statuses {
            [303, 404] => 0,
            [404, 303] => 1,
            statuses => panic!("{statuses:?}"),
        };
        let mut browser = Browser::open(&running).await;
        browser
            .sign_in(&name, passwords[1 - winner])
            .await
            .expect(401);
        browser.sign_in(&name, passwords[winner]).await.expect(303);
    }
}

#[tokio::test]
async fn a_new_link_replaces_a_forgotten_password_when_it_is_used_and_ends_the_sessions() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::Auditor).await;
    let mut before = Browser::open(&running).await;
    before.sign_in(&name, PASSWORD).await.expect(303);
    enrol(&mut before).await;
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{actor}/invitation");
    let issued = made(&mut owner, &at, json!({})).await;
    let link = path_of(&issued);
    // Until then nothing changes.
    before.get("/people").await.expect(200);
    let mut browser = Browser::open(&running).await;
    let page = browser.get(&link).await.expect(200);
    assert!(page.text.contains("A new password for"), "{page:?}");
    // The second factor stays: the link alone begins no session.
    let page = accept(&mut browser, &link, CHOSEN).await.expect(200);
    assert!(page.text.contains("action=\"/sign-in/code\""), "{page:?}");
    assert_eq!(browser.cookie, None);
    before.get("/people").await.expect(303);
    browser.sign_in(&name, PASSWORD).await.expect(401);
    let log = owner.get("/api/v1/log/changes").await.expect(200).text;
    let secret = link.strip_prefix("/invitation/").unwrap();
    assert!(log.contains("invitation_ends"), "{log}");
    assert!(!log.contains(secret) && !log.contains(CHOSEN), "{log}");
}

#[tokio::test]
async fn nobody_invites_above_their_own_role() {
    let running = Running::start().await;
    let (owner_id, _) = person(&running, Role::Owner).await;
    let (user_id, _) = person(&running, Role::User).await;
    for (by, role, status) in [
        (Role::User, "user", 403),
        (Role::Auditor, "user", 403),
        (Role::Admin, "owner", 403),
        (Role::Admin, "admin", 201),
        (Role::Owner, "owner", 201),
    ] {
        let mut caller = running.with_role(by).await;
        let body = json!({"name": fresh("new"), "role": role});
        let answer = caller.post("/api/v1/invitations", body).await;
        assert_eq!(answer.status.as_u16(), status, "{by:?} {role}: {answer:?}");
    }
    let mut admin = running.with_role(Role::Admin).await;
    let of_owner = format!("/api/v1/actors/{owner_id}/invitation");
    admin.post(&of_owner, json!({})).await.problem(403);
    admin.delete(&of_owner).await.problem(403);
    let of_user = format!("/api/v1/actors/{user_id}/invitation");
    // A link leaves the role of a person who signs in.
    let body = json!({"role": "admin"});
    admin.post(&of_user, body).await.problem(422);
    admin.post(&of_user, json!({})).await.expect(201);
    // A machine does not sign in.
    let body = json!({"kind": "service_account", "name": "ci"});
    let machine = made(&mut admin, "/api/v1/actors", body).await;
    let at = format!(
        "/api/v1/actors/{}/invitation",
        machine["id"].as_str().unwrap()
    );
    admin.post(&at, json!({})).await.problem(409);
}

#[tokio::test]
async fn a_link_made_for_one_role_sets_no_password_for_another() {
    let running = Running::start().await;
    let mut admin = running.with_role(Role::Admin).await;
    let (id, name, link) = invited(&mut admin, "user").await;
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{id}/sign-in");
    owner.post(&at, json!({"role": "owner"})).await.expect(200);
    let mut browser = Browser::open(&running).await;
    assert_not_valid(&accept(&mut browser, &link, CHOSEN).await);
    browser.sign_in(&name, CHOSEN).await.expect(401);
}

#[tokio::test]
async fn what_is_wrong_in_an_invitation_is_told_at_its_field_and_makes_nothing() {
    let running = Running::start().await;
    let mut admin = signed_in(&running, Role::Admin).await;
    let long = "x".repeat(10_000);
    let taken = fresh("taken");
    let fields = [("name", &*taken), ("role", "user")];
    admin
        .submit("/people/invitations/new", &fields)
        .await
        .expect(200);
    let before = running.store.snapshot(running.account()).await.unwrap().seq;
    for (name, role, group, status) in [
        ("", "user", "", 422),
        (&*long, "user", "", 422),
        ("a\u{202e}b", "user", "", 422),
        ("a\u{200b}b", "user", "", 422),
        ("ok", "king", "", 422),
        ("ok", "owner", "", 403),
        ("ok", "user", "groups.grp_00000000000000000000000000", 422),
        ("ok", "user", "groups.<script>", 422),
        (&taken.to_uppercase(), "user", "", 409),
    ] {
        let mut fields = vec![("name", name), ("role", role)];
        if !group.is_empty() {
            fields.push((group, "yes"));
        }
        let answer = admin.submit("/people/invitations/new", &fields).await;
        let at = format!("{:?} {role} {group}", name.get(..20).unwrap_or(name));
        assert_eq!(answer.status.as_u16(), status, "{at}");
        assert!(!answer.text.contains("<script>"), "{at}");
        assert!(!answer.text.contains("/invitation/"), "{at}");
    }
    // All wrong fields are named at once.
    let unknown = "groups.grp_00000000000000000000000000";
    let fields = [("name", ""), ("role", "king"), (unknown, "yes")];
    let page = admin
        .submit("/people/invitations/new", &fields)
        .await
        .expect(422);
    assert_eq!(page.text.matches("class=\"wrong\"").count(), 2, "{page:?}");
    let page = admin
        .submit("/people/invitations/new", &[("name", "")])
        .await;
    assert_eq!(page.expect(422).text.matches("class=\"wrong\"").count(), 2);
    let after = running.store.snapshot(running.account()).await.unwrap().seq;
    assert_eq!(before, after, "nothing was made");
    // HTML is a name like any other, and stays text.
    let html = "<b>bold</b>";
    let fields = [("name", html), ("role", "user")];
    let page = admin
        .submit("/people/invitations/new", &fields)
        .await
        .expect(200);
    assert!(!page.text.contains(html), "{page:?}");
}

#[tokio::test]
async fn a_password_that_is_refused_leaves_the_link_good() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let (_, name, path) = invited(&mut owner, "user").await;
    let link = path.strip_prefix("/invitation/").unwrap();
    let mut browser = Browser::open(&running).await;
    let long = "x".repeat(10_000);
    for (password, again) in [
        ("short", "short"),
        ("", ""),
        (CHOSEN, "another staple horse"),
        (&*long, &*long),
        (&*name, &*name),
    ] {
        let fields = [("link", link), ("password", password), ("again", again)];
        let page = browser.submit_with("/invitation", "", &fields).await;
        let page = page.expect(422);
        assert!(page.text.contains("Choose a password"), "{page:?}");
        assert!(!page.text.contains(CHOSEN) && !page.text.contains(&long));
    }
    browser.move_on(&running).await;
    accept(&mut browser, &path, CHOSEN).await.expect(303);
}

#[tokio::test]
async fn links_are_tried_at_the_pace_of_signing_in() {
    let running = Running::start().await;
    let mut browser = Browser::open(&running).await;
    let mut tried = 0;
    loop {
        let answer = browser.get("/invitation/guess").await;
        if answer.status == 429 {
            assert!(!answer.header("retry-after").is_empty());
            break;
        }
        assert_not_valid(&answer);
        tried += 1;
        assert!(tried <= 30, "nothing limits guesses");
    }
}

#[tokio::test]
async fn a_page_of_another_site_uses_up_no_link() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let (_, _, path) = invited(&mut owner, "user").await;
    let link = path.strip_prefix("/invitation/").unwrap();
    let mut browser = Browser::open(&running).await;
    let fields = [("link", link), ("password", CHOSEN), ("again", CHOSEN)];
    let body = crate::browser::encode("", &fields);
    let headers = [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ];
    let refused = browser
        .send("POST", "/invitation", &headers, Some(body))
        .await;
    assert_eq!(refused.status, 403, "{refused:?}");
    browser.get(&path).await.expect(200);
}

#[tokio::test]
async fn the_page_of_a_person_makes_a_new_link_and_withdraws_it() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::User).await;
    let mut admin = signed_in(&running, Role::Admin).await;
    let at = format!("/people/{actor}");
    let page = admin.get(&at).await.expect(200);
    assert!(!page.text.contains("Withdraw the link"), "{page:?}");
    let version = crate::console::version_on(&page.text);
    let new_link = format!("{at}/invitation");
    let page = admin.submit(&new_link, &[("version", &version)]).await;
    let page = page.expect(200);
    let (_, rest) = page.text.split_once("/invitation/").unwrap();
    let link = format!("/invitation/{}", rest.split('<').next().unwrap());
    // A page from before shows another version, and makes no link.
    let stale = admin.submit(&new_link, &[("version", &version)]).await;
    assert!(stale.status.is_client_error(), "{stale:?}");
    let mut browser = Browser::open(&running).await;
    let page = browser.get(&link).await.expect(200);
    assert!(page.text.contains("A new password for"), "{page:?}");

    let page = admin.get(&at).await.expect(200);
    assert!(
        page.text.contains("Link to set a password, until"),
        "{page:?}"
    );
    let withdrawn = admin.submit(&format!("{at}/withdraw"), &[]).await;
    assert_eq!(withdrawn.expect(303).header("location"), at);
    let page = admin.get(&at).await.expect(200);
    let done = format!("The link of {name} is withdrawn.");
    assert!(page.text.contains(&done), "{page:?}");
    assert_not_valid(&browser.get(&link).await);
    // The password that there was stays.
    browser.sign_in(&name, PASSWORD).await.expect(303);
}

/// An actor who has a token and does not sign in.
async fn by_token(running: &Running, role: Role) -> (ActorId, Client) {
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let scope = TokenScope::Api { actor, role };
    let (_, secret) = make_token(store, account, scope).await;
    (actor, running.client().await.with(&secret))
}

#[tokio::test]
async fn the_last_owner_who_has_a_token_alone_is_not_lowered_by_their_own_link() {
    let running = Running::start().await;
    let (actor, mut owner) = by_token(&running, Role::Owner).await;
    let at = format!("/api/v1/actors/{actor}/invitation");
    for body in [json!({}), json!({"role": "user"}), json!({"role": "admin"})] {
        owner.post(&at, body).await.problem(409);
    }
    owner.post(&at, json!({"role": "owner"})).await.expect(201);
    // The token still owns: admins invite no owners.
    invited(&mut owner, "owner").await;
}

#[tokio::test]
async fn a_link_lowers_the_tokens_of_an_admin_only_where_its_role_was_chosen() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let (actor, mut admin) = by_token(&running, Role::Admin).await;
    let at = format!("/api/v1/actors/{actor}/invitation");
    let refused = owner.post(&at, json!({})).await.problem(409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("API tokens as admin"), "{detail}");
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get(&format!("/people/{actor}")).await.expect(200);
    let version = crate::console::version_on(&page.text);
    let path = format!("/people/{actor}/invitation");
    let page = browser.submit(&path, &[("version", &version)]).await;
    let page = page.expect(409);
    assert!(page.text.contains("Let sign in"), "{page:?}");
    invited(&mut admin, "admin").await;
    owner.post(&at, json!({"role": "user"})).await.expect(201);
    let body = json!({"name": fresh("new"), "role": "user"});
    admin.post("/api/v1/invitations", body).await.problem(403);
}

#[tokio::test]
async fn too_many_names_of_groups_are_refused_in_one_line_at_their_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    // Of more than 50 groups, people write the names.
    for number in 0..51 {
        let body = json!({"name": format!("group {number}")});
        made(&mut owner, "/api/v1/groups", body).await;
    }
    let mut admin = signed_in(&running, Role::Admin).await;
    let names = "no such group\n".repeat(101);
    let fields = [("name", "Ada"), ("role", "user"), ("groups", &*names)];
    let page = admin.submit("/people/invitations/new", &fields).await;
    let page = page.expect(422);
    assert_eq!(page.text.matches("class=\"wrong\"").count(), 1, "{page:?}");
    assert!(page.text.contains("at most 100 groups"), "{page:?}");
}

#[tokio::test]
async fn thirty_people_behind_one_address_use_their_links() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for _ in 0..30 {
        let (_, _, path) = invited(&mut owner, "user").await;
        let mut browser = Browser::open(&running).await;
        browser.get(&path).await.expect(200);
        let link = path.strip_prefix("/invitation/").unwrap();
        let fields = [("link", link), ("password", "short"), ("again", "short")];
        let refused = browser.submit_with("/invitation", "", &fields).await;
        refused.expect(422);
        accept(&mut browser, &path, CHOSEN).await.expect(303);
    }
}

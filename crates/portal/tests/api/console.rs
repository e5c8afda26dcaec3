//! The console, page by page.

use crate::browser::{Browser, PASSWORD, fresh, person, signed_in};
use crate::support::{Running, enrol_client, enrol_gateway, make_actor};
use culvert_store::{ActorKind, ListFilter, PageLimit, Resource, Role, StoreExt, TokenScope};

#[tokio::test]
async fn the_first_start_makes_an_owner_who_is_signed_in() {
    let running = Running::start().await;
    let mut browser = Browser::open(&running).await;
    let front = browser.get("/").await.expect(303);
    assert_eq!(front.header("location"), "/set-up");
    let page = browser.get("/set-up").await.expect(200);
    let focused = page.text.split(" autofocus").collect::<Vec<_>>();
    assert!(focused.len() == 2 && focused[0].contains("name=\"token\""));
    assert!(!focused[0].contains("name=\"owner\""), "the first field");
    let sign_in = browser.get("/sign-in").await.expect(200);
    assert!(sign_in.text.contains("First start?"));
    let token = running.setup_token();
    let fields = |token, password, again| {
        vec![
            ("token", token),
            ("owner", "ada@corp.example"),
            ("account", "Corp"),
            ("password", password),
            ("again", again),
        ]
    };
    for (token, password, again, wrong) in [
        ("cv_setup_wrong", PASSWORD, PASSWORD, "not accepted"),
        (&*token, PASSWORD, "another one here", "not the same"),
        (&*token, "too short", "too short", "12 to 256"),
    ] {
        let fields = fields(token, password, again);
        let page = browser.submit("/set-up", &fields).await.expect(422);
        assert!(page.text.contains(wrong), "{wrong}: {}", page.text);
        assert!(page.text.contains("ada@corp.example"), "nothing is lost");
        assert!(!page.text.contains(PASSWORD) && !page.text.contains("too short\""));
        // The token stays in its own field, where nobody sees it, unless it is what is wrong.
        let stored = format!("name=\"token\" type=\"password\" value=\"{token}\"");
        let is_stored = wrong != "not accepted";
        assert_eq!(page.text.contains(&stored), is_stored, "{wrong}");
        assert_eq!(page.text.matches(token).count(), usize::from(is_stored));
    }
    // As it is printed, with the command around it.
    let printed = format!("echo '{token}' | culvert admin setup --token-file -");
    let fields = fields(&printed, PASSWORD, PASSWORD);
    let made = browser.submit("/set-up", &fields).await.expect(303);
    let cookie = made.header("set-cookie");
    assert!(cookie.starts_with("__Host-culvert=cv_session_"), "{cookie}");
    for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"));
    let page = browser.get("/").await.expect(200);
    assert!(page.text.contains("Overview") && page.text.contains("ada@corp.example"));

    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    assert_eq!(snapshot.account.name, "Corp");
    let api = |token: &&culvert_store::Token| matches!(token.scope, TokenScope::Api { .. });
    assert_eq!(snapshot.tokens.iter().filter(api).count(), 0);
    browser.submit("/set-up", &fields).await.expect(422);
    // It is the first start no more.
    let mut other = Browser::open(&running).await;
    let front = other.get("/").await.expect(303);
    assert_eq!(front.header("location"), "/sign-in");
    let sign_in = other.get("/sign-in").await.expect(200);
    assert!(!sign_in.text.contains("First start?"));
}

#[tokio::test]
async fn at_a_wrong_address_a_browser_gets_a_page_and_a_program_an_answer() {
    let running = Running::start().await;
    let mut auditor = signed_in(&running, Role::Auditor).await;
    let mut stranger = Browser::open(&running).await;
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for path in ["/nothing", "/sites/", "/people/x/y/z"] {
        let page = auditor.send("GET", path, &accept, None).await.expect(404);
        assert!(
            page.text.contains("<h1>There is nothing here</h1>"),
            "{path}"
        );
        assert!(page.text.contains("href=\"/policies\""), "{path}");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("form-action 'self'"), "{policy}");
        let page = stranger.send("GET", path, &accept, None).await.expect(404);
        assert!(
            page.text.contains("<h1>There is nothing here</h1>"),
            "{path}"
        );
        assert!(!page.text.contains("<nav"), "{path}");
        auditor.get(path).await.problem(404);
    }
    auditor
        .send("GET", "/api/v1/x", &accept, None)
        .await
        .problem(404);
    // The pages that there are say in the same way what is wrong, with the way on.
    let id = "site_00000000000000000000000000";
    let page = auditor.get(&format!("/sites/{id}")).await.expect(404);
    assert!(page.text.contains("href=\"/policies\""), "{}", page.text);
    // A person who may not send a form does not see it.
    let page = auditor.get("/resources/new").await.expect(403);
    assert!(!page.text.contains("form class=\"fields\"") && page.text.contains("<nav"));
}

#[tokio::test]
async fn nobody_learns_whether_name_or_password_was_wrong() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut texts = Vec::new();
    for (name, password) in [(&*name, "wrong horse battery"), ("nobody", PASSWORD)] {
        let mut browser = Browser::open(&running).await;
        let refused = browser.sign_in(name, password).await.expect(401);
        assert!(browser.cookie.is_none());
        texts.push(refused.text.replace(name, "NAME"));
    }
    assert_eq!(texts[0], texts[1]);
    let mut browser = Browser::open(&running).await;
    browser
        .sign_in(&name.to_uppercase(), PASSWORD)
        .await
        .expect(303);
}

#[tokio::test]
async fn guesses_are_slowed_down() {
    let running = Running::start().await;
    let mut browser = Browser::open(&running).await;
    let mut statuses = Vec::new();
    for at in 0..25 {
        let name = format!("guess {at}");
        statuses.push(browser.sign_in(&name, PASSWORD).await.status.as_u16());
    }
    assert_eq!(statuses[..20], [401; 20]);
    let refused = browser.sign_in("one more", PASSWORD).await.expect(429);
    assert!(!refused.header("retry-after").is_empty());
    assert!(refused.header("content-type").starts_with("text/html"));
}

#[tokio::test]
async fn who_knows_a_name_keeps_nobody_from_signing_in_where_they_did_before() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut known = Browser::open(&running).await;
    known.sign_in(&name, PASSWORD).await.expect(303);
    known.submit("/sign-out", &[]).await.expect(303);

    // From the same address, which is the worst case.
    let mut stranger = Browser::open(&running).await;
    guess_until_refused(&mut stranger, &name).await;
    let capitals = name.to_uppercase();
    known.sign_in(&capitals, PASSWORD).await.expect(303);
    // A known browser allows no more guesses than an unknown one.
    guess_until_refused(&mut known, &name).await;
}

/// One guess in ten seconds is given back meanwhile.
pub(crate) async fn guess_until_refused(browser: &mut Browser, name: &str) {
    for _ in 0..100 {
        let answer = browser.sign_in(name, "not the password").await;
        if answer.status == 429 {
            return;
        }
        answer.expect(401);
    }
    panic!("guesses are not limited");
}

#[tokio::test]
async fn signing_out_ends_the_session_and_everywhere_ends_all() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut first = Browser::open(&running).await;
    first.sign_in(&name, PASSWORD).await.expect(303);
    let mut second = Browser::open(&running).await;
    second.sign_in(&name, PASSWORD).await.expect(303);
    let stored = first.cookie.clone();
    let out = first.submit("/sign-out", &[]).await.expect(303);
    assert_eq!(out.header("location"), "/sign-in");
    assert!(first.cookie.is_none());
    first.cookie = stored;
    first.get("/").await.expect(303);
    second.get("/").await.expect(200);

    let mut third = Browser::open(&running).await;
    third.sign_in(&name, PASSWORD).await.expect(303);
    let page = third.get("/me").await.expect(200);
    assert!(page.text.contains("this one") && page.text.contains("another browser"));
    third
        .submit("/me/sign-out-everywhere", &[])
        .await
        .expect(303);
    second.get("/").await.expect(303);
}

#[tokio::test]
async fn a_new_password_needs_the_old_one_and_ends_all_other_sessions() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Auditor).await;
    let mut other = Browser::open(&running).await;
    other.sign_in(&name, PASSWORD).await.expect(303);
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let before = browser.cookie.clone();
    let new = "a longer one than that";
    let fields = |current, again| [("current", current), ("password", new), ("again", again)];
    for (current, again) in [("wrong horse battery", new), (PASSWORD, "something else")] {
        let page = browser
            .submit("/me/password", &fields(current, again))
            .await;
        page.expect(422);
    }
    browser
        .submit("/me/password", &fields(PASSWORD, new))
        .await
        .expect(303);
    assert_ne!(browser.cookie, before, "the session is another");
    browser.get("/me").await.expect(200);
    other.get("/me").await.expect(303);
    let mut late = Browser::open(&running).await;
    late.sign_in(&name, PASSWORD).await.expect(401);
    late.sign_in(&name, new).await.expect(303);
}

#[tokio::test]
async fn a_person_who_is_disabled_or_ends_signing_in_is_out_at_once() {
    let running = Running::start().await;
    for what in ["disable", "end-sign-in"] {
        let (actor, name) = person(&running, Role::Admin).await;
        let mut victim = Browser::open(&running).await;
        victim.sign_in(&name, PASSWORD).await.expect(303);
        let mut owner = signed_in(&running, Role::Owner).await;
        let version = version_on(&owner.get(&format!("/people/{actor}")).await.text);
        let path = format!("/people/{actor}/{what}");
        owner
            .submit(&path, &[("version", &version)])
            .await
            .expect(303);
        victim.get("/").await.expect(303);
        victim.cookie = None;
        victim.sign_in(&name, PASSWORD).await.expect(401);
    }
}

/// The version that the first form of a page has.
pub(crate) fn version_on(text: &str) -> String {
    let (_, rest) = text.split_once("name=\"version\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

async fn resource(running: &Running, name: &str) -> Resource {
    let filter = ListFilter {
        name: Some(name.to_owned()),
        ..ListFilter::default()
    };
    let page = running
        .store
        .list_as::<Resource>(running.account(), &filter, None, PageLimit::MAX)
        .await;
    page.unwrap().items.remove(0)
}

/// From nothing to an explanation, as an administrator goes.
#[tokio::test]
async fn an_administrator_makes_all_that_a_client_needs() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let (site, name, group) = (fresh("site"), fresh("resource"), fresh("group"));
    browser
        .submit("/sites", &[("name", &site)])
        .await
        .expect(303);
    let made = [
        ("name", &*name),
        ("site", &*site),
        ("address", "10.9.8.0/24"),
        ("filters", "tcp:80,443\r\nicmp"),
        ("applications", "any"),
    ];
    browser.submit("/resources/new", &made).await.expect(303);
    let row = resource(&running, &name).await;
    assert_eq!(row.target.address, "10.9.8.0/24");
    assert_eq!(row.filters.len(), 2);

    let group_page = browser
        .submit("/groups", &[("name", &group)])
        .await
        .expect(303);
    let group_page = group_page
        .header("location")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let actor = make_actor(running.store.as_ref(), running.account(), ActorKind::User).await;
    let actor_name = format!("actor {actor}");
    browser
        .submit(&group_page, &[("actor", &actor_name)])
        .await
        .expect(303);
    let (client, _) = enrol_client(running.store.as_ref(), running.account(), actor).await;
    let client_name = format!("client {client}");
    let policy = [
        ("name", "the policy"),
        ("group", &*group),
        ("resource", &*name),
        ("verified", "yes"),
        ("country", "DE"),
    ];
    let mut none = policy;
    none[4] = ("country", "DE XX");
    let page = browser.submit("/policies", &none).await.expect(422);
    let (_, field) = page.text.split_once("name=\"country\"").unwrap();
    let (field, _) = field.split_once("</div>").unwrap();
    assert!(field.contains("`XX`"), "beside its field: {field}");
    browser.submit("/policies", &policy).await.expect(303);
    let list = browser.get("/policies").await.expect(200);
    assert!(list.text.contains("the policy") && list.text.contains("verified"));
    // There is no database of countries.
    assert!(list.text.contains("never allows"), "{}", list.text);

    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("client", &client_name)
        .append_pair("resource", &name)
        .finish();
    let path = format!("/explain?{query}");
    let why = loop {
        // The sessions follow the change log; they know the client within a moment.
        let why = browser.get(&path).await;
        if why.status == 200 {
            break why;
        }
        why.expect(503);
        tokio::task::yield_now().await;
    };
    assert!(why.text.contains("may not use"), "{}", why.text);
    let says = "never holds: it asks for a country, and the portal has no database of countries";
    assert!(why.text.contains(says), "{}", why.text);
    let clients = browser.get("/clients").await.expect(200);
    assert!(clients.text.contains(&client_name));
    let version = version_on(&clients.text);
    browser
        .submit(
            &format!("/clients/{client}/verify"),
            &[("version", &version)],
        )
        .await
        .expect(303);
    let clients = browser.get("/clients").await.expect(200);
    assert!(clients.text.contains("Take verification back"));
    let log = browser.get("/log/changes").await.expect(200);
    assert!(log.text.contains("verified:"), "{}", log.text);

    let token = browser
        .submit(&format!("/people/{actor}/token"), &[("name", "laptop")])
        .await
        .expect(200);
    assert!(token.text.contains("cv_client_") && token.text.contains("shown this once"));
    let page = browser.get(&format!("/people/{actor}")).await.expect(200);
    assert!(page.text.contains("laptop") && !page.text.contains("cv_client_"));
}

#[tokio::test]
async fn what_is_wrong_with_a_form_is_said_and_nothing_that_was_written_is_lost() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let site = fresh("site");
    browser
        .submit("/sites", &[("name", &site)])
        .await
        .expect(303);
    let good = [
        ("name", "db"),
        ("site", &*site),
        ("address", "db.corp.example"),
        ("filters", "tcp:5432"),
        ("within", "10.0.0.0/8"),
        ("applications", "only:backup"),
    ];
    for (field, wrong) in [
        ("name", ""),
        ("name", "a\u{7}b"),
        ("site", "nowhere"),
        ("address", "10.0.0.0/99"),
        ("filters", "tcp:70000"),
        ("filters", "sctp:1"),
        ("within", "10.0.0.0/99"),
        ("within", "10.0.0.1/8"),
        ("within", "anywhere 10.0.0.0/8"),
        ("applications", "nobody"),
    ] {
        let mut fields = good;
        for pair in &mut fields {
            if pair.0 == field {
                pair.1 = wrong;
            }
        }
        let page = browser.submit("/resources/new", &fields).await.expect(422);
        let marked = page.text.split("aria-invalid").next().unwrap();
        assert!(page.text.contains("aria-invalid"), "{field} {wrong:?}");
        assert!(marked.ends_with(' ') && marked.contains(&format!("-{field}\" name=\"{field}\"")));
        for (other, value) in good {
            assert!(
                other == field || page.text.contains(value),
                "{field}: {value}"
            );
        }
    }
    browser.submit("/resources/new", &good).await.expect(303);
    browser.submit("/resources/new", &good).await.expect(409);
    for (path, fields) in [
        ("/sites", vec![("name", "")]),
        ("/groups", vec![("name", " ")]),
        ("/people", vec![("name", "x"), ("kind", "king")]),
        (
            "/policies",
            vec![("name", "p"), ("group", "none"), ("resource", "db")],
        ),
        ("/policies", vec![("name", "p"), ("expires", "soon")]),
    ] {
        browser.submit(path, &fields).await.expect(422);
    }
    for path in [
        "/log/changes?cursor=nonsense",
        "/log/access?from=nonsense",
        "/explain?client=none&resource=none",
    ] {
        let page = browser.get(path).await.expect(422);
        assert!(page.header("content-type").starts_with("text/html"));
    }
    // There is no client at all, so that none can be offered.
    let page = browser.get("/explain?client=none&resource=none").await;
    let text = page.text;
    let told = "there is no client named &#34;none&#34;";
    assert!(text.contains(told), "{text}");
    assert!(!text.contains("with that in their names"), "{text}");
    for path in [
        "/resources/nonsense",
        "/people/act_00000000000000000000000000",
    ] {
        browser.get(path).await.expect(404);
    }
}

#[tokio::test]
async fn a_form_opens_services_of_clients_and_names_its_faults() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let (site, name) = (fresh("site"), fresh("monitoring"));
    browser
        .submit("/sites", &[("name", &site)])
        .await
        .expect(303);
    let fields = |inbound| {
        [
            ("name", &*name),
            ("site", &*site),
            ("address", "10.7.0.0/24"),
            ("filters", "any"),
            ("within", ""),
            ("applications", "any"),
            ("inbound", inbound),
        ]
    };
    let wrong = browser.submit("/resources/new", &fields("tcp:x")).await;
    assert!(wrong.expect(422).text.contains("tcp:x"));
    browser
        .submit("/resources/new", &fields("tcp:22\r\nicmp"))
        .await
        .expect(303);
    let row = resource(&running, &name).await;
    assert_eq!(culvert_wire::words::filters(&row.inbound), "tcp:22 icmp");
    let path = format!("/resources/{}", row.id);
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("Open at clients") && page.text.contains("tcp:22"));
    let version = version_on(&page.text);
    let mut next = fields("").to_vec();
    next.push(("version", &version));
    browser.submit(&path, &next).await.expect(303);
    assert_eq!(resource(&running, &name).await.inbound, []);
}

#[tokio::test]
async fn a_page_warns_of_names_that_may_lead_anywhere() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let (site, name) = (fresh("site"), fresh("wiki"));
    browser
        .submit("/sites", &[("name", &site)])
        .await
        .expect(303);
    let fields = |within| {
        [
            ("name", &*name),
            ("site", &*site),
            ("address", "*.corp.example"),
            ("filters", "any"),
            ("within", within),
            ("applications", "any"),
            ("inbound", ""),
        ]
    };
    browser
        .submit("/resources/new", &fields(""))
        .await
        .expect(303);
    let row = resource(&running, &name).await;
    let path = format!("/resources/{}", row.id);
    let page = browser.get(&path).await.expect(200);
    let warning = "Its names may lead to any host";
    assert!(page.text.contains(warning), "{}", page.text);
    let version = version_on(&page.text);
    let mut next = fields("10.0.0.0/8\r\nfd00::/8").to_vec();
    next.push(("version", &version));
    browser.submit(&path, &next).await.expect(303);
    let stored = resource(&running, &name).await.within.unwrap();
    assert_eq!(stored, ["10.0.0.0/8", "fd00::/8"]);
    let page = browser.get(&path).await.expect(200);
    assert!(!page.text.contains(warning));
    assert!(page.text.contains("10.0.0.0/8\nfd00::/8"), "{}", page.text);
}

#[tokio::test]
async fn of_two_administrators_who_change_one_resource_neither_loses_anything() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let site = fresh("site");
    one.submit("/sites", &[("name", &site)]).await.expect(303);
    let fields = |name, address| {
        vec![
            ("name", name),
            ("site", &*site),
            ("address", address),
            ("filters", "any"),
            ("applications", "any"),
        ]
    };
    let first = fields("wiki", "10.0.0.1");
    one.submit("/resources/new", &first).await.expect(303);
    let path = format!("/resources/{}", resource(&running, "wiki").await.id);
    let seen = version_on(&one.get(&path).await.expect(200).text);
    two.get(&path).await.expect(200);
    let mut theirs = fields("wiki", "10.0.0.2");
    theirs.push(("version", &seen));
    two.submit(&path, &theirs).await.expect(303);

    let mut mine = fields("our wiki", "10.0.0.1");
    mine.push(("version", &seen));
    let conflict = one.submit(&path, &mine).await.expect(409);
    for shown in [
        "our wiki",
        "10.0.0.1",
        "10.0.0.2",
        "Someone else changed it",
    ] {
        assert!(conflict.text.contains(shown), "{shown}");
    }
    assert_eq!(resource(&running, "wiki").await.target.address, "10.0.0.2");
    let delete = one
        .submit(&format!("{path}/delete"), &[("version", &seen)])
        .await;
    delete.expect(412);

    let now = version_on(&conflict.text);
    let mut again = fields("our wiki", "10.0.0.2");
    again.push(("version", &now));
    one.submit(&path, &again).await.expect(303);
    resource(&running, "our wiki").await;
}

#[tokio::test]
async fn lists_come_in_pages_that_lead_to_each_other() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for at in 0..60 {
        let name = format!("site {at:02}");
        let mut owner = running.owner().await;
        let body = serde_json::json!({ "name": name });
        owner.post("/api/v1/sites", body).await.expect(201);
    }
    let first = browser.get("/sites").await.expect(200);
    let (_, rest) = first.text.split_once("rel=\"next\" href=\"").unwrap();
    let next = rest.split('"').next().unwrap().replace("&#38;", "&");
    let second = browser.get(&next).await.expect(200);
    assert!(first.text.contains("site 00") && !second.text.contains("site 00"));
    assert!(!first.text.contains("site 59") && second.text.contains("site 59"));
    assert!(!second.text.contains("rel=\"next\""));
}

#[tokio::test]
async fn gateways_are_drained_and_revoked_at_their_site() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let mut owner = running.owner().await;
    let body = serde_json::json!({ "name": "here" });
    let site = owner.post("/api/v1/sites", body).await.expect(201).json();
    let site = crate::support::id_of(&site);
    let (gateway, _) = enrol_gateway(
        running.store.as_ref(),
        running.account(),
        site.parse().unwrap(),
    )
    .await;
    let page = format!("/sites/{site}");
    for (word, shown) in [
        ("drain", "Accept clients again"),
        ("undrain", "Drain"),
        ("revoke", "revoked"),
    ] {
        let version = version_on(&browser.get(&page).await.expect(200).text);
        let path = format!("/gateways/{gateway}/{word}");
        browser
            .submit(&path, &[("version", &version)])
            .await
            .expect(303);
        let shows = browser.get(&page).await.expect(200);
        assert!(shows.text.contains(shown), "{word}: {}", shows.text);
    }
    let token = browser
        .submit(&format!("{page}/token"), &[("name", "rack")])
        .await
        .expect(200);
    assert!(token.text.contains("cv_gateway_"));
}

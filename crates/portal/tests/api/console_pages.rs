//! Pages on which things are renamed, edited and deleted; tokens, names, settings and the first steps.

use crate::browser::{Browser, PASSWORD, fresh, signed_in};
use crate::console::version_on;
use crate::support::{Running, enrol_client, enrol_gateway, id_of, make_actor, read_metrics};
use culvert_store::{ActorKind, Role};
use serde_json::{Value, json};

/// The page that a form led to, without the message.
fn led(answer: &crate::support::Answer) -> String {
    let location = answer.header("location");
    location.split('?').next().unwrap().to_owned()
}

/// The version in the first form of the page that goes to `action`.
pub(crate) fn version_for(text: &str, action: &str) -> String {
    let (_, form) = text.split_once(&format!("action=\"{action}\"")).unwrap();
    version_on(form)
}

async fn made(running: &Running, path: &str, body: Value) -> String {
    let mut owner = running.owner().await;
    id_of(&owner.post(path, body).await.expect(201).json())
}

#[tokio::test]
async fn what_has_a_name_is_renamed_and_deleted_where_it_is_shown() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let group = made(&running, "/api/v1/groups", json!({"name": "group"})).await;
    let actor = json!({"name": "actor", "kind": "service_account"});
    let actor = made(&running, "/api/v1/actors", actor).await;
    let owner = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, owner).await;
    for (path, kind) in [
        (format!("/sites/{site}"), "sites"),
        (format!("/groups/{group}"), "groups"),
        (format!("/people/{actor}"), "actors"),
        (format!("/clients/{client}"), "clients"),
    ] {
        let action = format!("{path}/name");
        let page = one.get(&path).await.expect(200);
        let seen = version_for(&page.text, &action);
        let (theirs, mine) = (fresh("theirs"), fresh("mine"));
        let fields = [("name", &*theirs), ("version", &*seen)];
        two.submit(&action, &fields).await.expect(303);
        let fields = [("name", &*mine), ("version", &*seen)];
        let conflict = one.submit(&action, &fields).await.expect(409);
        for shown in [&*theirs, &*mine, "Someone else changed it"] {
            assert!(conflict.text.contains(shown), "{kind}: {shown}");
        }
        let now = version_on(&conflict.text);
        let fields = [("name", &*mine), ("version", &*now)];
        one.submit(&action, &fields).await.expect(303);
        let page = one.get(&path).await.expect(200);
        assert!(page.text.contains(&format!("<h1>{mine}</h1>")), "{kind}");

        let action = format!("{path}/delete");
        let late = [("version", &*seen), ("cascade", "no"), ("sure", "yes")];
        let refused = one.submit(&action, &late).await;
        assert!([409, 412].contains(&refused.status.as_u16()), "{kind}");
        let version = version_for(&page.text, &action);
        let fields = [("version", &*version), ("cascade", "no"), ("sure", "yes")];
        let gone = one.submit(&action, &fields).await.expect(303);
        assert!(path.starts_with(&led(&gone)), "{kind}");
        one.get(&path).await.expect(404);
    }
}

#[tokio::test]
async fn what_others_belong_to_is_deleted_with_them_or_not_at_all() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let resource = json!({
        "site": site, "name": "r", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(&running, "/api/v1/resources", resource).await;
    let action = format!("/sites/{site}/delete");
    let version = version_for(&browser.get(&format!("/sites/{site}")).await.text, &action);
    let fields = |cascade| [("version", &*version), ("cascade", cascade)];
    let sure = |cascade| {
        [
            ("version", &*version),
            ("cascade", cascade),
            ("sure", "yes"),
        ]
    };
    // Each is asked about first.
    browser.submit(&action, &fields("no")).await.expect(200);
    let refused = browser.submit(&action, &sure("no")).await.expect(409);
    assert!(
        refused
            .text
            .contains("role=\"alert\" tabindex=\"-1\" autofocus")
    );
    // The thing that still uses it is named, and leads to its page.
    let user = format!("<a href=\"/resources/{resource}\">r</a>");
    assert!(refused.text.contains(&user), "{}", refused.text);
    assert!(!refused.text.contains("(res_"), "{}", refused.text);
    browser
        .get(&format!("/resources/{resource}"))
        .await
        .expect(200);
    // All that goes with it is told before it goes.
    let asked = browser.submit(&action, &fields("yes")).await.expect(200);
    assert!(asked.text.contains("1: r"), "{}", asked.text);
    browser
        .get(&format!("/resources/{resource}"))
        .await
        .expect(200);
    let sure = [("version", &*version), ("cascade", "yes"), ("sure", "yes")];
    browser.submit(&action, &sure).await.expect(303);
    browser
        .get(&format!("/resources/{resource}"))
        .await
        .expect(404);
}

#[tokio::test]
async fn of_two_administrators_who_rename_one_gateway_neither_loses_anything() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let site = site.parse().unwrap();
    let (gateway, _) = enrol_gateway(running.store.as_ref(), running.account(), site).await;
    let path = format!("/gateways/{gateway}");
    let action = format!("{path}/name");
    let seen = version_for(&one.get(&path).await.expect(200).text, &action);
    let theirs = [("name", "theirs"), ("version", &*seen)];
    two.submit(&action, &theirs).await.expect(303);
    let mine = [("name", "mine"), ("version", &*seen)];
    let conflict = one.submit(&action, &mine).await.expect(409);
    for shown in ["theirs", "value=\"mine\"", "Someone else changed it"] {
        assert!(conflict.text.contains(shown), "{shown}");
    }
    one.submit(&format!("{path}/drain"), &[("version", &*seen)])
        .await
        .expect(412);
    let now = version_on(&conflict.text);
    let mine = [("name", "mine"), ("version", &*now)];
    one.submit(&action, &mine).await.expect(303);
    let page = one.get(&path).await.expect(200);
    assert!(page.text.contains("<h1>mine</h1>"));
}

/// A policy that joins two things.
struct Joined {
    id: String,
    group: String,
    resource: String,
}

async fn policy(running: &Running, conditions: Value) -> Joined {
    let site = made(running, "/api/v1/sites", json!({"name": fresh("site")})).await;
    let (group_name, resource_name) = (fresh("group"), fresh("r"));
    let group = made(running, "/api/v1/groups", json!({"name": group_name})).await;
    let resource = json!({
        "site": site, "name": resource_name, "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(running, "/api/v1/resources", resource).await;
    let policy = json!({
        "name": fresh("policy"), "group": group, "resource": resource, "conditions": conditions,
    });
    Joined {
        id: made(running, "/api/v1/policies", policy).await,
        group: group_name,
        resource: resource_name,
    }
}

#[tokio::test]
async fn of_two_administrators_who_edit_one_policy_neither_loses_anything() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let policy = policy(&running, json!([{"kind": "verified"}])).await;
    let (group, resource) = (policy.group, policy.resource);
    let path = format!("/policies/{}", policy.id);
    let page = one.get(&path).await.expect(200);
    assert!(page.text.contains("<option value=\"yes\" selected>"));
    let seen = version_for(&page.text, &path);
    let fields = |name, country, version| {
        vec![
            ("name", name),
            ("group", &*group),
            ("resource", &*resource),
            ("country", country),
            ("time", "mon-fri 08:00-18:00 Europe/Berlin"),
            ("verified", "no"),
            ("version", version),
        ]
    };
    two.submit(&path, &fields("theirs", "DE", &seen))
        .await
        .expect(303);
    let conflict = one
        .submit(&path, &fields("mine", "AT", &seen))
        .await
        .expect(409);
    for shown in ["theirs", "in DE", "value=\"mine\"", "value=\"AT\""] {
        assert!(conflict.text.contains(shown), "{shown}: {}", conflict.text);
    }
    let now = version_on(&conflict.text);
    one.submit(&path, &fields("mine", "AT DE", &now))
        .await
        .expect(303);
    let page = one.get(&path).await.expect(200);
    let when = "mon-fri 08:00-18:00 Europe/Berlin; in AT or DE";
    assert!(page.text.contains(when), "{}", page.text);
    let wrong = fields("mine", "Atlantis", &now);
    let refused = one.submit(&path, &wrong).await.expect(422);
    assert!(refused.text.contains("value=\"Atlantis\""));
}

#[tokio::test]
async fn conditions_that_the_page_has_no_fields_for_are_edited_as_the_api_has_them() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let conditions = json!([
        {"kind": "country", "countries": ["DE", "AT"]},
        {"kind": "country", "countries": ["AT", "CH"]},
    ]);
    let policy = policy(&running, conditions).await;
    let path = format!("/policies/{}", policy.id);
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("name=\"conditions\""), "{}", page.text);
    assert!(!page.text.contains("name=\"country\""));
    let version = version_for(&page.text, &path);
    let send = |text| {
        [
            ("name", "p"),
            ("group", &*policy.group),
            ("resource", &*policy.resource),
            ("conditions", text),
            ("version", &*version),
        ]
    };
    browser.submit(&path, &send("[{]")).await.expect(422);
    let one = r#"[{"kind":"verified"},{"kind":"country","countries":["AT"]}]"#;
    browser.submit(&path, &send(one)).await.expect(303);
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("verified; in AT"), "{}", page.text);
}

#[tokio::test]
async fn a_policy_is_given_another_group_and_another_resource() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let first = policy(&running, json!([])).await;
    let other = policy(&running, json!([])).await;
    let path = format!("/policies/{}", first.id);
    let page = browser.get(&path).await.expect(200);
    for shown in [&first.group, &first.resource] {
        assert!(page.text.contains(&format!("value=\"{shown}\"")), "{shown}");
    }
    let version = version_for(&page.text, &path);
    let send = |group, resource| {
        [
            ("name", "p"),
            ("group", group),
            ("resource", resource),
            ("version", &*version),
        ]
    };
    let wrong = send("nobody", &*other.resource);
    let refused = browser.submit(&path, &wrong).await.expect(422);
    for shown in ["nobody", &*other.resource] {
        assert!(
            refused.text.contains(&format!("value=\"{shown}\"")),
            "{shown}"
        );
    }
    let changed = send(&other.group, &other.resource);
    browser.submit(&path, &changed).await.expect(303);
    let page = browser.get(&path).await.expect(200);
    for shown in [&other.group, &other.resource] {
        assert!(page.text.contains(&format!(">{shown}</a>")), "{shown}");
    }
}

#[tokio::test]
async fn long_lists_are_searched_and_a_name_that_is_not_whole_is_told_what_has_it() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let policy = policy(&running, json!([])).await;
    for number in 0..7 {
        let name = format!("build farm {number}");
        made(&running, "/api/v1/groups", json!({"name": name})).await;
        let name = format!("farmer {number}");
        let actor = json!({"name": name, "kind": "service_account"});
        made(&running, "/api/v1/actors", actor).await;
    }
    for (path, words, found, left_out) in [
        ("/groups", "FARM+3", "build farm 3", "build farm 4"),
        ("/service-accounts", "mer+5", "farmer 5", "farmer 6"),
        ("/people", "mer+5", "farmer 5", "farmer 6"),
        (
            "/policies",
            "nothing",
            "Nothing here matches",
            &policy.group,
        ),
        ("/sites", "nothing", "Nothing here matches", "<td>"),
        ("/clients", "nothing", "Nothing here matches", "<td>"),
        (
            "/settings/tokens",
            "nothing",
            "Nothing here matches",
            "<td>",
        ),
    ] {
        let asked = format!("{path}?search={words}");
        let page = browser.get(&asked).await.expect(200);
        assert!(page.text.contains(found), "{asked}: {}", page.text);
        assert!(!page.text.contains(left_out), "{asked}: {left_out}");
        assert!(page.text.contains("name=\"search\""), "{path}");
    }
    let fields = [
        ("name", "p"),
        ("group", "Farm"),
        ("resource", &*policy.resource),
    ];
    let refused = browser.submit("/policies", &fields).await.expect(422);
    // Those that fit are a list to choose from.
    let list = refused.text.split("<select").nth(1).unwrap();
    let list = list.split("</select>").next().unwrap();
    for number in 0..7 {
        let choice = format!("<option value=\"build farm {number}\"");
        assert!(list.contains(&choice), "{choice}: {list}");
    }
    assert!(!list.contains(&policy.group), "{list}");
}

#[tokio::test]
async fn tokens_of_every_kind_are_made_shown_once_and_revoked() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    made(&running, "/api/v1/sites", json!({"name": "here"})).await;
    let machine = json!({"name": "backup", "kind": "service_account"});
    made(&running, "/api/v1/actors", machine).await;
    let at = "/settings/tokens";
    let new = |name, kind, of, uses| {
        let (field, of) = of;
        let role = ("role", "auditor");
        let expires = ("expires", "2099-01-31T18:00:00Z");
        vec![
            ("name", name),
            ("kind", kind),
            (field, of),
            role,
            ("uses", uses),
            expires,
        ]
    };
    for (name, kind, of, uses, file) in [
        ("for scripts", "api", ("actor", "backup"), "many", ""),
        (
            "for a laptop",
            "client",
            ("actor", "backup"),
            "one",
            "client.token",
        ),
        (
            "for a rack",
            "gateway",
            ("site", "here"),
            "many",
            "gateway.token",
        ),
    ] {
        let fields = new(name, kind, of, uses);
        let once = browser.submit(at, &fields).await.expect(200);
        assert!(once.text.contains(&format!("cv_{kind}_")), "{}", once.text);
        assert!(once.text.contains("shown this once"));
        // The script sees to it that the form is not sent again.
        assert!(once.text.contains(" data-once>"), "{}", once.text);
        assert_eq!(once.header("cache-control"), "no-store");
        assert!(once.text.contains(file));
        let list = browser.get(at).await.expect(200);
        assert!(list.text.contains(name) && !list.text.contains(&format!("cv_{kind}_")));
        assert!(list.text.contains("2099-01-31T18:00:00Z"));
    }
    let list = browser.get(at).await.expect(200);
    assert!(list.text.contains("good for one machine") && list.text.contains("api, auditor"));
    for of in [">backup</a>", ">here</a>"] {
        assert!(list.text.contains(of), "{of}: {}", list.text);
    }
    assert!(
        !list.text.contains("session"),
        "sessions are no tokens that people make"
    );
    for (fields, field) in [
        (new("x", "api", ("actor", "nobody"), "many"), "actor"),
        (new("x", "gateway", ("site", "nowhere"), "many"), "site"),
        (new("x", "client", ("site", ""), "many"), "actor"),
        (new("", "client", ("actor", "backup"), "many"), "name"),
        (new("x", "session", ("actor", "backup"), "many"), "kind"),
    ] {
        let refused = browser.submit(at, &fields).await.expect(422);
        let marked = format!("-{field}\" name=\"{field}\"");
        let (_, rest) = refused.text.split_once(&marked).unwrap();
        assert!(
            rest.split('>').next().unwrap().contains("aria-invalid"),
            "{field}"
        );
    }
    let (_, rest) = list.text.split_once("action=\"/tokens/").unwrap();
    let token = rest.split('/').next().unwrap().to_owned();
    let version = version_on(rest);
    let path = format!("/tokens/{token}/revoke");
    browser
        .submit(&path, &[("version", &version)])
        .await
        .expect(303);
    assert!(browser.get(at).await.text.contains("revoked"));
}

#[tokio::test]
async fn rules_about_names_are_set_and_what_is_wrong_is_told_by_its_line() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let seen = version_on(&one.get("/dns").await.expect(200).text);
    let fields = |search, domains, version| {
        [
            ("search", search),
            ("domains", domains),
            ("version", version),
        ]
    };
    let good = fields(
        "corp.example",
        "corp.example 10.1.2.53 10.1.3.53\r\n. 10.1.2.53",
        &seen,
    );
    one.submit("/dns", &good).await.expect(303);
    let page = one.get("/dns").await.expect(200);
    for shown in ["corp.example 10.1.2.53 10.1.3.53", ". 10.1.2.53"] {
        assert!(page.text.contains(shown), "{}", page.text);
    }
    let conflict = two
        .submit("/dns", &fields("lab.example", "", &seen))
        .await
        .expect(409);
    for shown in ["lab.example", "corp.example 10.1.2.53"] {
        assert!(conflict.text.contains(shown), "{shown}");
    }
    let now = version_on(&page.text);
    for (search, domains, line) in [
        ("corp.example\nno good", "", "line 2: "),
        (
            "",
            "corp.example 10.1.2.53\nlab.example 127.0.0.1",
            "line 2: ",
        ),
        ("", "lab.example 100.64.0.7", "the tunnel&#39;s own"),
    ] {
        let refused = one
            .submit("/dns", &fields(search, domains, &now))
            .await
            .expect(422);
        assert!(refused.text.contains(line), "{line}: {}", refused.text);
    }
}

#[tokio::test]
async fn the_page_of_the_portals_says_who_leads_and_how_the_database_is() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/settings/portals").await.expect(200).text;
    for told in [
        "leads, shows this page",
        env!("CARGO_PKG_VERSION"),
        "SQLite 3.",
        "kB",
        "Answers in",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(!page.contains("silent"), "{page}");
    let metrics = read_metrics(&running).await;
    for line in [
        "culvert_portal_leads 1\n",
        "culvert_portal_has_leader 1\n",
        "culvert_portal_portals{state=\"leads\"} 1\n",
        "culvert_portal_clock_ahead_seconds 0.0\n",
        "culvert_portal_database_size_bytes ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let mut user = signed_in(&running, Role::User).await;
    user.get("/settings/portals").await.expect(403);
}

#[tokio::test]
async fn the_account_is_named_and_its_settings_are_changed() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let list = browser.get("/settings").await.expect(200);
    for section in ["/settings/account", "/settings/tokens", "/dns"] {
        assert!(
            list.text.contains(&format!("href=\"{section}\"")),
            "{section}"
        );
    }
    let at = "/settings/account";
    let seen = version_on(&browser.get(at).await.expect(200).text);
    let fields = |lifetime, range4, applications| {
        vec![
            ("name", "Corp"),
            ("grant_lifetime_s", lifetime),
            ("range4", range4),
            ("applications", applications),
            ("version", &*seen),
        ]
    };
    for wrong in [
        fields("soon", "", "any"),
        fields("1", "", "any"),
        fields("600", "10.0.0.0/30", "any"),
        fields("600", "", "nobody"),
    ] {
        browser.submit(at, &wrong).await.expect(422);
    }
    let good = fields("600", "10.20.0.0/16", "except:browser");
    browser.submit(at, &good).await.expect(303);
    let page = browser.get(at).await.expect(200);
    for shown in ["Corp", "600", "10.20.0.0/17", "except:browser"] {
        assert!(page.text.contains(shown), "{shown}");
    }
    browser.submit(at, &good).await.expect(409);
}

async fn step(browser: &mut Browser, fields: &[(&str, &str)], status: u16) -> String {
    let answer = browser.submit("/first-steps", fields).await.expect(status);
    answer.text
}

#[tokio::test]
async fn the_first_steps_lead_from_nothing_to_both_commands() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let page = browser.get("/").await.expect(200);
    assert!(page.text.contains("href=\"/first-steps\""));
    let page = browser.get("/first-steps").await.expect(200);
    assert!(page.text.contains("1 of 6 steps are done") && page.text.contains("data-since"));
    let refused = step(&mut browser, &[("step", "site"), ("site", "")], 422).await;
    assert!(refused.contains("aria-invalid"));
    step(&mut browser, &[("step", "site"), ("site", "office")], 303).await;
    let token = [("step", "gateway"), ("gateway", "first gateway")];
    let token = step(&mut browser, &token, 200).await;
    assert!(token.contains("cv_gateway_") && token.contains("culvert gateway run"));
    assert!(
        token.contains("data-stay"),
        "it stays while the page follows"
    );
    let resource = |address| {
        [
            ("step", "resource"),
            ("name", "wiki"),
            ("address", address),
            ("filters", "tcp:443"),
            ("group", "everyone"),
        ]
    };
    let refused = step(&mut browser, &resource("10.0.0.0/99"), 422).await;
    let (_, rest) = refused.split_once("name=\"address\"").unwrap();
    assert!(
        rest.split('>').next().unwrap().contains("aria-invalid"),
        "{refused}"
    );
    let nothing = running.store.snapshot(running.account()).await.unwrap();
    assert!(nothing.groups.is_empty(), "all of it or nothing");
    step(&mut browser, &resource("10.0.0.1"), 303).await;
    let page = browser.get("/first-steps").await.expect(200);
    assert!(page.text.contains("3 of 6 steps are done"), "{}", page.text);
    for _ in 0..2 {
        let name = [("step", "client"), ("client", "first machine")];
        let answer = browser.submit("/first-steps", &name).await;
        // The second token would have the name of the first.
        assert!([200, 409].contains(&answer.status.as_u16()), "{answer:?}");
    }
    let now = running.store.snapshot(running.account()).await.unwrap();
    assert_eq!((now.memberships.len(), now.policies.len()), (1, 1));
    step(&mut browser, &[("step", "nonsense")], 422).await;
    let mut auditor = signed_in(&running, Role::Auditor).await;
    let page = auditor.get("/first-steps").await.expect(200);
    assert!(!page.text.contains("class=\"fields\""));
}

#[tokio::test]
async fn of_two_administrators_who_let_one_person_sign_in_neither_loses_anything() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let mut two = signed_in(&running, Role::Admin).await;
    let actor = json!({"name": "Ada", "kind": "admin"});
    let actor = made(&running, "/api/v1/actors", actor).await;
    let path = format!("/people/{actor}");
    let action = format!("{path}/sign-in");
    let seen = version_for(&one.get(&path).await.expect(200).text, &action);
    let theirs = [
        ("role", "auditor"),
        ("password", PASSWORD),
        ("version", &*seen),
    ];
    two.submit(&action, &theirs).await.expect(303);
    let mine = |version| {
        [
            ("role", "admin"),
            ("password", "another one of mine"),
            ("version", version),
        ]
    };
    let conflict = one.submit(&action, &mine(&seen)).await.expect(409);
    for shown in [
        "<dt>Role</dt><dd>auditor",
        "by password alone",
        "<option value=\"admin\" selected>",
        "Someone else changed it",
        "Write it once more",
    ] {
        assert!(conflict.text.contains(shown), "{shown}");
    }
    assert!(!conflict.text.contains("another one of mine"));
    let mut ada = Browser::open(&running).await;
    ada.sign_in("Ada", PASSWORD).await.expect(303);
    let now = version_on(&conflict.text);
    one.submit(&action, &mine(&now)).await.expect(303);
    ada.get("/").await.expect(303);
    let mut ada = Browser::open(&running).await;
    ada.sign_in("Ada", "another one of mine").await.expect(303);

    // The same of who must have a second factor.
    let action = "/people/second-factor";
    let seen = version_for(&one.get("/people").await.expect(200).text, action);
    let theirs = [("second_factor", "off"), ("version", &*seen)];
    two.submit(action, &theirs).await.expect(303);
    running
        .owner()
        .await
        .patch("/api/v1/account", "*", json!({"name": "other"}))
        .await
        .expect(200);
    let mine = [("second_factor", "everybody"), ("version", &*seen)];
    let conflict = one.submit(action, &mine).await.expect(409);
    for shown in ["<dd>nobody</dd>", "<option value=\"everybody\" selected>"] {
        assert!(conflict.text.contains(shown), "{shown}: {}", conflict.text);
    }
}

#[tokio::test]
async fn of_two_administrators_who_change_one_provider_neither_loses_its_authorities() {
    let running = Running::start().await;
    let mut one = signed_in(&running, Role::Admin).await;
    let provider = json!({"name": "idp", "issuer": "https://idp.example", "client_id": "c"});
    let provider = made(&running, "/api/v1/providers", provider).await;
    let path = format!("/settings/providers/{provider}");
    let seen = version_for(&one.get(&path).await.expect(200).text, &path);
    let names = vec!["idp.example".to_owned()];
    let theirs = rcgen::generate_simple_self_signed(names)
        .unwrap()
        .cert
        .pem();
    let ca = json!({"ca": theirs});
    let api = format!("/api/v1/providers/{provider}");
    running.owner().await.patch(&api, "*", ca).await.expect(200);
    let mine = [
        ("name", "mine"),
        ("client_id", "c"),
        ("unknown_people", "refuse"),
        ("disabled", "no"),
        ("version", &*seen),
    ];
    let conflict = one.submit(&path, &mine).await.expect(409);
    let line = theirs.lines().nth(1).unwrap();
    let shown = line.split('+').next().unwrap().split('/').next().unwrap();
    assert!(conflict.text.contains("Certificate authorities</dt>"));
    assert!(conflict.text.contains(shown), "{}", conflict.text);
}

#[tokio::test]
async fn what_is_taken_away_for_good_says_first_what_goes_with_it() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut browser = signed_in(&running, Role::Owner).await;
    let policy = policy(&running, json!([])).await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let group = made(&running, "/api/v1/groups", json!({"name": "group"})).await;
    let resource = json!({
        "site": site, "name": "r", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(&running, "/api/v1/resources", resource).await;
    let provider = json!({"name": "idp", "issuer": "https://idp.example", "client_id": "c"});
    let provider = made(&running, "/api/v1/providers", provider).await;
    let sink = json!({"kind": "http", "url": "http://127.0.0.1:1/"});
    let sink = json!({"sink": {"name": "far", "logs": ["access"], "target": sink}});
    running
        .owner()
        .await
        .post("/api/v1/sinks", sink)
        .await
        .expect(201);
    let actor = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let (gateway, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    for (page, action) in [
        (
            "/policies".to_owned(),
            format!("/policies/{}/delete", policy.id),
        ),
        (
            format!("/groups/{group}"),
            format!("/groups/{group}/delete"),
        ),
        (
            format!("/resources/{resource}"),
            format!("/resources/{resource}/delete"),
        ),
        (
            format!("/settings/providers/{provider}"),
            format!("/settings/providers/{provider}/delete"),
        ),
        (
            "/settings/sinks".to_owned(),
            "/settings/sinks/far/delete".to_owned(),
        ),
        (
            format!("/clients/{client}"),
            format!("/clients/{client}/delete"),
        ),
        ("/clients".to_owned(), format!("/clients/{client}/revoke")),
        (
            format!("/gateways/{gateway}"),
            format!("/gateways/{gateway}/revoke"),
        ),
    ] {
        let text = browser.get(&page).await.expect(200).text;
        let (before, _) = text
            .split_once(&format!("<form method=\"post\" action=\"{action}\""))
            .unwrap_or_else(|| panic!("{page}: {action}"));
        let (_, asked) = before.rsplit_once("<details class=\"loss\">").unwrap();
        assert!(
            !asked.contains("</details>") && asked.contains("</summary><p>"),
            "{page}"
        );
    }
}

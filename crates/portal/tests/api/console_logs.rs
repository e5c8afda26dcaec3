//! The text and the links of the log pages.

use crate::browser::signed_in;
use crate::support::{Client, Running, enrol_client, enrol_gateway, id_of, make_actor, now};
use culvert_ids::ResourceId;
use culvert_store::{AccessEntry, ActorKind, Decision, Role};
use serde_json::{Value, json};

async fn made(owner: &mut Client, path: &str, body: Value) -> String {
    id_of(&owner.post(path, body).await.expect(201).json())
}

/// The row of the change log about that thing, the newest one.
fn change_of<'t>(page: &'t str, kind: &str, operation: &str) -> &'t str {
    let wanted = format!("<td>{operation} {kind}</td>");
    let found = page.split("<tr>").find(|row| row.contains(&wanted));
    found.unwrap_or_else(|| panic!("{wanted}: {page}"))
}

/// The text of a part of a page.
fn visible(part: &str) -> String {
    let pieces = part.split('<');
    let pieces = pieces.map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    pieces.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_change_of_a_list_tells_what_was_added_and_removed_in_the_words_of_the_form() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = made(&mut owner, "/api/v1/sites", json!({"name": "site"})).await;
    let tcp = |from: u16| json!({"protocol": "tcp", "ports": [from.to_string()]});
    let resource = json!({
        "site": site, "name": "wiki", "kind": "address", "address": "10.0.0.1", "filters": [tcp(22), tcp(80)],
    });
    let resource = made(&mut owner, "/api/v1/resources", resource).await;
    let path = format!("/api/v1/resources/{resource}");
    let filters = json!({"filters": [tcp(80), tcp(443)]});
    owner.patch(&path, "*", filters).await.expect(200);

    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/log/changes").await.expect(200).text;
    let changed = change_of(&page, "resource", "changed");
    let line = "<div class=\"lines\"><p>filters: added tcp:443; removed tcp:22</p></div>";
    assert!(changed.contains(line), "{changed}");
    // Many fields are behind a summary, which keeps the row low.
    let new = change_of(&page, "resource", "created");
    assert!(
        new.contains("<details class=\"lines\"><summary>applications, filters and "),
        "{new}"
    );
    assert!(new.contains("<p>filters: tcp:22 tcp:80</p>"), "{new}");
    assert!(!new.contains('{'), "{new}");
}

#[tokio::test]
async fn a_change_of_the_account_says_which_setting() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let file = |days: u32, servers: &[&str]| {
        json!({
            "dns": {"search": [], "domains": [{"name": "corp.example", "servers": servers}]},
            "grant_lifetime_s": days,
        })
    };
    let account = "/api/v1/account";
    for rule in ["administrators", "off"] {
        let rule = json!({ "second_factor": rule });
        owner.patch(account, "*", rule).await.expect(200);
    }
    let mut browser = signed_in(&running, Role::Owner).await;
    let page = browser.get("/log/changes").await.expect(200).text;
    let rule = change_of(&page, "account", "changed");
    for text in [
        "<a href=\"/people\">second factor for all</a>",
        "<p>second factor for all: administrators → off</p>",
    ] {
        assert!(rule.contains(text), "{text}: {rule}");
    }
    let first = file(600, &["10.0.0.53"]);
    owner.patch(account, "*", first).await.expect(200);
    let page = browser.get("/log/changes").await.expect(200).text;
    let both = change_of(&page, "account", "changed");
    let subject = "<a href=\"/settings\">DNS servers of corp.example and 1 more</a>";
    assert!(both.contains(subject), "{both}");
    for line in [
        "<p>DNS servers of corp.example: none → 10.0.0.53</p>",
        "→ 600</p>",
    ] {
        assert!(both.contains(line), "{line}: {both}");
    }

    let second = file(600, &["10.0.0.53", "10.0.0.54"]);
    owner.patch(account, "*", second).await.expect(200);
    let page = browser.get("/log/changes").await.expect(200).text;
    let dns = change_of(&page, "account", "changed");
    let subject = "<a href=\"/dns\">DNS servers of corp.example</a>";
    assert!(dns.contains(subject), "{dns}");
    assert!(dns.contains("corp.example: added 10.0.0.54</p>"), "{dns}");

    // A sink, by its name; its token is nowhere.
    let sink = [
        ("name", "collector"),
        ("logs", "access"),
        ("kind", "http"),
        ("url", "https://logs.example/in"),
        ("token", "very-secret-token"),
    ];
    browser.submit("/settings/sinks", &sink).await.expect(303);
    let page = browser.get("/log/changes").await.expect(200).text;
    let sink = change_of(&page, "account", "changed");
    let subject = "<a href=\"/settings/sinks\">log sink collector</a>";
    assert!(sink.contains(subject), "{sink}");
    assert!(sink.contains("log sink collector, target url: none → https://logs.example/in"));
    assert!(!page.contains("very-secret-token"));
    assert!(!sink.contains('{'), "no JSON: {sink}");
}

#[tokio::test]
async fn a_change_says_what_was_changed_by_its_name() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = made(&mut owner, "/api/v1/sites", json!({"name": "site"})).await;
    let group = made(&mut owner, "/api/v1/groups", json!({"name": "staff"})).await;
    let resource = json!({
        "site": site, "name": "wiki", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(&mut owner, "/api/v1/resources", resource).await;
    let policy = json!({"name": "p", "group": group, "resource": resource, "conditions": []});
    let policy = made(&mut owner, "/api/v1/policies", policy).await;
    let actor = json!({"name": "Ada", "kind": "user"});
    let actor = made(&mut owner, "/api/v1/actors", actor).await;
    let path = format!("/api/v1/groups/{}/members", group);
    let member = json!({"actor": actor});
    owner.post(&path, member).await.expect(201);
    let path = format!("/api/v1/groups/{}", group);
    let name = json!({"name": "engineers"});
    owner.patch(&path, "*", name).await.expect(200);
    let path = format!("/api/v1/policies/{}", policy);
    let disabled = json!({"disabled": true});
    owner.patch(&path, "*", disabled).await.expect(200);

    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/log/changes").await.expect(200).text;
    let named = format!("<a href=\"/policies/{}\">", policy);
    let changed = change_of(&page, "policy", "changed");
    assert!(changed.contains(&named), "{changed}");
    assert!(changed.contains("disabled: false → true"), "{changed}");
    let new = change_of(&page, "policy", "created");
    for id in [&group, &resource] {
        assert!(!visible(new).contains(id.as_str()), "{new}");
    }
    let linked = format!("<p>group: <a href=\"/groups/{group}\">engineers</a></p>");
    assert!(new.contains(&linked), "{new}");
    let member = change_of(&page, "membership", "created");
    let named = format!("<a href=\"/groups/{}\">Ada in engineers</a>", group);
    assert!(member.contains(&named), "{member}");

    // A deleted thing keeps its name in the log, without a link.
    owner
        .delete(&format!("/api/v1/actors/{actor}?cascade=true"))
        .await
        .expect(204);
    let page = browser.get("/log/changes").await.expect(200).text;
    let gone = change_of(&page, "actor", "deleted");
    assert!(gone.contains("<td>Ada</td>"), "{gone}");
    assert!(!page.contains(&format!("/people/{actor}")), "{page}");

    // By thing and by actor, on the page and in what is exported of it.
    let path = format!("/log/changes?id={}", group);
    let page = browser.get(&path).await.expect(200).text;
    assert!(change_of(&page, "group", "changed").contains("engineers"));
    assert!(!page.contains("<td>policy</td>"), "{page}");
    let csv = format!("/log/changes/export/csv?id={}", group);
    assert!(page.contains(&csv), "{page}");
    let rows = browser.get(&csv).await.expect(200).text;
    assert!(rows.contains(&group) && !rows.contains("policy"), "{rows}");
    assert!(rows.starts_with("seq,at,actor,"), "{rows}");
    assert!(rows.lines().all(|row| !row.starts_with('{')), "{rows}");
    let page = browser
        .get("/log/changes?actor=nobody")
        .await
        .expect(422)
        .text;
    assert!(page.contains("nobody"), "{page}");
    browser.get("/log/changes?id=nothing").await.expect(422);
}

#[tokio::test]
async fn the_access_log_leads_to_what_it_names_and_to_why_it_was_denied() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let site = made(&mut owner, "/api/v1/sites", json!({"name": "site"})).await;
    let resource = json!({
        "site": site, "name": "wiki & more", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(&mut owner, "/api/v1/resources", resource).await;
    let actor = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let (gateway, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    let entry = |decision, resource| AccessEntry {
        at: now(),
        client,
        actor: Some(actor),
        resource,
        gateway: Some(gateway),
        policy: None,
        grant: None,
        decision,
        reason: "no policy".to_owned(),
    };
    let resource_id = resource.parse().unwrap();
    let gone = ResourceId::from_bytes([3; 16]);
    let entries = vec![
        entry(Decision::Denied, resource_id),
        entry(Decision::Granted, resource_id),
        entry(Decision::Denied, gone),
    ];
    store.append_access_log(account, entries).await.unwrap();

    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/log/access").await.expect(200).text;
    let rows: Vec<&str> = page
        .split("<tr>")
        .filter(|row| row.contains("no policy"))
        .collect();
    let [of_gone, granted, denied] = rows[..] else {
        panic!("{page}");
    };
    for path in [
        format!("/people/{actor}"),
        format!("/clients/{client}"),
        format!("/resources/{resource}"),
        format!("/gateways/{gateway}"),
    ] {
        assert!(
            denied.contains(&format!("href=\"{path}\"")),
            "{path}: {denied}"
        );
    }
    assert!(
        !granted.contains("/explain") && !of_gone.contains("/explain"),
        "{page}"
    );
    assert!(of_gone.contains(&gone.to_string()), "{of_gone}");
    let (_, why) = denied.split_once("href=\"/explain?").unwrap();
    let why = why.split('"').next().unwrap().replace("&#38;", "&");
    let page = browser.get(&format!("/explain?{why}")).await;
    for shown in [
        format!("value=\"client {client}\""),
        "value=\"wiki &#38; more\"".to_owned(),
    ] {
        assert!(page.text.contains(&shown), "{shown}: {}", page.text);
    }
}

#[tokio::test]
async fn a_question_to_a_log_that_is_wrong_is_shown_again_with_what_was_written() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    for log in ["/log/changes", "/log/access", "/log/flows"] {
        for (field, wrong) in [("from", "yesterday-ish"), ("actor", "no-such-person")] {
            let path = format!("{log}?search=kept&{field}={wrong}");
            let page = browser.get(&path).await.expect(422).text;
            assert!(page.contains("value=\"kept\""), "{path}: {page}");
            let field = page.split(&format!("name=\"{field}\"")).nth(1).unwrap();
            let field = field.split('>').next().unwrap();
            let is_marked = field.contains(wrong) && field.contains("aria-invalid=\"true\"");
            assert!(is_marked, "{path}: {field}");
            assert!(page.contains("<nav"), "{path}: {page}");
        }
    }
}

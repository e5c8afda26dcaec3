use crate::support::{Client, Running};
use serde_json::{Value, json};

fn desired() -> Value {
    json!({
        "sites": [{"name": "office"}],
        "actors": [
            {"name": "ada", "kind": "user"},
            {"name": "build", "kind": "service_account"},
        ],
        "groups": [{"name": "staff", "members": ["ada", "build"]}],
        "resources": [{
            "name": "web", "site": "office", "kind": "dns", "address": "WEB.corp.example",
            "filters": [{"protocol": "tcp", "ports": [443]}],
        }],
        "policies": [{
            "name": "staff may use web", "group": "staff", "resource": "web",
            "conditions": [{"kind": "verified"}],
        }],
    })
}

async fn apply(client: &mut Client, query: &str, desired: &Value) -> Value {
    let path = format!("/api/v1/apply{query}");
    client.post(&path, desired.clone()).await.expect(200).json()
}

async fn first_resource(client: &mut Client) -> Value {
    let found = client.get("/api/v1/resources").await.expect(200).json();
    found["items"][0].clone()
}

fn told(report: &Value) -> Vec<String> {
    let changes = report["changes"].as_array().unwrap();
    let told = changes.iter().map(|change| {
        let word = |field: &str| change[field].as_str().unwrap().to_owned();
        format!("{} {} {}", word("operation"), word("entity"), word("name"))
    });
    told.collect()
}

async fn names(client: &mut Client, list: &str) -> Vec<String> {
    let page = client.get(&format!("/api/v1/{list}")).await.expect(200);
    let page = page.json();
    let items = page["items"].as_array().unwrap().iter();
    let mut names: Vec<_> = items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_declared_is_made_and_declaring_it_again_changes_nothing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let dry = apply(&mut owner, "?dry_run=true", &desired()).await;
    assert_eq!(dry["applied"], false);
    assert_eq!(names(&mut owner, "groups").await, [""; 0]);

    let report = apply(&mut owner, "", &desired()).await;
    assert_eq!(report["applied"], true);
    assert_eq!(told(&report), told(&dry));
    assert_eq!(
        told(&report),
        [
            "create site office",
            "create actor ada",
            "create actor build",
            "create group staff",
            "create membership staff/ada",
            "create membership staff/build",
            "create resource web",
            "create policy staff may use web",
        ]
    );
    let resources = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(resources["items"][0]["address"], "web.corp.example");
    for query in ["", "?prune=true", "?dry_run=true"] {
        assert_eq!(told(&apply(&mut owner, query, &desired()).await), [""; 0]);
    }
}

#[tokio::test]
async fn a_change_is_told_field_by_field_and_done() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let mut next = desired();
    next["resources"][0]["filters"] = json!([{"protocol": "tcp", "ports": [443, "8000-8100"]}]);
    next["groups"][0]["members"] = json!(["build"]);
    next["groups"][0]["name"] = json!("Staff");
    let report = apply(&mut owner, "", &next).await;
    assert_eq!(
        told(&report),
        [
            "update group Staff",
            "delete membership Staff/ada",
            "update resource web",
        ]
    );
    let field = &report["changes"][2]["fields"];
    assert_eq!(field.as_array().unwrap().len(), 1);
    assert_eq!(field[0]["field"], "filters");
    assert_eq!(field[0]["before"][0]["ports"], json!([443]));
    assert_eq!(field[0]["after"][0]["ports"], json!([443, "8000-8100"]));
    assert_eq!(names(&mut owner, "groups").await, ["Staff"]);
    assert_eq!(told(&apply(&mut owner, "", &next).await), [""; 0]);
}

#[tokio::test]
async fn what_is_not_named_stays_unless_it_is_to_be_pruned_and_admins_always_stay() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let admins = names(&mut owner, "actors").await;
    let rest = json!({"sites": [{"name": "office"}], "groups": [{"name": "staff"}]});
    assert_eq!(told(&apply(&mut owner, "", &rest).await), [""; 0]);
    let report = apply(&mut owner, "?prune=true&allow_empty=true", &rest).await;
    assert_eq!(
        told(&report),
        [
            "delete policy staff may use web",
            "delete resource web",
            "delete actor ada",
            "delete actor build",
        ]
    );
    let left = names(&mut owner, "actors").await;
    assert_eq!(left.len(), admins.len() - 2);
    assert_eq!(names(&mut owner, "sites").await, ["office"]);
    owner.get("/api/v1/account").await.expect(200);
}

#[tokio::test]
async fn one_wrong_line_changes_nothing_and_is_named() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut wrong = desired();
        change(&mut wrong);
        wrong
    };
    for (desired, field) in [
        (
            wrong(&|d| d["policies"][0]["resource"] = json!("wed")),
            "policies[0].resource",
        ),
        (
            wrong(&|d| {
                d["policies"][0]["conditions"] = json!([{"kind": "country", "countries": ["X"]}]);
            }),
            "policies[0].conditions[0]",
        ),
        (
            wrong(&|d| d["resources"][0]["address"] = json!("10.0.0.0/8")),
            "resources[0].address",
        ),
        (
            wrong(&|d| d["resources"][0]["site"] = json!("offcie")),
            "resources[0].site",
        ),
        (
            wrong(&|d| d["groups"][0]["members"] = json!(["ada", "bob"])),
            "groups[0].members[1]",
        ),
        (
            wrong(&|d| d["groups"][0]["members"] = json!(["ada", "ADA"])),
            "groups[0].members[1]",
        ),
        (
            wrong(&|d| d["sites"] = json!([{"name": "office"}, {"name": "Office"}])),
            "sites[1].name",
        ),
        (wrong(&|d| d["colour"] = json!("red")), "colour"),
    ] {
        let problem = owner
            .post("/api/v1/apply", desired.clone())
            .await
            .problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    for list in ["sites", "groups", "resources", "policies"] {
        assert_eq!(names(&mut owner, list).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_configuration_that_would_prune_all_of_a_kind_is_refused_unless_that_is_meant() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let mut without_policies = desired();
    without_policies["policies"] = json!([]);
    let path = "/api/v1/apply?prune=true";
    for (wanted, named) in [
        (
            json!({}),
            &["only site", "all 2 users", "only group", "only resource"][..],
        ),
        (without_policies, &["the only policy"]),
    ] {
        let problem = owner.post(path, wanted.clone()).await.problem(409);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("allow_empty=true"), "{detail}");
        let shown = apply(&mut owner, "?prune=true&dry_run=true", &wanted).await;
        let emptied = shown["emptied"].to_string();
        for word in named {
            assert!(detail.contains(word) && emptied.contains(word), "{detail}");
        }
    }
    assert_eq!(names(&mut owner, "policies").await.len(), 1);
    assert_eq!(names(&mut owner, "sites").await, ["office"]);
    // One of several may go.
    let mut without_one = desired();
    without_one["actors"] = json!([desired()["actors"][0]]);
    without_one["groups"][0]["members"] = json!(["ada"]);
    apply(&mut owner, "?prune=true", &without_one).await;
    apply(&mut owner, "?prune=true&allow_empty=true", &json!({})).await;
    assert!(names(&mut owner, "sites").await.is_empty());
}

#[tokio::test]
async fn pruning_what_is_still_referred_to_is_refused() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let mut rest = desired();
    rest["sites"] = json!([]);
    let path = "/api/v1/apply?prune=true";
    let problem = owner.post(path, rest).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "resources[0].site");
    let mut rest = desired();
    rest["actors"][0]["kind"] = json!("service_account");
    let problem = owner.post("/api/v1/apply", rest).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "actors[0].kind");
}

#[tokio::test]
async fn a_whole_configuration_of_thousands_is_applied_at_once() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let resources: Vec<_> = (0..2_000)
        .map(|number| {
            json!({
                "name": format!("r{number}"), "site": "office", "kind": "address",
                "address": format!("10.0.{}.{}", number / 250, number % 250),
                "filters": [{"protocol": "tcp", "ports": [443]}],
            })
        })
        .collect();
    let desired = json!({"sites": [{"name": "office"}], "resources": resources});
    assert_eq!(told(&apply(&mut owner, "", &desired).await).len(), 2_001);
    assert_eq!(
        told(&apply(&mut owner, "?prune=true", &desired).await),
        [""; 0]
    );
    // Of resources that are alike the older wins: the first in the file.
    let page = owner.get("/api/v1/resources?limit=200").await.expect(200);
    let page = page.json();
    for (at, resource) in page["items"].as_array().unwrap().iter().enumerate() {
        assert_eq!(resource["name"], format!("r{at}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_who_apply_at_once_both_get_what_they_declared() {
    let running = Running::start().await;
    let mut tasks = Vec::new();
    for number in 0..6 {
        let mut owner = running.owner().await;
        tasks.push(tokio::spawn(async move {
            let name = format!("own {number}");
            let body = json!({"groups": [{"name": "shared"}, { "name": name }]});
            owner.post("/api/v1/apply", body).await.status.as_u16()
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    let mut owner = running.owner().await;
    assert_eq!(names(&mut owner, "groups").await.len(), 7);
}

#[tokio::test]
async fn a_rule_about_applications_is_applied_told_and_taken_away_again() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let mut next = desired();
    next["resources"][0]["applications"] = json!({"only": ["sync", "backup", "sync"]});
    let report = apply(&mut owner, "", &next).await;
    assert_eq!(told(&report), ["update resource web"]);
    let fields = &report["changes"][0]["fields"];
    let stored = json!({"only": ["backup", "sync"]});
    assert_eq!(fields[0]["field"], "applications");
    assert_eq!(fields[0]["after"], stored);
    assert_eq!(told(&apply(&mut owner, "", &next).await), [""; 0]);
    let found = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(found["items"][0]["applications"], stored);
    let report = apply(&mut owner, "", &desired()).await;
    assert_eq!(told(&report), ["update resource web"]);
    let found = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(found["items"][0]["applications"], "any");
}

#[tokio::test]
async fn names_lead_only_where_the_file_says_and_a_file_that_does_not_say_is_warned_of() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let warning = "resource \"web\": its names may lead to any host";
    let warned = |report: &Value| {
        let warnings = report["warnings"].as_array().cloned().unwrap_or_default();
        warnings.len() == 1 && warnings[0].as_str().unwrap().starts_with(warning)
    };
    assert!(warned(
        &apply(&mut owner, "?dry_run=true", &desired()).await
    ));
    assert!(warned(&apply(&mut owner, "", &desired()).await));
    let mut next = desired();
    next["resources"][0]["within"] = json!(["fd00::/8", "10.0.0.0/8", "10.1.2.3"]);
    let report = apply(&mut owner, "", &next).await;
    assert_eq!(told(&report), ["update resource web"]);
    assert_eq!(report.get("warnings"), None);
    let stored = json!(["10.0.0.0/8", "10.1.2.3/32", "fd00::/8"]);
    assert_eq!(report["changes"][0]["fields"][0]["field"], "within");
    assert_eq!(report["changes"][0]["fields"][0]["after"], stored);
    assert_eq!(told(&apply(&mut owner, "", &next).await), [""; 0]);
    let found = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(found["items"][0]["within"], stored);
    assert_eq!(found["items"][0].get("warnings"), None);
    // A file without it takes it away, as it does with all that a resource has.
    next["resources"][0]["within"] = json!(["anywhere"]);
    assert!(warned(&apply(&mut owner, "", &next).await));
    let found = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(found["items"][0].get("within"), None);
    assert!(found["items"][0]["warnings"][0].is_string());
    for wrong in [
        json!([]),
        json!(["10.0.0.1/8"]),
        json!(["anywhere", "10.0.0.0/8"]),
    ] {
        next["resources"][0]["within"] = wrong;
        let problem = owner.post("/api/v1/apply", next.clone()).await.problem(422);
        assert_eq!(
            problem["errors"][0]["field"], "resources[0].within",
            "{problem}"
        );
    }
}

#[tokio::test]
async fn only_names_have_networks_that_they_may_lead_into() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    apply(&mut owner, "", &desired()).await;
    let found = owner.get("/api/v1/resources").await.expect(200).json();
    let path = format!(
        "/api/v1/resources/{}",
        found["items"][0]["id"].as_str().unwrap()
    );
    let within = json!({"within": ["10.0.0.0/8"]});
    let changed = owner.patch(&path, "*", within).await.expect(200).json();
    assert_eq!(changed["within"], json!(["10.0.0.0/8"]));
    // Another address leaves them; another kind can't.
    let address = json!({"address": "db.corp.example"});
    let changed = owner.patch(&path, "*", address).await.expect(200).json();
    assert_eq!(changed["within"], json!(["10.0.0.0/8"]));
    let moved = json!({"kind": "address", "address": "10.0.0.1"});
    let problem = owner.patch(&path, "*", moved).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "within", "{problem}");
    let empty = json!({"within": []});
    let problem = owner.patch(&path, "*", empty).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "within", "{problem}");
    let moved = json!({"kind": "address", "address": "10.0.0.1", "within": ["anywhere"]});
    let changed = owner.patch(&path, "*", moved).await.expect(200).json();
    assert_eq!(
        (changed.get("within"), changed.get("warnings")),
        (None, None)
    );
}

#[tokio::test]
async fn what_addresses_may_begin_at_clients_is_declared_and_names_may_begin_nothing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut next = desired();
    next["resources"][0]["kind"] = json!("cidr");
    next["resources"][0]["address"] = json!("10.0.0.0/8");
    apply(&mut owner, "", &next).await;
    assert_eq!(first_resource(&mut owner).await.get("inbound"), None);
    let opened = json!([{"protocol": "tcp", "ports": [22]}, {"protocol": "icmp"}]);
    next["resources"][0]["inbound"] = opened.clone();
    let report = apply(&mut owner, "", &next).await;
    assert_eq!(told(&report), ["update resource web"]);
    let fields = &report["changes"][0]["fields"];
    assert_eq!(
        (&fields[0]["field"], &fields[0]["after"]),
        (&json!("inbound"), &opened)
    );
    assert_eq!(told(&apply(&mut owner, "", &next).await), [""; 0]);
    let row = first_resource(&mut owner).await;
    assert_eq!(row["inbound"], opened);
    let path = format!("/api/v1/resources/{}", row["id"].as_str().unwrap());
    // A change of something else leaves it.
    let renamed = json!({"name": "other"});
    let changed = owner.patch(&path, "*", renamed).await.expect(200).json();
    assert_eq!(changed["inbound"], opened);
    for (wrong, field) in [
        (
            json!({"inbound": [{"protocol": "tcp", "ports": [0]}]}),
            "inbound[0]",
        ),
        (
            json!({"kind": "dns", "address": "a.corp.example"}),
            "inbound",
        ),
    ] {
        let problem = owner.patch(&path, "*", wrong).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    let closed = json!({"inbound": []});
    let changed = owner.patch(&path, "*", closed).await.expect(200).json();
    assert_eq!(changed.get("inbound"), None);
    let mut named = desired();
    named["resources"][0]["inbound"] = opened;
    let problem = owner.post("/api/v1/apply", named).await.problem(422);
    assert_eq!(
        problem["errors"][0]["field"], "resources[0].inbound",
        "{problem}"
    );
}

#[tokio::test]
async fn rules_about_names_are_declared_and_stay_where_a_file_says_nothing_of_them() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut with_dns = desired();
    with_dns["dns"] = json!({
        "search": ["corp.example"],
        "domains": [{"name": "corp.example", "servers": ["10.0.0.53"]}],
    });
    let dry = apply(&mut owner, "?dry_run=true", &with_dns).await;
    let report = apply(&mut owner, "", &with_dns).await;
    assert_eq!(told(&report), told(&dry));
    let fields = &report["changes"][0]["fields"];
    assert!(told(&report)[0].starts_with("update account"), "{report}");
    assert_eq!(fields[0]["field"], "dns.domains");
    assert_eq!(fields[1]["field"], "dns.search");
    assert_eq!(fields[1]["after"], json!(["corp.example"]));
    assert_eq!(told(&apply(&mut owner, "", &with_dns).await), [""; 0]);

    let silent = apply(&mut owner, "?prune=true", &desired()).await;
    assert_eq!(told(&silent), [""; 0]);
    let mut without = desired();
    without["dns"] = json!({});
    let report = apply(&mut owner, "", &without).await;
    assert_eq!(report["changes"][0]["fields"][1]["after"], json!([]));

    without["dns"] = json!({"search": ["-"]});
    let problem = owner.post("/api/v1/apply", without).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "dns.search[0]", "{problem}");
}

#[tokio::test]
async fn the_end_of_a_policy_that_is_applied_is_an_instant_and_no_words() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let with_end = |end: &str| {
        let mut desired = desired();
        let condition = json!({"kind": "expires", "at": end});
        desired["policies"][0]["conditions"] = json!([condition]);
        desired
    };
    for words in ["7d", "tomorrow", "in 7 days", "2099-12-31"] {
        let answer = owner.post("/api/v1/apply", with_end(words)).await;
        let problem = answer.problem(422);
        let wrong = &problem["errors"][0];
        let field = wrong["field"].as_str().unwrap();
        assert!(field.starts_with("policies[0].conditions"), "{problem}");
        let detail = wrong["detail"].as_str().unwrap();
        assert!(detail.contains("2027-01-31T18:00:00Z"), "{problem}");
    }
    let report = apply(&mut owner, "", &with_end("2099-12-31T00:00:00Z")).await;
    assert_eq!(report["applied"], true);
}

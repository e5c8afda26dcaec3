use crate::browser::signed_in;
use crate::support::{Client, Running, id_of, make_actor, make_token};
use culvert_store::{ActorKind, Role, TokenScope};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn make_groups(owner: &mut Client, prefix: &str, count: usize) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    for number in 0..count {
        let body = json!({"name": format!("{prefix} {number}")});
        let group = owner.post("/api/v1/groups", body).await.expect(201).json();
        made.insert(id_of(&group));
    }
    made
}

fn ids(page: &Value) -> Vec<String> {
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(id_of)
        .collect()
}

#[tokio::test]
async fn pages_miss_nothing_and_repeat_nothing_while_rows_come_and_go() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let there = make_groups(&mut owner, "old", 10).await;
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/groups?limit=3{cursor}");
        let page = owner.get(&path).await.expect(200).json();
        let page_ids = ids(&page);
        assert!(page_ids.len() <= 3);
        // The last of the page goes: the cursor must not depend on it.
        if let Some(last) = page_ids.last() {
            owner
                .delete(&format!("/api/v1/groups/{last}"))
                .await
                .expect(204);
        }
        seen.extend(page_ids);
        if seen.len() < 8 {
            make_groups(&mut owner, &format!("new {}", seen.len()), 1).await;
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let unique: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "nothing twice");
    assert!(unique.is_superset(&there), "nothing missed");
    let mut sorted = seen.clone();
    sorted.sort();
    assert_eq!(seen, sorted, "in the order of ids");
}

#[tokio::test]
async fn a_list_is_filtered_by_name_and_by_what_it_refers_to() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    make_groups(&mut owner, "Staff", 2).await;
    let by_name = owner.get("/api/v1/groups?name=staff%201").await.expect(200);
    assert_eq!(by_name.json()["items"][0]["name"], "Staff 1");
    let search = owner.get("/api/v1/groups?search=TAFF").await.expect(200);
    assert_eq!(ids(&search.json()).len(), 2);

    let mut sites = Vec::new();
    for name in ["a", "b"] {
        let site = owner
            .post("/api/v1/sites", json!({ "name": name }))
            .await
            .expect(201);
        sites.push(id_of(&site.json()));
        let resource = json!({
            "site": sites.last(), "name": format!("web {name}"), "kind": "address",
            "address": "10.0.0.1", "filters": [],
        });
        owner.post("/api/v1/resources", resource).await.expect(201);
    }
    let path = format!("/api/v1/resources?site={}", sites[1]);
    let of_site = owner.get(&path).await.expect(200).json();
    assert_eq!(ids(&of_site).len(), 1);
    assert_eq!(of_site["items"][0]["name"], "web b");
}

#[tokio::test]
async fn a_query_that_is_wrong_names_its_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=act_00000000000000000000000000", "cursor"),
        ("colour=red", "colour"),
    ] {
        let path = format!("/api/v1/groups?{query}");
        let problem = owner.get(&path).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{query}: {problem}");
    }
    owner
        .get("/api/v1/resources?site=grp_00000000000000000000000000")
        .await
        .problem(422);
}

#[tokio::test]
async fn the_change_log_says_who_changed_what_newest_first_and_in_pages() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = make_groups(&mut owner, "g", 3).await;
    let last = made.last().unwrap();
    owner
        .patch(
            &format!("/api/v1/groups/{last}"),
            "*",
            json!({"name": "renamed"}),
        )
        .await
        .expect(200);
    let page = owner
        .get("/api/v1/log/changes?limit=2&entity=group")
        .await
        .expect(200)
        .json();
    let newest = &page["items"][0];
    assert_eq!(newest["operation"], "update");
    assert_eq!(newest["entity_id"], **last);
    assert_eq!(newest["before"]["name"], "g 2");
    assert_eq!(newest["after"]["name"], "renamed");
    assert!(newest["actor"].as_str().unwrap().starts_with("act_"));
    assert!(newest["token"].as_str().unwrap().starts_with("tok_"));
    let cursor = page["next_cursor"].as_str().unwrap();
    let path = format!("/api/v1/log/changes?limit=2&entity=group&cursor={cursor}");
    let older = owner.get(&path).await.expect(200).json();
    assert!(older["items"][0]["seq"].as_u64() < page["items"][1]["seq"].as_u64());
    owner
        .get("/api/v1/log/changes?entity=flower")
        .await
        .problem(422);
    let access = owner.get("/api/v1/log/access").await.expect(200).json();
    assert_eq!(access["items"], json!([]));
}

#[tokio::test]
async fn pages_of_what_is_kept_of_a_list_miss_nothing_and_repeat_nothing() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::User).await;
    let mut made = Vec::new();
    // A page has 50. Sessions of browsers are left out.
    for _ in 0..60 {
        let (id, _) = make_token(store, account, TokenScope::Client { actor }).await;
        made.push(id);
    }
    let mut browser = signed_in(&running, Role::Owner).await;
    let mut pages = vec![browser.get("/settings/tokens").await.expect(200).text];
    while let Some((_, rest)) = pages[pages.len() - 1].split_once("rel=\"next\" href=\"") {
        let path = rest.split('"').next().unwrap().to_owned();
        pages.push(browser.get(&path).await.expect(200).text);
        assert!(pages.len() <= 2, "the list has an end");
    }
    assert_eq!(pages.len(), 2);
    let name = |id| format!("token {id}");
    for id in &made {
        let on = pages.iter().filter(|page| page.contains(&name(id)));
        assert_eq!(on.count(), 1, "{id}");
    }
    let first = made.iter().filter(|id| pages[0].contains(&name(id)));
    assert!(first.count() <= 50);
}

//! Names: which are taken, and by which other spellings they are found.

use crate::browser::{Browser, PASSWORD};
use crate::support::{Running, birth, id_of};
use culvert_ids::GroupId;
use culvert_store::{Author, Group, Mutation, Stamp};
use serde_json::json;

const COMPOSED: &str = "M\u{fc}ller";
const DECOMPOSED: &str = "Mu\u{308}ller";

/// The query that asks for a text.
fn query(name: &str, text: &str) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair(name, text)
        .finish()
}

#[tokio::test]
async fn a_name_is_kept_in_one_form_and_found_in_both() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = json!({ "name": DECOMPOSED });
    let made = owner.post("/api/v1/groups", group).await.expect(201).json();
    assert_eq!(made["name"], COMPOSED);
    for name in [COMPOSED, DECOMPOSED, "MU\u{308}LLER"] {
        let again = json!({ "name": name });
        let problem = owner.post("/api/v1/groups", again).await.problem(409);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("named \"M") && !detail.contains("\\u{"),
            "{detail}"
        );
        for field in ["name", "search"] {
            let path = format!("/api/v1/groups?{}", query(field, name));
            let found = owner.get(&path).await.expect(200).json();
            assert_eq!(found["items"][0]["name"], COMPOSED, "{field} {name}");
        }
    }
    let part = format!("/api/v1/groups?{}", query("search", "Mu\u{308}"));
    let found = owner.get(&part).await.expect(200).json();
    assert_eq!(found["items"][0]["name"], COMPOSED);
}

/// The capital of the letter is two characters in Normalization Form C, and so is its lower case.
#[tokio::test]
async fn a_name_of_a_letter_with_a_longer_capital_is_taken_in_both_cases() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for (stored, others) in [
        ("\u{1f0}\u{e9}", ["J\u{30c}\u{c9}", "j\u{30c}e\u{301}"]),
        ("H\u{331}", ["\u{1e96}", "h\u{331}"]),
    ] {
        let group = json!({ "name": stored });
        owner.post("/api/v1/groups", group).await.expect(201);
        for name in others {
            let again = json!({ "name": name });
            owner.post("/api/v1/groups", again).await.problem(409);
            for field in ["name", "search"] {
                let path = format!("/api/v1/groups?{}", query(field, name));
                let found = owner.get(&path).await.expect(200).json();
                assert_eq!(found["items"][0]["name"], stored, "{field} {name}");
            }
        }
        let file = json!({"groups": [{"name": others[0]}]});
        let report = owner.post("/api/v1/apply", file).await.expect(200).json();
        assert_ne!(report["changes"][0]["operation"], "create", "{report}");
    }
}

#[tokio::test]
async fn a_name_that_deceives_is_refused_and_an_old_one_goes_on() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = json!({"name": "ad\u{200b}min"});
    let problem = owner.post("/api/v1/groups", group).await.problem(422);
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("U+200B, an invisible character (character 3)"),
        "{detail}"
    );
    let made = json!({"name": "group"});
    let made = owner.post("/api/v1/groups", made).await.expect(201).json();
    let id = json!({ "name": id_of(&made) });
    let problem = owner.post("/api/v1/sites", id.clone()).await.problem(422);
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("the form of an id"), "{detail}");
    let file = json!({"sites": [id]});
    let problem = owner.post("/api/v1/apply", file).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "sites[0].name");

    // One that has the form of an id from before the rule is named so by a file, and is changed in other fields.
    let (born, random) = birth();
    let name = GroupId::new(born, random).to_string();
    let (born, random) = birth();
    let old = Group {
        id: GroupId::new(born, random),
        name: name.clone(),
        stamp: Stamp::default(),
    };
    let at = format!("/api/v1/groups/{}", old.id);
    let create = vec![Mutation::Create(old.into())];
    let written = running.store.write(
        running.account(),
        Author::PORTAL,
        crate::support::now(),
        create,
    );
    written.await.unwrap();
    let file = json!({"groups": [{"name": name, "members": []}]});
    owner.post("/api/v1/apply", file).await.expect(200);
    let same = json!({ "name": name });
    owner.patch(&at, "*", same).await.expect(200);
    let other = json!({"name": format!("x{name}")});
    owner.patch(&at, "*", other).await.expect(200);
}

#[tokio::test]
async fn people_sign_in_by_any_spelling_of_their_name() {
    let running = Running::start().await;
    let token = running.setup_token();
    let mut browser = Browser::open(&running).await;
    let fields = [
        ("token", &*token),
        ("owner", DECOMPOSED),
        ("password", PASSWORD),
        ("again", PASSWORD),
    ];
    browser.submit("/set-up", &fields).await.expect(303);
    for name in [COMPOSED, DECOMPOSED] {
        let mut browser = Browser::open(&running).await;
        let fields = [("name", name), ("password", PASSWORD)];
        browser.submit("/sign-in", &fields).await.expect(303);
    }
}

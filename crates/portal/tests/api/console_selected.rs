//! One action on several rows of a list.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::support::{Running, enrol_client, make_actor};
use culvert_store::{Actor, ActorKind, Client, ListFilter, Membership, PageLimit, Role, StoreExt};

fn fields<'f>(
    action: &'f str,
    marks: &'f [(String, String)],
    more: &[(&'f str, &'f str)],
) -> Vec<(&'f str, &'f str)> {
    let marks = marks.iter().map(|(id, version)| (&**id, &**version));
    let mut fields = vec![("action", action), ("back", "/clients?state=unverified")];
    fields.extend(marks);
    fields.extend(more);
    fields
}

const SURE: (&str, &str) = ("sure", "yes");

#[tokio::test]
async fn one_question_names_all_that_are_selected_and_the_answer_changes_them_alone() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let owner = make_actor(store, account, ActorKind::User).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(enrol_client(store, account, owner).await.0);
    }
    let mut browser = signed_in(&running, Role::Admin).await;
    let list = browser.get("/clients").await.expect(200).text;
    assert!(list.contains("action=\"/clients/selected\""), "{list}");
    let mut marks = Vec::new();
    for id in &clients[..2] {
        let row: Client = store.get_as(account, *id).await.unwrap();
        let mark = format!("name=\"{id}\" value=\"{}\"", row.stamp.version);
        assert!(list.contains(&mark), "{mark}");
        marks.push((id.to_string(), row.stamp.version.to_string()));
    }
    let is_revoked = async |at: usize| {
        let row: Client = store.get_as(account, clients[at]).await.unwrap();
        row.revoked.is_some()
    };

    let asked = fields("revoke", &marks, &[]);
    let asked = browser
        .submit("/clients/selected", &asked)
        .await
        .expect(200);
    assert!(asked.text.contains("Revoke 2 clients?"), "{}", asked.text);
    assert!(asked.text.contains("They lose all access at once"));
    assert!(asked.text.contains(&format!("/clients/{}\"", clients[1])));
    assert!(!is_revoked(0).await, "a question changes nothing");

    let sent = fields("revoke", &marks, &[SURE]);
    let done = browser.submit("/clients/selected", &sent).await.expect(303);
    assert_eq!(done.header("location"), "/clients?state=unverified");
    assert_eq!(
        [
            is_revoked(0).await,
            is_revoked(1).await,
            is_revoked(2).await
        ],
        [true, true, false]
    );
    let list = browser.get("/clients").await.expect(200).text;
    assert!(list.contains("2 clients revoked: "), "{list}");

    // The same page again is outdated: nothing is done twice, and each row says why.
    let again = browser.submit("/clients/selected", &sent).await.expect(409);
    assert!(again.text.contains("Nothing is changed."), "{}", again.text);
    assert!(again.text.contains("changed since the page was loaded"));
}

#[tokio::test]
async fn an_action_without_a_row_or_of_another_list_changes_nothing() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let owner = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, owner).await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let none = fields("revoke", &[], &[SURE]);
    browser.submit("/clients/selected", &none).await.expect(303);
    let list = browser.get("/clients").await.expect(200).text;
    assert!(list.contains("No client is selected. Nothing is changed."));

    let marks = [(client.to_string(), "1".to_owned())];
    let other = fields("delete", &marks, &[SURE]);
    browser.submit("/groups/selected", &other).await.expect(303);
    browser
        .submit("/clients/selected", &fields("drain", &marks, &[SURE]))
        .await
        .expect(422);
    assert!(store.get_as::<Client>(account, client).await.is_ok());

    let mut auditor = signed_in(&running, Role::Auditor).await;
    let list = auditor.get("/clients").await.expect(200).text;
    assert!(!list.contains("/clients/selected"));
    let sent = fields("delete", &marks, &[SURE]);
    let refused = auditor.submit("/clients/selected", &sent).await;
    refused.expect(403);
    assert!(store.get_as::<Client>(account, client).await.is_ok());
}

#[tokio::test]
async fn people_are_added_to_a_group_that_is_named_once_for_all() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut marks = Vec::new();
    for _ in 0..20 {
        let actor = make_actor(store, account, ActorKind::User).await;
        marks.push((actor.to_string(), "1".to_owned()));
    }
    let mut browser = signed_in(&running, Role::Admin).await;
    browser
        .submit("/groups", &[("name", "staff")])
        .await
        .expect(303);
    let unknown = fields("add-to-group", &marks, &[SURE, ("group", "stuff")]);
    let refused = browser
        .submit("/people/selected", &unknown)
        .await
        .expect(422);
    assert!(
        refused.text.contains("there is no group named"),
        "{}",
        refused.text
    );
    assert!(
        refused.text.contains(&marks[19].0),
        "the marks are still there"
    );
    let sent = fields("add-to-group", &marks, &[SURE, ("group", "Staff")]);
    browser.submit("/people/selected", &sent).await.expect(303);
    let all = ListFilter::default();
    let members = store.list_as::<Membership>(account, &all, None, PageLimit::new(100));
    assert_eq!(members.await.unwrap().items.len(), 20);
}

#[tokio::test]
async fn who_is_signed_out_by_the_first_of_the_rows_is_led_to_the_sign_in() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (own, name) = person(&running, Role::Admin).await;
    let other = make_actor(store, account, ActorKind::User).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let mut marks = Vec::new();
    for id in [own, other] {
        let row: Actor = store.get_as(account, id).await.unwrap();
        marks.push((id.to_string(), row.stamp.version.to_string()));
    }
    let sent = fields("disable", &marks, &[SURE]);
    let answer = browser.submit("/people/selected", &sent).await.expect(303);
    let to = answer.header("location");
    assert!(to.starts_with("/sign-in"), "{to}");
    let row: Actor = store.get_as(account, other).await.unwrap();
    assert!(!row.disabled, "nothing more is changed");
}

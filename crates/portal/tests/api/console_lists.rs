//! Lists of the console: searched, narrowed, ordered and paged by their addresses alone.

use crate::browser::signed_in;
use crate::support::{Running, enrol_client, make_actor};
use culvert_store::{ActorKind, Role};

/// The names in the first column, in the order of the page.
fn names(page: &str) -> Vec<String> {
    let rows = page.split("<tr><td>").skip(1);
    let cells = rows.map(|row| row.split("</td>").next().unwrap());
    let texts = cells.map(|cell| cell.split('>').nth(1).unwrap().split('<').next().unwrap());
    texts.map(str::to_owned).collect()
}

#[tokio::test]
async fn all_pieces_of_the_design_are_on_one_page() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get("/components").await.expect(200).text;
    for piece in [
        "class=\"alert\"",
        "class=\"warnings\"",
        "class=\"badge warn\"",
        "class=\"menu\"",
        "class=\"empty\"",
        "aria-invalid=\"true\"",
        "class=\"steps\"",
        "class=\"switch\"",
        "class=\"chart\"",
    ] {
        assert!(page.contains(piece), "{piece}: {page}");
    }
    let mut user = signed_in(&running, Role::User).await;
    user.get("/components").await.expect(403);
}

#[tokio::test]
async fn a_list_is_paged_forth_and_back_with_the_number_of_all() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for number in 0..60 {
        let name = format!("site {number:02}");
        browser
            .submit("/sites", &[("name", &*name)])
            .await
            .expect(303);
    }
    let first = browser.get("/sites").await.expect(200).text;
    assert!(first.contains(">1–50 of 60<"), "{first}");
    assert_eq!(names(&first).first().unwrap(), "site 00");
    assert!(!first.contains("rel=\"prev\""));
    assert!(first.contains("href=\"/sites?page=2\""));
    let second = browser.get("/sites?page=2").await.expect(200).text;
    assert!(second.contains(">51–60 of 60<"));
    assert_eq!(names(&second).len(), 10);
    assert!(second.contains("rel=\"prev\" href=\"/sites?page=1\""));
    assert!(!second.contains("rel=\"next\""));
    // The other end, in the opposite order.
    let last = browser.get("/sites?sort=-name").await.expect(200).text;
    assert_eq!(names(&last).first().unwrap(), "site 59");
    assert!(last.contains("aria-sort=\"descending\""));
    // A search stays through pages and orders, and says what found nothing.
    let found = browser
        .get("/sites?search=site+1&sort=-name")
        .await
        .expect(200)
        .text;
    assert_eq!(names(&found).len(), 10);
    assert!(found.contains("name=\"sort\" value=\"-name\""));
    let none = browser.get("/sites?search=nowhere").await.expect(200).text;
    assert!(none.contains("Nothing here matches “nowhere”."));
    // Words that no list knows ask for nothing.
    for odd in [
        "page=0",
        "page=x",
        "page=99999999999999999999",
        "sort=-",
        "sort=seen",
        "state=x",
    ] {
        browser.get(&format!("/sites?{odd}")).await.expect(200);
    }
    let beyond = browser.get("/sites?page=9").await.expect(200).text;
    assert!(beyond.contains("The list ends before this page."));
}

#[tokio::test]
async fn clients_are_narrowed_by_their_state_and_found_by_their_owner_and_address() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let owner = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, owner).await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let row = format!("href=\"/clients/{client}\"");
    let mut has = async |query: &str| {
        let page = browser.get(&format!("/clients?{query}")).await.expect(200);
        page.text.contains(&row)
    };
    assert!(has("state=unverified").await);
    assert!(!has("state=verified").await);
    assert!(!has("state=revoked").await);
    let mut admin = signed_in(&running, Role::Admin).await;
    let shown = admin
        .get(&format!("/clients/{client}"))
        .await
        .expect(200)
        .text;
    let (_, address) = shown.split_once("<dt>Address</dt><dd><code>").unwrap();
    let address = address.split('<').next().unwrap();
    assert!(has(&format!("search={address}")).await);
    assert!(!has("search=100.64.255.254").await);
    let (_, named) = shown.split_once("<dt>Owner</dt>").unwrap();
    let owner = named
        .split("</a>")
        .next()
        .unwrap()
        .rsplit('>')
        .next()
        .unwrap();
    assert!(
        has(&format!("search={}", owner.replace(' ', "+"))).await,
        "{owner}"
    );
}

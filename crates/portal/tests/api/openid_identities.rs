//! People who have signed in link an identity, and prove who they are, at an identity provider.

use crate::browser::{Browser, person};
use crate::fresh_proof::{send_waiting, waiting};
use crate::openid::{Scene, signed_in_as};
use crate::openid_provider::{Kind, at_own_name, path_of};
use crate::support::Answer;
use culvert_store::Role;
use serde_json::json;

#[tokio::test]
async fn a_person_links_an_identity_and_only_in_the_session_that_asked() {
    let scene = Scene::new(&Kind::default(), json!({})).await;
    scene
        .openid
        .knows(&json!({"s-1": {"name": "Ada"}, "s-2": {"name": "Bob"}}));
    let (_, name) = person(&scene.running, Role::Admin).await;
    let (_, other_name) = person(&scene.running, Role::Admin).await;
    let mut browser = signed_in_as(&scene.running, &name).await;
    let link = async |browser: &mut Browser, subject: &str| {
        let fields = [("provider", &*scene.id)];
        let page = browser.submit("/me/link", &fields).await.expect(200);
        let (_, url) = page
            .text
            .split_once(&format!("href=\"{}", scene.openid.issuer))
            .unwrap();
        let url = url.split('"').next().unwrap().replace("&#38;", "&");
        let url = format!("{}{}", scene.openid.issuer, url.replace("&amp;", "&"));
        scene.openid.sign_in(&url, subject).await
    };
    // Somebody else has signed in meanwhile: the way belongs to the session in which it began.
    let back = link(&mut browser, "s-1").await;
    let mut other = signed_in_as(&scene.running, &other_name).await;
    other.way.clone_from(&browser.way);
    let refused = other.get(path_of(&scene.running, &back)).await.expect(403);
    assert!(
        refused
            .text
            .contains("The session in which this was begun is over")
    );

    let back = link(&mut browser, "s-1").await;
    let linked = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(303);
    assert_eq!(linked.header("location"), "/me");
    let page = browser.get("/me").await.expect(200);
    assert!(page.text.contains("s-1"));
    let back = link(&mut other, "s-1").await;
    let taken = other.get(path_of(&scene.running, &back)).await.expect(403);
    assert!(taken.text.contains("linked with another actor"));
    assert!(taken.text.contains("signed in as before"));

    let mut fresh = at_own_name(&scene.running).await;
    scene.arrive(&mut fresh, "s-1").await.expect(303);
    let page = fresh.get("/me").await.expect(200);
    assert!(page.text.contains(&name));
    // It goes again, and this session goes on.
    let (_, at) = page.text.split_once("/me/unlink/").unwrap();
    let at = format!("/me/unlink/{}", at.split('"').next().unwrap());
    let foreign = other.submit(&at, &[]).await;
    foreign.expect(404);
    fresh.submit(&at, &[]).await.expect(303);
    fresh.get("/me").await.expect(200);
    browser.get("/me").await.expect(303);
    let mut fresh = at_own_name(&scene.running).await;
    scene.arrive(&mut fresh, "s-1").await.expect(403);
}

/// The way that a page has to the provider.
fn way_on(scene: &Scene, page: &Answer) -> String {
    let issuer = &scene.openid.issuer;
    let (_, url) = page.text.split_once(&format!("href=\"{issuer}")).unwrap();
    let url = url.split('"').next().unwrap();
    let url = url.replace("&#38;", "&").replace("&amp;", "&");
    format!("{issuer}{url}")
}

#[tokio::test]
async fn who_signs_in_by_a_provider_alone_proves_there_anew_who_they_are() {
    let mut scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene
        .openid
        .knows(&json!({"s-1": {"name": "Ada"}, "s-2": {"name": "Bob"}}));
    let mut browser = at_own_name(&scene.running).await;
    scene.arrive(&mut browser, "s-1").await.expect(303);
    let body = json!({"machine": "laptop"});
    let mut machine = scene.running.client().await;
    let begun = machine.post("/api/v1/device-sign-ins", body).await;
    let begun = begun.expect(201).json();
    let code = begun["user_code"].as_str().unwrap();
    // The provider did not say when it asked: its session may be hours old.
    let ticket = waiting(browser.submit("/device/approve", &[("code", code)]).await);
    let at = format!("/confirm?form={ticket}");
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains("With Example") && !page.text.contains("name=\"current\""));
    let begin = async |browser: &mut Browser| {
        let fields = [("form", &*ticket), ("provider", &*scene.id)];
        let page = browser.submit("/confirm/provider", &fields).await;
        way_on(&scene, &page.expect(200))
    };
    let url = begin(&mut browser).await;
    assert!(
        url.contains("prompt=login") && url.contains("max_age=0"),
        "{url}"
    );
    // Somebody else signs in there.
    let back = scene.openid.sign_in(&url, "s-2").await;
    let refused = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(403);
    assert!(
        refused.text.contains("knows you as somebody else"),
        "{}",
        refused.text
    );
    // The answer comes to another session.
    let url = begin(&mut browser).await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let mut other = at_own_name(&scene.running).await;
    scene.arrive(&mut other, "s-1").await.expect(303);
    other.way.clone_from(&browser.way);
    other.get(path_of(&scene.running, &back)).await.expect(403);
    let done = format!("/confirm/done?form={ticket}");
    browser.get(&done).await.expect(303);

    // The person at the browser leaves out that the provider is to ask.
    let url = begin(&mut browser).await;
    let quietly = url.replace("prompt=login&max_age=0&", "");
    let back = scene.openid.sign_in(&quietly, "s-1").await;
    let refused = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(403);
    assert!(refused.text.contains("no auth_time"), "{}", refused.text);
    browser.get(&done).await.expect(303);

    let url = begin(&mut browser).await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    let proven = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(303);
    assert_eq!(proven.header("location"), done);
    let approved = send_waiting(&mut browser, &ticket, "/device/approve").await;
    approved.expect(200);
    let fields = [("form", &*ticket), ("provider", &*scene.id)];
    let (_, name) = person(&scene.running, Role::Admin).await;
    let mut unknown = signed_in_as(&scene.running, &name).await;
    unknown
        .submit("/confirm/provider", &fields)
        .await
        .expect(404);
    scene.change(json!({"disabled": true})).await;
    let page = browser.get(&at).await.expect(200);
    assert!(!page.text.contains("With Example"));
}

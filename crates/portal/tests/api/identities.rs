//! People whom identity providers know, on pages.

use crate::browser::{person, signed_in};
use crate::support::{Client, Running, id_of, make_actor};
use culvert_store::{ActorKind, Role};
use serde_json::json;

async fn make_provider(owner: &mut Client) -> String {
    let provider = json!({
        "name": "Example ID", "issuer": "https://id.example", "client_id": "culvert",
    });
    let made = owner.post("/api/v1/providers", provider).await;
    id_of(&made.expect(201).json())
}

#[tokio::test]
async fn an_identity_at_a_provider_that_is_disabled_is_shown_by_its_name_and_as_that() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let provider = make_provider(&mut owner).await;
    let (actor, _) = person(&running, Role::Auditor).await;
    let identity = json!({"provider": provider, "subject": "s-1", "actor": actor});
    owner.post("/api/v1/identities", identity).await.expect(201);
    let mut browser = signed_in(&running, Role::Admin).await;
    let path = format!("/people/{actor}");
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("<td>Example ID</td>"), "{}", page.text);
    assert!(!page.text.contains("provider disabled"));

    let at = format!("/api/v1/providers/{provider}");
    let disabled = json!({"disabled": true});
    owner.patch(&at, "*", disabled).await.expect(200);
    let page = browser.get(&path).await.expect(200);
    for shown in ["<td>Example ID</td>", "provider disabled", "s-1"] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    let is_offered = page.text.contains("Link with an identity");
    assert!(!is_offered, "nobody is linked with what lets nobody in");
}

#[tokio::test]
async fn whoever_is_linked_with_an_identity_may_sign_in_as_a_user_unless_they_sign_in_already() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let provider = make_provider(&mut owner).await;
    let new = make_actor(running.store.as_ref(), running.account(), ActorKind::Admin).await;
    let (known, _) = person(&running, Role::Auditor).await;
    for (actor, role) in [(new, "user"), (known, "auditor")] {
        let identity =
            json!({"provider": provider, "subject": format!("of {actor}"), "actor": actor});
        owner.post("/api/v1/identities", identity).await.expect(201);
        let shown = owner
            .get(&format!("/api/v1/actors/{actor}"))
            .await
            .expect(200);
        assert_eq!(shown.json()["sign_in"]["role"], role);
    }
}

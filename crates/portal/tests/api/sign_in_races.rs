//! A sign-in that is under way while somebody changes what it is about.

use crate::armed_routes::World;
use crate::browser::{Browser, PASSWORD, person};
use crate::support::now;
use culvert_ids::ActorId;
use culvert_store::{Author, FactorChange, Mutation, Role, SecretBytes};
use serde_json::json;

#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    SetPassword,
    Disable,
    EndSignIn,
    AddFactor,
}

async fn change(world: &mut World, actor: ActorId, what: Meanwhile) {
    let at = format!("/api/v1/actors/{actor}");
    let sign_in = format!("{at}/sign-in");
    let mut owner = world.owner().await;
    match what {
        Meanwhile::Nothing => {}
        Meanwhile::SetPassword => {
            let body = json!({"role": "admin", "password": "another horse battery"});
            owner.post(&sign_in, body).await.expect(200);
        }
        Meanwhile::Disable => {
            let disabled = json!({"disabled": true});
            owner.patch(&at, "*", disabled).await.expect(200);
        }
        Meanwhile::EndSignIn => {
            owner.delete(&sign_in).await.expect(200);
        }
        Meanwhile::AddFactor => {
            let change = FactorChange::Set {
                secret: SecretBytes::new(vec![7; 20]),
                step: 1,
                codes: Vec::new(),
            };
            let mutations = vec![Mutation::ChangeFactor { actor, change }];
            let (store, account) = (&world.running.store, world.running.account());
            let written = store.write(account, Author::PORTAL, now(), mutations).await;
            written.unwrap();
        }
    }
}

#[tokio::test]
async fn a_sign_in_that_is_under_way_while_its_person_is_changed_begins_no_session() {
    let mut world = World::start(None).await;
    for what in [
        Meanwhile::Nothing,
        Meanwhile::SetPassword,
        Meanwhile::Disable,
        Meanwhile::EndSignIn,
        Meanwhile::AddFactor,
    ] {
        let (actor, name) = person(&world.running, Role::Admin).await;
        let mut hold = world.held.hold_sign_in(&name);
        let mut browser = Browser::open(&world.running).await;
        browser.client = world.client().await;
        let signing_in = tokio::spawn(async move {
            let answer = browser.sign_in(&name, PASSWORD).await;
            (answer, browser.cookie)
        });
        hold.reached().await;
        change(&mut world, actor, what).await;
        hold.release();
        let (answer, cookie) = signing_in.await.unwrap();
        let is_begun = matches!(what, Meanwhile::Nothing);
        assert_eq!(cookie.is_some(), is_begun, "{what:?}: {answer:?}");
        let status = match what {
            Meanwhile::Nothing => 303,
            Meanwhile::AddFactor => 200,
            Meanwhile::SetPassword | Meanwhile::Disable | Meanwhile::EndSignIn => 401,
        };
        assert_eq!(answer.status, status, "{what:?}");
    }
}

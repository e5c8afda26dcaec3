//! Clients that do not get in.

use crate::portal::FakePortal;
use crate::scene::{Running, Scene, settings};
use culvert_client::ClientError;
use culvert_wire::messages::{Reason, ReasonCode, ToClient};

#[test]
fn a_token_that_the_portal_refuses_ends_the_client() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let client = Running::start(&portal, |_| {});
        portal
            .answer("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            .await;
        let error = client.ended().await.unwrap_err();
        assert!(matches!(error, ClientError::NotEnrolled(_)), "{error}");
    });
}

#[test]
fn a_revoked_client_ends_and_leaves_its_destinations_unreachable() {
    let scene = Scene::new();
    scene.play(async |scene| {
        let portal = FakePortal::start().await;
        let mut client = Running::start(&portal, |_| {});
        let (mut session, _) = portal.accept(1).await;
        let resources = vec![crate::portal::resource(1, "10.77.0.0/24")];
        session.welcome(resources, Vec::new()).await;
        client.ready().await;
        let reason = Reason {
            code: ReasonCode::Revoked,
            text: "an administrator revoked this client".to_owned(),
        };
        let retry_after_s = None;
        session
            .say(ToClient::Refused {
                reason,
                retry_after_s,
            })
            .await;
        let error = client.ended().await.unwrap_err();
        assert!(matches!(error, ClientError::Denied(_)), "{error}");
        let rules = scene.printed("ip rule").await;
        assert!(rules.contains("17238"), "{rules}");
        let way = scene.command("ip route get 10.77.0.1").await;
        assert!(!way.status.success(), "{way:?}");
        let links = scene.printed("ip link").await + &scene.printed("nft list tables").await;
        assert!(!links.contains("culvert0"), "{links}");
    });
}

#[test]
fn a_portal_that_is_not_there_ends_the_client_only_if_asked() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let token = portal.token();
        drop(portal);
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(&directory, &token);
        settings.exit_when_unreachable = true;
        let ended = culvert_client::run(
            settings,
            culvert_host::observe().1,
            std::future::pending(),
            |_| {},
        )
        .await;
        let error = ended.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    });
}

#[test]
fn a_busy_portal_is_tried_again() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let mut client = Running::start(&portal, |_| {});
        portal
            .answer("HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
            .await;
        let status = client
            .until(|status| status.portal.last_error.is_some())
            .await;
        assert_eq!(status.portal.sessions, 0);
        let (mut session, _) = portal.accept(1).await;
        session.welcome(Vec::new(), Vec::new()).await;
        client.ready().await;
        client.stop().await;
    });
}

#[test]
fn two_clients_do_not_share_a_state_directory() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let shared = tempfile::tempdir().unwrap();
        let path = shared.path().join("state");
        let mut first = Running::start(&portal, |settings| settings.state_dir.clone_from(&path));
        let (mut session, _) = portal.accept(1).await;
        session.welcome(Vec::new(), Vec::new()).await;
        first.ready().await;
        let second = Running::start(&portal, |settings| {
            settings.state_dir.clone_from(&path);
            settings.interface = "culvert1".parse().unwrap();
        });
        let error = second.ended().await.unwrap_err();
        assert!(matches!(error, ClientError::Host(_)), "{error}");
        first.stop().await;
    });
}

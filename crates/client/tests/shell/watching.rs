//! Watching a client at its socket.

use crate::gateway::{BEHIND, Gateway};
use crate::portal::{DEADLINE, FakePortal, resource};
use crate::scene::{Running, Scene};
use crate::tunnel::{begin, deny, request};
use culvert_client::status::{AccessState, PortalState, ServiceState, Status};
use culvert_client::{Mirror, Request, WatchError, WatchMessage, Watcher, ask_status};
use culvert_ids::{GrantId, ResourceId};
use culvert_wire::messages::{Reason, ReasonCode, ToClient};
use culvert_wire::model::Resource;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// A watcher with its copy of the state.
struct Watching {
    watcher: Watcher,
    mirror: Mirror,
    last: Option<u64>,
}

impl Watching {
    async fn begin(client: &Running) -> Self {
        let mut watching = Self {
            watcher: Watcher::open(client.socket(), None).await.unwrap(),
            mirror: Mirror::default(),
            last: None,
        };
        let first = watching.hear().await;
        assert!(first.status.is_some(), "{first:?}");
        watching
    }

    async fn hear(&mut self) -> WatchMessage {
        let message = timeout(DEADLINE, self.watcher.next())
            .await
            .unwrap()
            .unwrap();
        // One that resumes hears at once where it is, even if nothing has changed.
        assert!(message.sequence >= self.last, "{message:?}");
        self.last = message.sequence;
        self.mirror.apply(message.clone()).unwrap();
        message
    }

    /// Hears messages until the copy is as `is_so` says. Returns the last message.
    async fn until(&mut self, is_so: impl Fn(&Status) -> bool) -> WatchMessage {
        let begun = Instant::now();
        loop {
            let message = self.hear().await;
            if is_so(&self.mirror.status().unwrap()) {
                return message;
            }
            assert!(begun.elapsed() < DEADLINE, "{:#?}", self.mirror.status());
        }
    }

    /// Hears messages until there are none for longer than the client's event loop ever rests.
    async fn until_quiet(&mut self) {
        let begun = Instant::now();
        while let Ok(message) = timeout(Duration::from_secs(5), self.watcher.next()).await {
            let message = message.unwrap();
            assert!(begun.elapsed() < 2 * DEADLINE, "{message:?}");
            self.last = message.sequence;
            self.mirror.apply(message).unwrap();
        }
    }

    fn state(&self, number: usize) -> AccessState {
        self.mirror.status().unwrap().resources[number].state
    }
}

#[test]
fn a_watcher_hears_of_a_grant_its_end_a_denial_and_the_loss_of_the_portal() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) =
            begin(&portal, &[(1, "10.77.0.0/24"), (2, "10.78.0.0/24")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let mut watching = Watching::begin(&client).await;
        assert_eq!(watching.state(0), AccessState::Idle);
        let ping = format!("ping -c 1 -W 10 {BEHIND}");
        let granted = async {
            let (number, asked, _) = request(&mut session).await;
            watching
                .until(|it| it.resources[0].state == AccessState::Asking)
                .await;
            session
                .say(gateway.grant(number, asked, 1, scene.candidates(1), &[]))
                .await;
        };
        let (ping, ()) = tokio::join!(scene.command(&ping), granted);
        assert!(ping.status.success(), "{ping:?}");
        let is_granted = |it: &Status| {
            it.resources[0].state == AccessState::Granted
                && it
                    .gateways
                    .first()
                    .is_some_and(|it| it.handshake_age_ms.is_some())
        };
        watching.until(is_granted).await;
        let reason = Reason {
            code: ReasonCode::PolicyChanged,
            text: "a policy was removed".to_owned(),
        };
        let grant = GrantId::from_bytes([1; 16]);
        session.say(ToClient::AccessRevoked { grant, reason }).await;
        let ended = watching
            .until(|it| it.resources[0].state == AccessState::Denied && it.gateways.is_empty())
            .await;
        assert!(ended.status.is_none(), "{ended:?}");
        let denied = deny(&mut session);
        let (connected, ()) = tokio::join!(TcpStream::connect(("10.78.0.1", 80)), denied);
        connected.unwrap_err();
        watching
            .until(|it| it.resources[1].state == AccessState::Denied)
            .await;
        let why = watching.mirror.status().unwrap().resources[1]
            .why
            .clone()
            .unwrap();
        assert_eq!(why.text, "no policy allows it");
        drop(session);
        watching
            .until(|it| it.portal.state != PortalState::Connected)
            .await;
        client.stop().await;
    });
}

#[test]
fn one_changed_resource_of_many_is_a_short_message_and_a_watcher_resumes() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let mut client = Running::start(&portal, |_| {});
        let (mut session, _) = portal.accept(1).await;
        let number = |number: u8| resource(number, &format!("10.77.{number}.0/24"));
        session
            .welcome((1..=250).map(number).collect(), Vec::new())
            .await;
        client.ready().await;
        client
            .until(|status| status.ready && status.resources.len() == 250)
            .await;
        let mut watching = Watching::begin(&client).await;
        watching.until_quiet().await;
        let mut renamed = number(7);
        renamed.name = "another name".to_owned();
        session
            .say(ToClient::ResourceSet { resource: renamed })
            .await;
        let has_name =
            |status: &Status| status.resources.iter().any(|it| it.name == "another name");
        let message = watching.until(has_name).await;
        assert_eq!(
            message.changes.as_ref().unwrap()["resources"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let len = serde_json::to_string(&message).unwrap().len();
        assert!(len < 4096, "{len} bytes");
        // While nobody watches, two things happen.
        let last = watching.last;
        drop(watching.watcher);
        session
            .say(ToClient::ResourceRemoved {
                resource: number(8).id,
            })
            .await;
        session
            .say(ToClient::ResourceSet {
                resource: number(251),
            })
            .await;
        let both = |status: &Status| {
            let has = |it: u8| {
                status
                    .resources
                    .iter()
                    .any(|other| other.id == number(it).id)
            };
            has(251) && !has(8)
        };
        client.until(both).await;
        watching.watcher = Watcher::open(client.socket(), last).await.unwrap();
        let message = watching.until(both).await;
        assert!(message.status.is_none(), "{message:?}");
        // The copy is what the client says.
        let mirrored = watching.mirror.status().unwrap();
        let told = ask_status(client.socket()).await.unwrap();
        assert_eq!(mirrored.resources, told.resources);
        assert_eq!(mirrored.counters, told.counters);
        assert_eq!(mirrored.dns, told.dns);
        // A number of another run is worth nothing.
        let mut other = Watcher::open(client.socket(), Some(1)).await.unwrap();
        let whole = timeout(DEADLINE, other.next()).await.unwrap().unwrap();
        assert_eq!(whole.status.unwrap().resources.len(), 250);
        let begun = Instant::now();
        client.stop().await;
        let ended = loop {
            assert!(begun.elapsed() < DEADLINE);
            match timeout(DEADLINE, other.next()).await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(ended, WatchError::Ended), "{ended}");
    });
}

#[test]
fn a_watcher_hears_of_a_client_that_goes_down_and_up() {
    Scene::new().play(async |_| {
        let client = Running::start_without_token();
        client
            .until(|it| it.service.state == ServiceState::SignedOut)
            .await;
        let mut watching = Watching::begin(&client).await;
        let status = watching.mirror.status().unwrap();
        assert_eq!(status.service.state, ServiceState::SignedOut);
        let portal = FakePortal::start().await;
        let token = culvert_client::SecretText::new(zeroize::Zeroizing::new(portal.token()));
        let sign_in = Request::SignIn(culvert_client::SignIn::Token(token));
        culvert_client::ask(client.socket(), sign_in).await.unwrap();
        let (mut session, _) = portal.accept(1).await;
        let resources = vec![resource(1, "10.77.0.0/24")];
        session.welcome(resources, Vec::new()).await;
        watching
            .until(|it| it.ready && it.resources.len() == 1)
            .await;
        culvert_client::ask(client.socket(), Request::Down)
            .await
            .unwrap();
        watching
            .until(|it| it.service.state == ServiceState::Down && it.resources.is_empty())
            .await;
        let line = serde_json::to_string(&watching.mirror.status().unwrap()).unwrap();
        assert!(!line.contains("cv_client"), "{line}");
        client.stop().await;
    });
}

#[test]
fn two_hundred_changes_a_second_are_ten_messages_of_what_changed() {
    /// Resources of the client: half of a message of the longest kind.
    const RESOURCES: u32 = 2_500;
    /// Changes, five milliseconds apart.
    const CHANGES: u32 = 600;
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let mut client = Running::start(&portal, |_| {});
        let (mut session, _) = portal.accept(1).await;
        let numbered = |number: u32, name: &str| {
            let address = std::net::Ipv4Addr::from_bits(0x0a4d_0000 + number);
            let mut id = [0; 16];
            id[..4].copy_from_slice(&number.to_be_bytes());
            Resource {
                id: ResourceId::from_bytes(id),
                name: format!("{name}-{number}"),
                ..resource(1, &address.to_string())
            }
        };
        let all = (1..=RESOURCES).map(|number| numbered(number, "before"));
        session.welcome(all.collect(), Vec::new()).await;
        client.ready().await;
        let has_all = |status: &Status| status.resources.len() == RESOURCES as usize;
        client.until(|status| status.ready && has_all(status)).await;
        let mut watching = Watching::begin(&client).await;
        assert!(has_all(&watching.mirror.status().unwrap()));
        let begun = Instant::now();
        let changes = async {
            for number in 1..=CHANGES {
                let resource = numbered(number, "after");
                session.say(ToClient::ResourceSet { resource }).await;
                sleep(Duration::from_millis(5)).await;
            }
        };
        let last = numbered(CHANGES, "after").name;
        let messages = async {
            let (mut messages, mut told) = (0, 0);
            loop {
                let message = watching.hear().await;
                assert!(message.status.is_none());
                messages += 1;
                let resources = message.changes.unwrap().remove("resources");
                let resources = resources.unwrap_or_else(|| serde_json::json!([]));
                let resources = resources.as_array().unwrap();
                told += resources.len();
                if resources.iter().any(|it| it["name"] == last) {
                    return (messages, told);
                }
            }
        };
        let ((), (messages, told)) = tokio::join!(changes, messages);
        let most = begun.elapsed().as_millis() / u128::from(culvert_host::MIN_INTERVAL_MS) + 2;
        assert!(messages <= most, "{messages} messages, not {most}");
        assert_eq!(told, CHANGES as usize);
        let status = watching.mirror.status().unwrap();
        let changed = status
            .resources
            .iter()
            .filter(|it| it.name.starts_with("after"));
        assert_eq!(changed.count(), CHANGES as usize);
        client.stop().await;
    });
}

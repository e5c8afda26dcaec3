//! Machines that speak to the portal in sessions of their own.

use crate::support::{Running, make_token, tls_stream};
use culvert_ids::{ActorId, GrantId, ResourceId, SiteId};
use culvert_store::TokenScope;
use culvert_wire::messages::{
    ClientFeature, FromClient, FromGateway, FromRelay, GatewayFeature, ToClient, ToGateway,
    ToRelay, decode_sequenced,
};
use culvert_wire::{
    CLIENT_SESSION_PATH, Cipher, Decoded, GATEWAY_SESSION_PATH, GrantClaims, Message, PublicKey,
    RELAY_SESSION_PATH, encode,
};
use futures_util::{SinkExt, StreamExt};
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, http::header::AUTHORIZATION};
use tokio_tungstenite::{WebSocketStream, client_async};

/// The longest wait for a message that must come.
const DEADLINE: Duration = Duration::from_secs(30);

/// A machine's end of its session.
pub(crate) struct Machine<M> {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    kinds: PhantomData<M>,
}

impl<M: Message> Machine<M> {
    async fn dial(running: &Running, path: &str, token: &str) -> Self {
        let stream = tls_stream(
            Ipv4Addr::LOCALHOST,
            running.portal.address(),
            &running.portal,
        )
        .await;
        let url = format!("wss://localhost{path}");
        let mut request = url.into_client_request().unwrap();
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(AUTHORIZATION, value);
        let (socket, _) = client_async(request, stream).await.unwrap();
        Self {
            socket,
            kinds: PhantomData,
        }
    }

    pub(crate) async fn say(&mut self, message: &impl Message) {
        let frame = tungstenite::Message::text(encode(message));
        self.socket.send(frame).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> M {
        loop {
            let frame = timeout(DEADLINE, self.socket.next()).await;
            let frame = frame.expect("a message").expect("the session goes on");
            if let tungstenite::Message::Text(text) = frame.unwrap() {
                match decode_sequenced::<M>(&text).unwrap().message {
                    Decoded::Known(message) => return message,
                    Decoded::Unknown { kind } => panic!("{kind}"),
                }
            }
        }
    }
}

/// A gateway of the site that accepts clients.
pub(crate) async fn gateway(running: &Running, site: SiteId) -> Machine<ToGateway> {
    let (store, account) = (running.store.as_ref(), running.account());
    let (_, token) = make_token(store, account, TokenScope::Gateway { site }).await;
    gateway_with(running, &token).await
}

/// A gateway that comes with this token.
pub(crate) async fn gateway_with(running: &Running, token: &str) -> Machine<ToGateway> {
    gateway_that(running, token, Vec::new()).await
}

/// The same with these features.
pub(crate) async fn gateway_that(
    running: &Running,
    token: &str,
    features: Vec<GatewayFeature>,
) -> Machine<ToGateway> {
    gateway_named(running, token, ("gateway", 21), &features).await
}

/// The same with a name, a key and features.
pub(crate) async fn gateway_named(
    running: &Running,
    token: &str,
    (name, key): (&str, u8),
    features: &[GatewayFeature],
) -> Machine<ToGateway> {
    let mut gateway = Machine::dial(running, GATEWAY_SESSION_PATH, token).await;
    let hello = FromGateway::Hello {
        protocols: vec![1],
        version: "0.1.0".to_owned(),
        machine: name.to_owned(),
        name: name.to_owned(),
        public_key: PublicKey::from_bytes([key; 32]),
        ciphers: vec![Cipher::Aes256Gcm],
        candidates: vec!["192.0.2.1:51820".parse().unwrap()],
        draining: false,
        grants: Vec::new(),
        more_grants: false,
        features: features.to_vec(),
    };
    gateway.say(&hello).await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    gateway
}

/// A relay that comes with this token.
pub(crate) async fn relay_with(running: &Running, token: &str) -> Machine<ToRelay> {
    let mut relay = Machine::dial(running, RELAY_SESSION_PATH, token).await;
    let hello = FromRelay::Hello {
        protocols: vec![1],
        version: "0.1.0".to_owned(),
        machine: "relay".to_owned(),
        name: "relay".to_owned(),
        addresses: vec!["192.0.2.9:3478".parse().unwrap()],
        first_port: 3_479,
        ports: 64,
        tls: None,
        draining: false,
        assigned: Vec::new(),
    };
    relay.say(&hello).await;
    assert!(matches!(relay.hear().await, ToRelay::Welcome { .. }));
    relay
}

/// A client of the actor.
pub(crate) async fn client(running: &Running, actor: ActorId) -> Machine<ToClient> {
    let (store, account) = (running.store.as_ref(), running.account());
    let (_, token) = make_token(store, account, TokenScope::Client { actor }).await;
    client_with(running, &token).await
}

/// A client that comes with this token.
pub(crate) async fn client_with(running: &Running, token: &str) -> Machine<ToClient> {
    let mut client = Machine::dial(running, CLIENT_SESSION_PATH, token).await;
    let hello = FromClient::Hello {
        protocols: vec![1],
        version: "0.1.0".to_owned(),
        machine: "laptop".to_owned(),
        name: "laptop".to_owned(),
        public_key: PublicKey::from_bytes([22; 32]),
        ciphers: vec![Cipher::Aes256Gcm],
        features: vec![ClientFeature::Applications],
        os: None,
    };
    client.say(&hello).await;
    assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    client
}

/// The client gets access to the resource through the gateway.
pub(crate) async fn grant(
    client: &mut Machine<ToClient>,
    gateway: &mut Machine<ToGateway>,
    resource: ResourceId,
) {
    let ask = FromClient::RequestAccess {
        request: 1,
        resource,
        names: Vec::new(),
        avoid: Vec::new(),
    };
    client.say(&ask).await;
    let ToGateway::Grant { token, .. } = gateway.hear().await else {
        panic!("a grant");
    };
    let (grant, names) = (id_in(&token), Vec::new());
    let accepted = FromGateway::GrantAccepted { grant, names };
    gateway.say(&accepted).await;
    let answer = client.hear().await;
    assert!(
        matches!(answer, ToClient::AccessGranted { .. }),
        "{answer:?}"
    );
}

/// The grant of a token, whose signature other tests look at.
fn id_in(token: &str) -> GrantId {
    use pasetors::{Public, token::UntrustedToken, version4::V4};
    let token = UntrustedToken::<Public, V4>::try_from(token).unwrap();
    let claims: GrantClaims = serde_json::from_slice(token.untrusted_payload()).unwrap();
    claims.grant
}

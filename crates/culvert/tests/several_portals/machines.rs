//! A client and a gateway, as far as their sessions go.

use crate::scene::Office;
use culvert_ids::{GrantId, ResourceId};
use culvert_link::{Closed, Connection, Destination, connect};
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, Sequenced, ToClient, ToGateway, ToRelay,
};
use culvert_wire::token::{Portal, Token};
use culvert_wire::{
    CLIENT_SESSION_PATH, Decoded, GATEWAY_SESSION_PATH, Message, PROTOCOL, PublicKey,
    RELAY_SESSION_PATH, decode, encode,
};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// The time for any answer.
const SOON: Duration = Duration::from_secs(10);

/// The pause of a machine before it comes back.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Client {
    connection: Connection,
    resource: ResourceId,
    asked: u64,
}

pub(crate) struct Gateway {
    connection: Connection,
}

pub(crate) struct Relay {
    connection: Connection,
}

impl Relay {
    pub(crate) async fn join(office: &Office, at: usize, token: &str) -> Result<Self, String> {
        let hello = encode(&FromRelay::Hello {
            protocols: vec![PROTOCOL],
            version: "0.1.0".to_owned(),
            machine: "machine of relay".to_owned(),
            name: "relay".to_owned(),
            addresses: vec!["192.0.2.9:3478".parse().unwrap()],
            first_port: 3_479,
            ports: 64,
            tls: None,
            draining: false,
            assigned: Vec::new(),
        });
        let mut connection = open(office, at, (token, RELAY_SESSION_PATH), hello).await?;
        match next(&mut connection).await? {
            ToRelay::Welcome { .. } => Ok(Self { connection }),
            other => Err(format!("{other:?}")),
        }
    }

    /// True once the portal asks it to drain.
    pub(crate) async fn is_drained(&mut self) -> Result<bool, String> {
        match next(&mut self.connection).await? {
            ToRelay::Drain { on } => Ok(on),
            other => Err(format!("{other:?}")),
        }
    }
}

fn portal(office: &Office, at: usize) -> Portal {
    let portal = &office.portals[at];
    let pin = Some(portal.pin.parse().unwrap());
    Portal::new(&portal.url, pin).unwrap()
}

/// The metrics of a portal, for an API token that may read them.
pub(crate) async fn metrics(office: &Office, at: usize, token: &str) -> String {
    let mut open = culvert_link::open(&portal(office, at)).await.unwrap();
    let token = token.trim();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    open.write_all(request.as_bytes()).await.unwrap();
    let mut page = Vec::new();
    // A server may end TCP without a last word of TLS.
    let _ = open.read_to_end(&mut page).await;
    String::from_utf8(page).unwrap()
}

/// Opens a session at a portal, whichever one the token names.
async fn open(
    office: &Office,
    at: usize,
    (token, path): (&str, &'static str),
    hello: String,
) -> Result<Connection, String> {
    let token: Token = token.trim().parse().unwrap();
    let destination = Destination {
        portal: portal(office, at),
        path,
        credential: (&token.bearer).into(),
        mark: None,
        look_up: culvert_link::system_look_up,
        proxy: None,
        addresses: None,
    };
    let connected = connect(&destination).await;
    let connection = connected.map_err(|error| error.to_string())?.connection;
    let sent = connection.sender().send(hello).await;
    sent.map_err(|error| error.to_string())?;
    Ok(connection)
}

async fn next<M: Message>(connection: &mut Connection) -> Result<M, String>
where
    Sequenced<M>: Message,
{
    let text = timeout(SOON, connection.receive()).await;
    let text = text.map_err(|_| "nothing came".to_owned())?;
    let text = text.map_err(|closed: Closed| closed.to_string())?;
    match decode::<Sequenced<M>>(&text).unwrap() {
        Decoded::Known(message) => Ok(message.message),
        Decoded::Unknown { kind } => Err(kind),
    }
}

fn key(name: &str) -> PublicKey {
    let mut key = [7; 32];
    key[..name.len()].copy_from_slice(name.as_bytes());
    PublicKey::from_bytes(key)
}

impl Client {
    pub(crate) async fn join(office: &Office, at: usize) -> Result<Self, String> {
        let name = format!("client-{at}");
        let hello = encode(&FromClient::Hello {
            protocols: vec![PROTOCOL],
            version: "0.1.0".to_owned(),
            machine: format!("machine of {name}"),
            public_key: key(&name),
            name,
            ciphers: Vec::new(),
            features: Vec::new(),
            os: None,
        });
        let way = (office.client_token.as_str(), CLIENT_SESSION_PATH);
        let mut connection = open(office, at, way, hello).await?;
        match next(&mut connection).await? {
            ToClient::Welcome { resources, .. } => Ok(Self {
                connection,
                resource: resources.first().ok_or("no resource")?.id,
                asked: 0,
            }),
            other => Err(format!("{other:?}")),
        }
    }

    /// Comes back until it is let in.
    pub(crate) async fn join_again(office: &Office, at: usize, until: Instant) -> Self {
        loop {
            match Self::join(office, at).await {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn say_ask(&mut self) {
        self.asked += 1;
        let ask = encode(&FromClient::RequestAccess {
            request: self.asked,
            resource: self.resource,
            names: Vec::new(),
            avoid: Vec::new(),
        });
        self.connection.sender().send(ask).await.unwrap();
    }

    pub(crate) async fn ask(&mut self) -> Result<GrantId, String> {
        self.say_ask().await;
        self.granted().await
    }

    /// The answer to what was asked.
    pub(crate) async fn granted(&mut self) -> Result<GrantId, String> {
        loop {
            match next(&mut self.connection).await? {
                ToClient::AccessGranted { grant, .. } => return Ok(grant),
                ToClient::AccessDenied { reason, .. } => return Err(reason.text),
                _ => {}
            }
        }
    }

    pub(crate) async fn revoked(&mut self) -> Result<GrantId, String> {
        loop {
            if let ToClient::AccessRevoked { grant, .. } = next(&mut self.connection).await? {
                return Ok(grant);
            }
        }
    }

    /// True if the portal says a time after which to come back.
    pub(crate) async fn is_told_when_to_come_back(&mut self) -> bool {
        loop {
            match next(&mut self.connection).await {
                Err(_) => return false,
                Ok(ToClient::Refused { retry_after_s, .. }) => return retry_after_s.is_some(),
                Ok(_) => {}
            }
        }
    }

    /// True if the session ends before anything is granted.
    pub(crate) async fn is_told_to_come_back(&mut self) -> bool {
        loop {
            match next(&mut self.connection).await {
                Err(error) => return error != "nothing came",
                Ok(ToClient::AccessGranted { .. }) => return false,
                Ok(_) => {}
            }
        }
    }
}

impl Gateway {
    pub(crate) async fn join(office: &Office, at: usize) -> Result<Self, String> {
        let name = "gw";
        let hello = encode(&FromGateway::Hello {
            protocols: vec![PROTOCOL],
            version: "0.1.0".to_owned(),
            machine: format!("machine of {name}"),
            name: name.to_owned(),
            public_key: key(name),
            ciphers: Vec::new(),
            candidates: vec!["192.0.2.1:51820".parse().unwrap()],
            draining: false,
            grants: Vec::new(),
            more_grants: false,
            features: Vec::new(),
        });
        let way = (office.gateway_token.as_str(), GATEWAY_SESSION_PATH);
        let mut connection = open(office, at, way, hello).await?;
        match next(&mut connection).await? {
            ToGateway::Welcome { .. } => Ok(Self { connection }),
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) async fn join_again(office: &Office, at: usize, until: Instant) -> Self {
        loop {
            match Self::join(office, at).await {
                Ok(gateway) => return gateway,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            sleep(PAUSE).await;
        }
    }

    /// Accepts the next grant.
    pub(crate) async fn accept(&mut self) -> Result<GrantId, String> {
        loop {
            if let ToGateway::Grant { token, .. } = next(&mut self.connection).await? {
                let grant = grant_of(&token);
                let names = Vec::new();
                let accepted = encode(&FromGateway::GrantAccepted { grant, names });
                let sent = self.connection.sender().send(accepted).await;
                return sent.map(|()| grant).map_err(|error| error.to_string());
            }
        }
    }

    pub(crate) async fn hears_nothing_for(&mut self, time: Duration) -> bool {
        timeout(time, self.connection.receive()).await.is_err()
    }

    /// True if the session ends without a grant.
    pub(crate) async fn hears_of_no_grant(&mut self) -> bool {
        loop {
            match next(&mut self.connection).await {
                Err(error) => return error != "nothing came",
                Ok(ToGateway::Grant { .. }) => return false,
                Ok(_) => {}
            }
        }
    }
}

/// The id in the claims of a grant, whose signature a real gateway checks.
fn grant_of(token: &str) -> GrantId {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let payload = token.split('.').nth(2).unwrap();
    let payload = URL_SAFE_NO_PAD.decode(payload).unwrap();
    let text = String::from_utf8_lossy(&payload);
    let at = text.find("grt_").unwrap();
    text[at..at + 30].parse().unwrap()
}

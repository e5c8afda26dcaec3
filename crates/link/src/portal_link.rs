//! The link to the portal over its attempts and connections: at most one of them at a time.

use crate::connect::connect_to;
use crate::{Closed, ConnectError, Connected, Connection, Destination};
use culvert_base::UnixTime;
use culvert_control::PortalAddresses;
use culvert_wire::messages::PortalSet;
use culvert_wire::token::CertificatePin;
use std::future::Future;
use std::net::SocketAddr;
use tokio::task::{JoinError, JoinHandle};

/// The link of a client or gateway to its portal. Dropping it ends a running attempt and closes a connection.
#[derive(Debug)]
pub struct PortalLink {
    destination: Destination,
    addresses: PortalAddresses,
    /// The pin by which the portal was known at the last connection.
    pin: Option<CertificatePin>,
    /// The portal's UDP port at the last connection.
    udp_port: Option<u16>,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle,
    Connecting(Attempt),
    Open(Connection),
}

/// A running attempt. Its task would go on alone, and the portal would see a session that nobody wants.
#[derive(Debug)]
struct Attempt(JoinHandle<Result<Connected, ConnectError>>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An event of the link.
#[derive(Debug)]
pub enum PortalEvent {
    /// There is a connection; the portal's clock, where it told it.
    Opened(Option<UnixTime>),
    /// The attempt failed.
    Failed(ConnectError),
    /// The portal sent a message.
    Text(String),
    /// The connection ended.
    Closed(Closed),
}

impl PortalLink {
    /// A link without an attempt. `addresses` are those of the portal; that of `destination` is not used.
    #[must_use]
    pub const fn new(destination: Destination, addresses: PortalAddresses) -> Self {
        let pin = destination.portal.pin;
        Self {
            destination,
            addresses,
            pin,
            udp_port: None,
            state: State::Idle,
        }
    }

    /// The URL of the session, or of the last attempt.
    #[must_use]
    pub fn url(&self) -> &str {
        self.addresses.current()
    }

    /// All URLs of the portal, as far as they are known.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.addresses.urls()
    }

    /// The pin by which the portal was known last; none where an authority vouches for it.
    #[must_use]
    pub const fn pin(&self) -> Option<CertificatePin> {
        self.pin
    }

    /// The portal said `welcome`.
    pub fn welcomed(&mut self) {
        self.addresses.welcomed();
    }

    /// The portal told of its addresses. Those that are to be kept, if they are others than before.
    pub fn learn(&mut self, told: &PortalSet) -> Option<&PortalSet> {
        self.addresses.learn(told).then_some(self.addresses.told())
    }

    /// True if another attempt ends as the last one did, as far as this depends on the address.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.addresses.is_last()
    }

    /// Begins an attempt. Ends the running attempt or connection, if there is one.
    pub fn connect(&mut self) {
        let destination = self.destination.clone();
        let next = self.addresses.begin_attempt();
        let attempt = tokio::spawn(async move { connect_to(&destination, &next).await });
        self.state = State::Connecting(Attempt(attempt));
    }

    /// Ends the attempt or connection; no event of it comes any more. The future closes the connection in
    /// order, which takes at most a second: queued messages leave first. Dropping the future closes it at once.
    pub fn disconnect(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let before = std::mem::replace(&mut self.state, State::Idle);
        async move {
            if let State::Open(connection) = before {
                connection.close().await;
            }
        }
    }

    /// The UDP address at which the portal of this connection tells ends their own address; none without one.
    #[must_use]
    pub fn udp_address(&self) -> Option<SocketAddr> {
        let State::Open(connection) = &self.state else {
            return None;
        };
        // The address of the connection is the proxy's then.
        if self.destination.proxy.is_some() {
            return None;
        }
        Some(SocketAddr::new(connection.remote()?, self.udp_port?))
    }

    /// True if there is a connection from an address that this machine no longer has.
    #[must_use]
    pub fn has_lost_its_address(&self) -> bool {
        matches!(&self.state, State::Open(connection) if !connection.has_its_address())
    }

    /// Queues a message; waits while the queue is full. Nothing happens without a connection. If the
    /// connection has ended, the next event says so.
    pub async fn send(&self, text: String) {
        if let State::Open(connection) = &self.state {
            let _ended = connection.sender().send(text).await;
        }
    }

    /// Queues a message without waiting; `false` if the queue is full or there is no connection. One that has
    /// just ended loses it, and [`Self::next`] tells the reason.
    #[must_use]
    pub fn try_send(&self, text: String) -> bool {
        match &self.state {
            State::Open(connection) => connection.sender().try_send(text),
            State::Idle | State::Connecting(_) => false,
        }
    }

    /// The next event; it never comes without an attempt or a connection. May be dropped and called
    /// again without loss.
    pub async fn next(&mut self) -> PortalEvent {
        match &mut self.state {
            State::Idle => std::future::pending().await,
            State::Connecting(Attempt(attempt)) => {
                let attempted = attempt.await;
                self.attempted(attempted)
            }
            State::Open(connection) => match connection.receive().await {
                Ok(text) => PortalEvent::Text(text),
                Err(closed) => {
                    self.state = State::Idle;
                    PortalEvent::Closed(closed)
                }
            },
        }
    }

    fn attempted(
        &mut self,
        attempted: Result<Result<Connected, ConnectError>, JoinError>,
    ) -> PortalEvent {
        self.state = State::Idle;
        match attempted {
            Ok(Ok(connected)) => {
                self.state = State::Open(connected.connection);
                self.pin = connected.pin;
                self.udp_port = connected.udp_port;
                PortalEvent::Opened(connected.portal_time)
            }
            Ok(Err(error)) => PortalEvent::Failed(error),
            Err(error) => PortalEvent::Failed(ConnectError::Local {
                what: "run an attempt to connect",
                source: std::io::Error::other(error),
            }),
        }
    }
}

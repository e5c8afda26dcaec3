//! Connecting from an address of one's own, to one portal after the other.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use culvert_control::ATTEMPT_LIMIT;
use culvert_link::{ConnectError, Connected, Destination, connect_over};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Addresses of this machine that clients and gateways come from, each from one of its own: a portal bounds the
/// sessions of one address. They begin at 127.64.0.0 and 127.32.0.0.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 0);
const GATEWAYS: Ipv4Addr = Ipv4Addr::new(127, 32, 0, 0);

/// The addresses of all portals, as a name of them would give them.
pub(crate) type Addresses = Arc<[SocketAddr]>;

/// A machine's way to the portals: each attempt goes to the next one, as behind a name with several addresses.
pub(crate) struct Dialer {
    destination: Destination,
    portals: Addresses,
    source: Ipv4Addr,
    attempts: usize,
}

impl Dialer {
    pub(crate) fn of_client(number: usize, destination: Destination, portals: Addresses) -> Self {
        Self::new(number, destination, portals, CLIENTS)
    }

    pub(crate) fn of_gateway(number: usize, destination: Destination, portals: Addresses) -> Self {
        Self::new(number, destination, portals, GATEWAYS)
    }

    fn new(number: usize, destination: Destination, portals: Addresses, first: Ipv4Addr) -> Self {
        // Some thousands: far fewer than the addresses behind the first.
        let offset = u32::try_from(number).unwrap_or_default();
        Self {
            destination,
            portals,
            source: Ipv4Addr::from_bits(first.to_bits() + offset),
            attempts: number,
        }
    }

    /// Connects to the next portal.
    pub(crate) async fn connect(&mut self) -> Result<Connected, ConnectError> {
        let portal = self.portals[self.attempts % self.portals.len()];
        self.attempts += 1;
        let authority = portal.to_string();
        let stream = match timeout(ATTEMPT_LIMIT, self.open(portal)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(ConnectError::Unreachable { authority, source }),
            Err(_elapsed) => {
                let seconds = ATTEMPT_LIMIT.as_secs();
                return Err(ConnectError::TimedOut { authority, seconds });
            }
        };
        connect_over(&self.destination, stream).await
    }

    async fn open(&self, portal: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        socket.bind((self.source, 0).into())?;
        socket.connect(portal).await
    }
}

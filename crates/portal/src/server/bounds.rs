//! How many connections there may be.

use super::places::{Place, Places};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once: 10,000 sessions of clients and gateways, and room for the API. At some 56 KiB
/// each for TLS and HTTP, 900 MiB at worst.
const MAX_CONNECTIONS: usize = 16_384;

/// Connections of one address, so that one alone can't take them all; 4,000 clients may share one.
const MAX_CONNECTIONS_PER_ADDRESS: u32 = 4_096;

/// TLS handshakes at once: each takes a processor for about a millisecond, so that the last of them
/// is served within a second on one.
const MAX_HANDSHAKES: usize = 1_024;

/// A connection that is let in.
pub(crate) struct Admitted {
    /// Lives as long as the connection.
    pub(crate) counted: Counted,
    /// Lives as long as its TLS handshake.
    pub(crate) handshake: OwnedSemaphorePermit,
}

/// A place among the connections.
#[derive(Debug)]
pub(crate) struct Counted {
    _connection: OwnedSemaphorePermit,
    _address: Place<IpAddr>,
}

/// How many connections there are.
pub(crate) struct Bounds {
    connections: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    /// At most as many entries as connections.
    by_address: Places<IpAddr>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            handshakes: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
            by_address: Places::default(),
        }
    }
}

impl Bounds {
    /// Nobody waits here: who is not admitted is told at once, by a reset, and tries again. A proxy
    /// speaks for many, so that the limit of one address is not its own.
    pub(crate) fn admit(&self, address: IpAddr, is_proxy: bool) -> Option<Admitted> {
        let connection = Arc::clone(&self.connections).try_acquire_owned().ok()?;
        let handshake = Arc::clone(&self.handshakes).try_acquire_owned().ok()?;
        let limit = match is_proxy {
            true => u32::MAX,
            false => MAX_CONNECTIONS_PER_ADDRESS,
        };
        let counted = Counted {
            _connection: connection,
            _address: self.by_address.take(address, limit)?,
        };
        Some(Admitted { counted, handshake })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others_and_gets_its_own_back() {
        let bounds = Bounds {
            handshakes: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            ..Bounds::default()
        };
        let greedy = "203.0.113.7".parse().unwrap();
        let mut held: Vec<_> = (0..MAX_CONNECTIONS_PER_ADDRESS)
            .map(|_| bounds.admit(greedy, false).unwrap())
            .collect();
        assert!(bounds.admit(greedy, false).is_none());
        assert!(
            bounds
                .admit("203.0.113.8".parse().unwrap(), false)
                .is_some()
        );
        assert!(bounds.admit(greedy, true).is_some());
        held.pop();
        assert!(bounds.admit(greedy, false).is_some());
        drop(held);
        assert!(bounds.by_address.is_empty());
    }

    #[test]
    fn handshakes_that_hang_do_not_take_connections_that_are_through() {
        let bounds = Bounds::default();
        let mut through = Vec::new();
        for _ in 0..MAX_HANDSHAKES * 2 {
            let admitted = bounds.admit("203.0.113.7".parse().unwrap(), true).unwrap();
            through.push(admitted.counted);
        }
        let hanging: Vec<_> = (0..MAX_HANDSHAKES)
            .map(|_| bounds.admit("203.0.113.7".parse().unwrap(), true).unwrap())
            .collect();
        assert!(
            bounds
                .admit("203.0.113.8".parse().unwrap(), false)
                .is_none()
        );
        drop(hanging);
        assert!(
            bounds
                .admit("203.0.113.8".parse().unwrap(), false)
                .is_some()
        );
    }
}

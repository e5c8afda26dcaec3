//! Containers and virtual machines of this host.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::HostError;
use crate::addresses::{NearNetwork, is_of_guest, near_networks};
use crate::routing::Network;

/// The time for which the networks of the host are believed: a container on a new bridge is
/// answered when it repeats its question. They are read at most once in that time, whatever a
/// neighbour sends.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// The time limit for reading them: programs of the host ask at the same sockets, and wait behind it. It takes a
/// millisecond where nobody changes interfaces by the hundred.
const READ_LIMIT: Duration = Duration::from_millis(500);

/// Tells guests of this host from its neighbours, by their addresses.
///
/// A guest by another kind of interface than a bridge is taken for a neighbour: its end here looks like an uplink.
#[derive(Debug)]
pub struct Guests {
    network: Network,
    near: Vec<NearNetwork>,
    read_at: Option<Instant>,
}

impl Guests {
    /// Opens a connection to the kernel. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Self, HostError> {
        Ok(Self {
            network: Network::open()?,
            near: Vec::new(),
            read_at: None,
        })
    }

    /// True for an address behind a bridge that joins containers and virtual machines of this host, and nobody else.
    pub async fn is_guest(&mut self, address: IpAddr) -> bool {
        let now = Instant::now();
        let is_old = |at: Instant| now.duration_since(at) >= BELIEVED_FOR;
        if self.read_at.is_none_or(is_old) {
            // Without an answer, nobody is known to be a guest.
            self.near.clear();
            self.read_at = Some(now);
            match tokio::time::timeout(READ_LIMIT, read(&mut self.network)).await {
                Ok(Ok(near)) => self.near = near,
                failed => tracing::debug!(?failed, "the networks of the host are not known"),
            }
        }
        is_of_guest(&self.near, address.to_canonical())
    }
}

async fn read(network: &mut Network) -> Result<Vec<NearNetwork>, HostError> {
    let links = network.links().await?;
    let addresses = network.all_addresses().await?;
    Ok(near_networks(&links, &addresses))
}

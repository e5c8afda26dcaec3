//! Containers and virtual machines of this host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::HostError;
use crate::addresses::is_bridge_of_guests;
use crate::routing::{Mark, Network};

/// How long an answer holds: a container that has just started waits no longer than a resolver does before it repeats
/// its query.
const KEPT_FOR: Duration = Duration::from_secs(4);

/// Addresses with an answer that holds: more than the guests of a host ask at once. Beyond it nobody is looked up, so a
/// neighbour that invents senders costs 64 look-ups a second.
const MAX_KEPT: usize = 256;

/// The longest look-up: programs of the host ask at the same sockets, and wait behind it. It takes a millisecond where
/// nobody changes interfaces by the hundred.
const LOOK_UP_LIMIT: Duration = Duration::from_millis(500);

/// Tells senders that are guests of this host from its neighbours.
#[derive(Debug)]
pub struct Guests {
    network: Network,
    mark: Mark,
    kept: BTreeMap<IpAddr, Kept>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    is_guest: bool,
    until: Instant,
}

impl Guests {
    /// Opens a connection to the kernel. Routes are looked up for packets with `mark`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn open(mark: Mark) -> Result<Self, HostError> {
        Ok(Self {
            network: Network::open()?,
            mark,
            kept: BTreeMap::new(),
        })
    }

    /// Whether packets to `address` leave by a bridge behind which nobody is but containers and virtual machines of this
    /// host. A guest by another kind of interface is taken for a neighbour: from here its interface looks like an uplink.
    pub async fn is_guest(&mut self, address: IpAddr) -> bool {
        let now = Instant::now();
        if let Some(kept) = self.kept.get(&address)
            && now < kept.until
        {
            return kept.is_guest;
        }
        if self.kept.len() >= MAX_KEPT {
            self.kept.retain(|_, kept| now < kept.until);
        }
        if self.kept.len() >= MAX_KEPT {
            return false;
        }
        let is_guest = match tokio::time::timeout(LOOK_UP_LIMIT, self.look_up(address)).await {
            Ok(Ok(is_guest)) => is_guest,
            Ok(Err(error)) => {
                tracing::debug!(%address, %error, "nobody knows whether this is a guest of the host");
                false
            }
            Err(_late) => false,
        };
        let until = now + KEPT_FOR;
        self.kept.insert(address, Kept { is_guest, until });
        is_guest
    }

    async fn look_up(&mut self, address: IpAddr) -> Result<bool, HostError> {
        let path = self.network.path(address.to_canonical(), self.mark).await?;
        // A guest is on the bridge itself: behind a gateway could be anybody.
        let Some(path) = path.filter(|path| path.gateway.is_none()) else {
            return Ok(false);
        };
        let links = self.network.links().await?;
        Ok(is_bridge_of_guests(path.interface_index, &links))
    }
}

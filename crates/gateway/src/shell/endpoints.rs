//! Public endpoints that are given by name: looked up again and again, since such names are those of
//! routers whose addresses change.

use crate::settings::PublicEndpoint;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The interval between look-ups of names: providers of names for changing addresses let them be
/// kept for a minute.
const INTERVAL: Duration = Duration::from_secs(60);

/// The time for which the system may look for one name before it counts as not found.
const LIMIT: Duration = Duration::from_secs(5);

/// The addresses of public endpoints, as they are known now.
pub(crate) struct Endpoints {
    pub(crate) addresses: watch::Receiver<Vec<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Endpoints {
    /// Begins to look them up. Addresses are known at once, names as the system finds them.
    pub(crate) fn start(wanted: Vec<PublicEndpoint>) -> Self {
        let mut known: Vec<Vec<SocketAddr>> = wanted.iter().map(literal).collect();
        let (sender, addresses) = watch::channel(known.concat());
        let has_names = known.iter().any(Vec::is_empty);
        let task = tokio::spawn(async move {
            let mut rounds = tokio::time::interval(INTERVAL);
            while !sender.is_closed() {
                rounds.tick().await;
                if !has_names {
                    // Held until the gateway ends: to the other end, a sender that is gone is an error.
                    sender.closed().await;
                }
                for (endpoint, known) in wanted.iter().zip(&mut known) {
                    if literal(endpoint).is_empty() {
                        look_up(endpoint, known).await;
                    }
                }
                let all = known.concat();
                sender.send_if_modified(|current| {
                    let has_changed = *current != all;
                    *current = all;
                    has_changed
                });
            }
        });
        Self { addresses, task }
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn literal(endpoint: &PublicEndpoint) -> Vec<SocketAddr> {
    let address = endpoint.host.parse::<IpAddr>().ok();
    let address = address.map(|address| SocketAddr::new(address, endpoint.port));
    address.into_iter().collect()
}

/// Earlier addresses stay if a look-up finds nothing.
async fn look_up(endpoint: &PublicEndpoint, known: &mut Vec<SocketAddr>) {
    let lookup = culvert_host::look_up(endpoint.host.clone(), endpoint.port);
    let found = tokio::time::timeout(LIMIT, lookup).await;
    let found = found.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    match found {
        Ok(mut addresses) => {
            addresses.sort_unstable();
            addresses.dedup();
            *known = addresses;
        }
        Err(error) => {
            tracing::warn!(host = endpoint.host, %error, "a public endpoint was not found");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_looked_up_and_addresses_are_taken_as_they_are() {
        let wanted = ["localhost:7", "198.51.100.1:51820", "[2001:db8::1]:1"];
        let wanted = wanted.map(|text| text.parse().unwrap()).to_vec();
        let mut endpoints = Endpoints::start(wanted);
        let literal: [SocketAddr; 2] = [
            "198.51.100.1:51820".parse().unwrap(),
            "[2001:db8::1]:1".parse().unwrap(),
        ];
        let found = endpoints
            .addresses
            .wait_for(|addresses| addresses.iter().any(|at| at.ip().is_loopback()))
            .await
            .unwrap()
            .clone();
        assert!(literal.iter().all(|address| found.contains(address)));
        assert!(found.iter().any(|address| address.port() == 7));
    }
}

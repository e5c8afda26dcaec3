//! The traffic of each client, and its rate.

use super::tunnel::TrafficCounts;
use culvert_base::{BootTime, whole_millis};
use culvert_wire::PublicKey;
use std::collections::BTreeMap;

/// The measurements of the last two looks.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    looked: BootTime,
    peers: BTreeMap<PublicKey, Peer>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    rx_bytes: u64,
    tx_bytes: u64,
    rates: Rates,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) rx_bytes_per_s: u64,
    pub(crate) tx_bytes_per_s: u64,
}

impl Traffic {
    /// Takes the rates since the last look.
    pub(crate) fn look(&mut self, counts: &TrafficCounts, now: BootTime) {
        let elapsed_ms = whole_millis(now.saturating_since(self.looked)).max(1);
        let rate =
            |bytes: u64, then: u64| bytes.saturating_sub(then).saturating_mul(1000) / elapsed_ms;
        let peers = counts.peers.iter().map(|peer| {
            // A client that came meanwhile has its rates at the next look.
            let rates = self
                .peers
                .get(&peer.key)
                .map_or(Rates::default(), |before| Rates {
                    rx_bytes_per_s: rate(peer.rx_bytes, before.rx_bytes),
                    tx_bytes_per_s: rate(peer.tx_bytes, before.tx_bytes),
                });
            let (rx_bytes, tx_bytes) = (peer.rx_bytes, peer.tx_bytes);
            let seen = Peer {
                rx_bytes,
                tx_bytes,
                rates,
            };
            (peer.key, seen)
        });
        self.peers = peers.collect();
        self.looked = now;
    }

    pub(crate) fn rates(&self, key: &PublicKey) -> Rates {
        let peer = self.peers.get(key);
        peer.map_or(Rates::default(), |peer| peer.rates)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tunnel::PeerTraffic;
    use super::*;

    fn counts(peers: &[(u8, u64, u64)]) -> TrafficCounts {
        let peers = peers.iter().map(|(key, rx_bytes, tx_bytes)| PeerTraffic {
            key: PublicKey::from_bytes([*key; 32]),
            endpoint: None,
            handshake: None,
            heard_ms_ago: None,
            rx_bytes: *rx_bytes,
            tx_bytes: *tx_bytes,
        });
        TrafficCounts {
            peers: peers.collect(),
            ..TrafficCounts::default()
        }
    }

    #[test]
    fn rates_are_each_clients_own_since_the_last_look() {
        let mut traffic = Traffic::default();
        traffic.look(
            &counts(&[(1, 1_000, 0), (2, 0, 0)]),
            BootTime::from_millis(10_000),
        );
        traffic.look(
            &counts(&[(1, 6_000, 500), (3, 7_000, 7_000)]),
            BootTime::from_millis(15_000),
        );
        let of = |key| {
            let rates = traffic.rates(&PublicKey::from_bytes([key; 32]));
            (rates.rx_bytes_per_s, rates.tx_bytes_per_s)
        };
        assert_eq!(of(1), (1_000, 100));
        assert_eq!(of(2), (0, 0), "it is gone");
        assert_eq!(of(3), (0, 0), "it has just come");
    }
}

//! Relays in the messages of the portal, for clients and gateways alike.

use super::grant::RelayGrant;
use super::output::RelayReached;
use super::stream::TlsPlace;
use culvert_base::BootTime;
use culvert_relay_core::registration::Permission;
use culvert_wire::messages::{RelayAccess, RelayReach};
use std::net::SocketAddr;
use std::time::Duration;

/// The least time between two reports of round trips alone.
const REACHED_EVERY: Duration = Duration::from_secs(60);

/// The permission to use a relay, as the portal gives it.
#[must_use]
pub fn relay_grant(access: &RelayAccess) -> RelayGrant {
    let with_port = |port: u16| {
        let addresses = access.place.addresses.iter();
        let addresses = addresses.map(move |address| SocketAddr::new(address.ip(), port));
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        // All are asked at once, IPv6 first: it wins where it is as fast.
        addresses.sort_by_key(SocketAddr::is_ipv4);
        addresses
    };
    RelayGrant {
        relay: access.place.relay,
        addresses: with_port(access.port),
        tls: access.place.tls.as_ref().map(|tls| TlsPlace {
            addresses: with_port(tls.port),
            pin: tls.pin,
            gateway_port: access.port,
        }),
        permission: Permission {
            token: access.token.clone(),
            key: access.key.clone(),
        },
    }
}

/// The relays that the portal was told of as reached, in this session.
#[derive(Debug, Default)]
pub struct ToldReached {
    told: Vec<RelayReach>,
    at: BootTime,
}

impl ToldReached {
    /// A new session begins: nothing was told in it.
    pub fn forget(&mut self) {
        self.told.clear();
    }

    /// The message's relays, if they are news: another one is reached or registered, or a round trip is another by more
    /// than a quarter.
    pub fn poll(&mut self, reached: &[RelayReached], now: BootTime) -> Option<Vec<RelayReach>> {
        let reached: Vec<RelayReach> = reached.iter().map(reach).collect();
        let is_early = !now.has_passed(self.at, REACHED_EVERY);
        let is_told = |(one, other): (&RelayReach, &RelayReach)| {
            let difference = one.round_trip_us.abs_diff(other.round_trip_us);
            let is_near = is_early || difference <= other.round_trip_us / 4;
            let kind = |reach: &RelayReach| (reach.relay, reach.registered, reach.tls);
            kind(one) == kind(other) && is_near
        };
        let are_told =
            reached.len() == self.told.len() && reached.iter().zip(&self.told).all(is_told);
        if are_told {
            return None;
        }
        self.told.clone_from(&reached);
        self.at = now;
        Some(reached)
    }
}

fn reach(reached: &RelayReached) -> RelayReach {
    RelayReach {
        relay: reached.relay,
        round_trip_us: u32::try_from(reached.round_trip.as_micros()).unwrap_or(u32::MAX),
        registered: reached.is_registered,
        tls: reached.by_tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::RelayId;

    fn reached(round_trip_ms: u64, is_registered: bool) -> [RelayReached; 1] {
        [RelayReached {
            relay: RelayId::from_bytes([1; 16]),
            round_trip: Duration::from_millis(round_trip_ms),
            is_registered,
            by_tls: false,
        }]
    }

    #[test]
    fn round_trips_are_told_when_they_differ_and_registrations_at_once() {
        let mut told = ToldReached::default();
        let at = |seconds: u64| BootTime::from_millis(1_000_000 + seconds * 1_000);
        assert!(told.poll(&reached(40, false), at(0)).is_some());
        assert!(told.poll(&reached(40, false), at(1)).is_none());
        assert!(told.poll(&reached(40, true), at(2)).is_some());
        assert!(told.poll(&reached(80, true), at(3)).is_none(), "too early");
        assert!(told.poll(&reached(80, true), at(62)).is_some());
        assert!(told.poll(&reached(90, true), at(200)).is_none(), "too near");
        assert!(told.poll(&[], at(201)).is_some());
        told.forget();
        assert!(told.poll(&[], at(202)).is_none(), "nothing is no news");
    }
}

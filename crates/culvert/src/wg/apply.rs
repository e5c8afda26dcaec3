//! Between the configuration socket and the engine: requests become changes, the engine's
//! configuration becomes an answer, its errors become error numbers.

use super::serve::{Control, UapiRefusal};
use super::status::Status;
use culvert_engine::{self as engine, Device, EngineError};
use culvert_session::PresharedKey;
use culvert_tun::TunError;
use culvert_uapi::{
    Change, Configuration, Errno, FirewallMark, InterfaceName, KeepaliveInterval, PeerChange,
    PeerConfiguration, SetRequest,
};
use culvert_udp::UdpError;
use std::collections::BTreeMap;
use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Instant;

/// A running device as the configuration socket and the metrics see it.
pub(crate) struct Interface {
    device: Arc<Device>,
    started: Instant,
}

impl Interface {
    /// `device`, which has just started.
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            started: Instant::now(),
        }
    }

    /// Counters and state at this moment.
    pub(crate) fn status(&self) -> Result<Status, EngineError> {
        let status = self.device.status()?;
        Ok(Status::new(&status, self.started.elapsed()))
    }
}

impl Control for Interface {
    fn set(&self, request: SetRequest) -> Result<(), UapiRefusal> {
        let change = change(request, index_of)?;
        self.device.apply(change).map_err(|error| refusal(&error))
    }

    fn get(&self) -> Result<Configuration, UapiRefusal> {
        let configuration = self.device.configuration();
        configuration.map(answer).map_err(|error| refusal(&error))
    }

    fn status(&self) -> Result<String, UapiRefusal> {
        let status = Self::status(self).map_err(|error| refusal(&error))?;
        serde_json::to_string(&status).map_err(|error| UapiRefusal {
            errno: Errno::INPUT_OUTPUT,
            reason: error.to_string(),
        })
    }
}

/// The change that `request` asks of the engine.
fn change(
    request: SetRequest,
    index_of: impl Fn(&InterfaceName) -> Option<u32>,
) -> Result<engine::Change, UapiRefusal> {
    let SetRequest { interface, peers } = request;
    let changes = peers
        .into_iter()
        .map(|peer| peer_change(peer, &index_of))
        .collect::<Result<_, _>>()?;
    Ok(engine::Change {
        private_key: interface.private_key.into_option(),
        listen_port: interface.listen_port,
        mark: match interface.fwmark {
            Change::Keep => None,
            Change::Remove => Some(0),
            Change::Set(FirewallMark(mark)) => Some(mark.get()),
        },
        suite: interface.suite,
        replace_peers: interface.replace_peers,
        peers: changes,
        resume: Vec::new(),
        stamp_epoch: None,
        service_routes: None,
        gate: None,
        inbound: None,
        inside: None,
    })
}

fn peer_change(
    peer: PeerChange,
    index_of: impl Fn(&InterfaceName) -> Option<u32>,
) -> Result<engine::PeerChange, UapiRefusal> {
    let endpoint = peer.endpoint.map(|endpoint| endpoint.resolve(index_of));
    let endpoint = endpoint.transpose().map_err(|error| UapiRefusal {
        errno: Errno::NO_DEVICE,
        reason: error.to_string(),
    })?;
    Ok(engine::PeerChange {
        public_key: peer.public_key,
        remove: peer.remove,
        update_only: peer.update_only,
        preshared_key: match peer.preshared_key {
            Change::Keep => None,
            Change::Remove => Some(PresharedKey::NONE),
            Change::Set(key) => Some(key),
        },
        endpoint,
        candidates: None,
        begin_handshake: false,
        gate_key: None,
        watch: false,
        keepalive: peer
            .keepalive
            .into_option()
            .map(|interval| interval.map(KeepaliveInterval::duration)),
        suite: peer.suite.into_option(),
        replace_allowed_ips: peer.replace_allowed_ips,
        allowed_ips: peer.allowed_ips,
        counted: BTreeMap::new(),
    })
}

fn index_of(name: &InterfaceName) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    // Any socket will do to ask the kernel about interfaces.
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    rustix::net::netdevice::name_to_index(&socket, name.as_str()).ok()
}

fn answer(configuration: engine::Configuration) -> Configuration {
    Configuration {
        private_key: configuration.private_key,
        listen_port: Some(configuration.listen_port).filter(|&port| port != 0),
        fwmark: NonZeroU32::new(configuration.mark).map(FirewallMark),
        suite: configuration.suite,
        peers: configuration.peers.into_iter().map(peer_answer).collect(),
    }
}

fn peer_answer(peer: engine::PeerConfiguration) -> PeerConfiguration {
    PeerConfiguration {
        public_key: peer.public_key,
        preshared_key: peer.preshared_key,
        suite: peer.suite,
        endpoint: peer.endpoint,
        last_handshake: peer.last_handshake,
        sent_bytes: peer.tx_bytes,
        received_bytes: peer.rx_bytes,
        keepalive: peer
            .keepalive
            .and_then(|interval| NonZeroU16::new(u16::try_from(interval.as_secs()).ok()?))
            .map(KeepaliveInterval),
        allowed_ips: peer.allowed_ips,
    }
}

fn refusal(error: &EngineError) -> UapiRefusal {
    UapiRefusal {
        errno: errno(error),
        reason: error.to_string(),
    }
}

fn errno(error: &EngineError) -> Errno {
    let number = |error: &io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    match error {
        EngineError::Workers(_) => Errno::INVALID,
        EngineError::TooManyPeers => Errno::NO_MEMORY,
        EngineError::NoFamily(_) | EngineError::Udp(UdpError::NoSuchFamily { .. }) => {
            Errno::FAMILY_NOT_SUPPORTED
        }
        EngineError::Ended => Errno::NO_DEVICE,
        EngineError::Udp(UdpError::PortTaken { .. }) => Errno::ADDRESS_IN_USE,
        EngineError::Udp(UdpError::PortReserved { .. }) => Errno::ACCESS,
        EngineError::Udp(UdpError::MarkRefused) | EngineError::Tun(TunError::NeedsNetAdmin) => {
            Errno::NOT_PERMITTED
        }
        EngineError::System { source, .. }
        | EngineError::Udp(UdpError::System { source, .. })
        | EngineError::Tun(TunError::System { source, .. }) => number(source),
        _ => Errno::INPUT_OUTPUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_uapi::{AllowedIpChange, parse_set};
    use std::time::Duration;

    const A: &str = "public_key=aa00000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn what_a_request_does_not_name_is_kept() {
        let change = change_of(A);
        assert!(change.private_key.is_none() && change.listen_port.is_none());
        assert!(change.mark.is_none() && change.suite.is_none() && !change.replace_peers);
        let [peer] = &change.peers[..] else {
            panic!("one peer");
        };
        assert!(peer.preshared_key.is_none() && peer.keepalive.is_none() && peer.suite.is_none());
        assert!(!peer.replace_allowed_ips && !peer.remove && !peer.update_only);
    }

    #[test]
    fn zero_takes_away() {
        let zeros = "0".repeat(64);
        let change = change_of(&format!(
            "private_key={zeros}\nfwmark=0\n{A}\npreshared_key={zeros}\n\
             persistent_keepalive_interval=0\ncipher="
        ));
        assert_eq!(change.private_key, Some(None));
        assert_eq!(change.mark, Some(0));
        assert_eq!(change.peers[0].preshared_key, Some(PresharedKey::NONE));
        assert_eq!(change.peers[0].keepalive, Some(None));
        assert_eq!(change.peers[0].suite, Some(None));
    }

    #[test]
    fn values_arrive() {
        let change = change_of(&format!(
            "listen_port=1\nfwmark=2\n{A}\npersistent_keepalive_interval=3\n\
             endpoint=192.0.2.1:4\nallowed_ip=10.0.0.0/8\nallowed_ip=-fd00::/9"
        ));
        assert_eq!((change.listen_port, change.mark), (Some(1), Some(2)));
        let peer = &change.peers[0];
        assert_eq!(peer.keepalive, Some(Some(Duration::from_secs(3))));
        assert_eq!(peer.endpoint, Some("192.0.2.1:4".parse().unwrap()));
        assert_eq!(
            peer.allowed_ips,
            [
                AllowedIpChange::Add("10.0.0.0/8".parse().unwrap()),
                AllowedIpChange::Remove("fd00::/9".parse().unwrap()),
            ]
        );
    }

    #[test]
    fn an_endpoint_on_an_unknown_interface_refuses_the_whole_request() {
        let request = format!("set=1\n{A}\nendpoint=[fe80::1%nosuch]:1\n\n");
        let request = parse_set(request.as_bytes()).unwrap();
        let refused = change(request, |_| None).unwrap_err();
        assert_eq!(refused.errno, Errno::NO_DEVICE);
    }

    #[test]
    fn the_loopback_interface_has_an_index() {
        assert_eq!(index_of(&InterfaceName::new("lo").unwrap()), Some(1));
        assert_eq!(index_of(&InterfaceName::new("nosuch-if").unwrap()), None);
    }

    fn change_of(lines: &str) -> engine::Change {
        let request = parse_set(format!("set=1\n{lines}\n\n").as_bytes()).unwrap();
        change(request, |_| Some(7)).unwrap()
    }
}

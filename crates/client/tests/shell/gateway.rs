//! A gateway as the client's data plane meets it: a device with one peer, and an address behind it.

use crate::portal::{CLIENT, Candidates};
use anyhow::Result;
use culvert_base::Prefix;
use culvert_datapath::Mechanisms;
use culvert_engine::{AllowedIpChange, Change, Device, GateKind, Options, PeerChange};
use culvert_host::WakeUp;
use culvert_ids::{GatewayId, GrantId, ResourceId};
use culvert_lab::Namespace;
use culvert_session::{PresharedKey, PrivateKey, PublicKey, Suite};
use culvert_wire::messages::{Existence, Interface, ResolvedName, ToClient, WantedName};
use culvert_wire::{Cipher, Timestamp};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Behind the gateway.
pub(crate) const BEHIND: &str = "10.77.0.1";

pub(crate) struct Gateway {
    pub(crate) device: Arc<Device>,
    /// Woken when messages about paths wait in the device.
    pub(crate) path_messages: Arc<WakeUp>,
    number: u8,
    key: PrivateKey,
    namespace: Namespace,
}

impl Gateway {
    /// The gateway of this number in `namespace`, for the client with this key.
    pub(crate) fn start(namespace: &Namespace, number: u8, client: PublicKey) -> Self {
        let key = PrivateKey::from_bytes([number; 32]);
        let interface = format!("gw{number}");
        let path_messages = Arc::new(WakeUp::default());
        let device = namespace.inside(|| {
            let device = Device::start(Options {
                interface: interface.clone(),
                workers: 1,
                mtu: 1420,
                mechanisms: Mechanisms::ALL,
                suite: Suite::ChaCha20Poly1305,
                unrouted: None,
                path_messages: Some(path_messages.waker()),
                gate: GateKind::Open,
                listen_port: 0,
                mark: 0,
                bind_when_looped: false,
                store: None,
            })?;
            let mut peer = PeerChange::new(client);
            peer.preshared_key = Some(PresharedKey::from_bytes([5; 32]));
            peer.suite = Some(Some(Suite::Aes256Gcm));
            let own = Prefix::host(CLIENT.ipv4.into());
            peer.allowed_ips = vec![AllowedIpChange::Add(own)];
            device.apply(Change {
                private_key: Some(Some(PrivateKey::from_bytes([number; 32]))),
                listen_port: Some(port(number)),
                peers: vec![peer],
                ..Change::default()
            })?;
            Ok(device)
        });
        let device = device.unwrap();
        for line in [
            format!("ip link set {interface} up"),
            format!("ip address replace {BEHIND}/32 dev lo"),
            // The last gateway that was granted has the way back.
            format!("ip route replace {}/32 dev {interface}", CLIENT.ipv4),
        ] {
            namespace.run(&line).unwrap();
        }
        Self {
            device: Arc::new(device),
            path_messages,
            number,
            key,
            namespace: namespace.clone(),
        }
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// Ends without a word.
    pub(crate) fn kill(self) {
        self.device.stop();
        self.device.wait().unwrap();
    }

    /// Gives the gateway the address that a client knows a name by, in place of a translation.
    pub(crate) fn stand_for(&self, name: &WantedName) -> Result<()> {
        let address = name.ipv4;
        let add = format!("ip address add {address}/32 dev lo");
        self.namespace.run(&add).map(drop)
    }

    /// The portal's grant of a resource at this gateway.
    pub(crate) fn grant(
        &self,
        request: u64,
        resource: ResourceId,
        grant: u8,
        candidates: Candidates,
        names: &[WantedName],
    ) -> ToClient {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let expires = now + Duration::from_secs(3600);
        let expires_ms = u64::try_from(expires.as_millis()).unwrap();
        ToClient::AccessGranted {
            relays: Vec::new(),
            request,
            resource,
            grant: GrantId::from_bytes([grant; 16]),
            expires: Timestamp::from_unix_ms(expires_ms),
            gateway: gateway_id(self.number),
            gateway_name: format!("office-{}", self.number),
            gateway_key: self.key.public_key(),
            gateway_interface: Interface {
                ipv4: [100, 64, 0, self.number].into(),
                ipv6: format!("fd00:2021:1111::{:x}", self.number)
                    .parse()
                    .unwrap(),
            },
            candidates,
            preshared_key: PresharedKey::from_bytes([5; 32]),
            cipher: Cipher::Aes256Gcm,
            names: names
                .iter()
                .map(|name| ResolvedName {
                    name: name.name.clone(),
                    ipv4: true,
                    ipv6: false,
                    existence: Existence::Exists,
                })
                .collect(),
            answers_dns: false,
        }
    }
}

pub(crate) fn gateway_id(number: u8) -> GatewayId {
    GatewayId::from_bytes([number; 16])
}

/// The port at which the gateway of this number listens.
pub(crate) const fn port(number: u8) -> u16 {
    51820 + number as u16
}

//! A relay with sockets, and the gateway's end of it.

use crate::gateway::Gateway;
use culvert_base::{BootTime, PresharedKey};
use culvert_ids::{ClientId, RelayId};
use culvert_lab::Namespace;
use culvert_path::{Guard, RelayGrant, Relays, RelaysOutput, Selection, SelectionOutput};
use culvert_relay_core::probe::{PairEnd, PairProbes};
use culvert_relay_core::registration::Permission;
use culvert_relay_core::relay::{Now, Relay, RelaySettings, Run};
use culvert_relay_core::{Message, SharedBudget};
use culvert_wire::messages::{RelayAccess, RelayClaims, RelayPlace};
use culvert_wire::{PublicKey, Timestamp};
use pasetors::keys::SymmetricKey;
use pasetors::version4::{LocalToken, V4};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const MAIN_PORT: u16 = 3478;
const GATEWAY_PORT: u16 = 3479;
const PORTAL_KEY: [u8; 32] = [42; 32];
const RELAY: RelayId = RelayId::from_bytes([8; 16]);

/// A relay that runs until it is dropped.
pub(crate) struct RunningRelay {
    at: IpAddr,
    stop: Arc<AtomicBool>,
}

/// The gateway's tasks: its registration, and answers to probes.
pub(crate) struct Attended(JoinHandle<()>);

impl RunningRelay {
    /// Runs in `namespace`, where it is reached at `at`.
    pub(crate) fn start(namespace: &Namespace, at: IpAddr) -> Self {
        let mut relay = Relay::new(RelaySettings {
            ports: vec![GATEWAY_PORT],
            clients_per_port: 16,
            workers: NonZeroU32::MIN,
            seed: [9; 32],
            total: Arc::new(SharedBudget::new(None)),
        });
        relay.set_identity(RELAY, &PresharedKey::from_bytes(PORTAL_KEY));
        let relay = Arc::new(Mutex::new(relay));
        let stop = Arc::new(AtomicBool::new(false));
        for port in [MAIN_PORT, GATEWAY_PORT] {
            let bind = || Ok(UdpSocket::bind(("0.0.0.0", port))?);
            let socket = namespace.inside(bind).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let (relay, stop) = (Arc::clone(&relay), Arc::clone(&stop));
            std::thread::spawn(move || serve(&socket, port, &relay, &stop));
        }
        Self { at, stop }
    }

    /// The permission of a client, or of the gateway itself.
    pub(crate) fn access(&self, client: Option<ClientId>, key: PublicKey) -> RelayAccess {
        let now = culvert_engine::unix_time();
        let proof = PresharedKey::from_bytes([client.map_or(1, |_| 2); 32]);
        let expires = Timestamp::from(now.saturating_add(Duration::from_secs(3_600)));
        let claims = RelayClaims {
            relay: RELAY,
            port: GATEWAY_PORT,
            gateway: crate::gateway::gateway_id(1),
            client,
            public_key: key,
            key: proof.clone(),
            rate_bytes_per_s: 1 << 40,
            iat: Timestamp::from(now),
            exp: expires,
        };
        let payload = serde_json::to_vec(&claims).unwrap();
        let portal_key = SymmetricKey::<V4>::from(&PORTAL_KEY).unwrap();
        RelayAccess {
            place: self.place(),
            port: GATEWAY_PORT,
            token: LocalToken::encrypt(&portal_key, &payload, None, None).unwrap(),
            key: proof,
            expires,
        }
    }

    pub(crate) fn place(&self) -> RelayPlace {
        RelayPlace {
            relay: RELAY,
            name: "fra-1".to_owned(),
            addresses: vec![SocketAddr::new(self.at, MAIN_PORT)],
            tls: None,
        }
    }

    /// Registers the gateway, and answers its client's probes.
    pub(crate) fn attend(&self, gateway: &Gateway, key: PublicKey) -> Attended {
        let access = self.access(None, key);
        let now = culvert_engine::boot_time();
        let mut relays = Relays::new([3; 32]);
        let grant = RelayGrant {
            relay: RELAY,
            addresses: vec![SocketAddr::new(self.at, GATEWAY_PORT)],
            tls: None,
            permission: Permission {
                token: access.token,
                key: access.key,
            },
        };
        relays.set((), vec![grant], now);
        let secret = PresharedKey::from_bytes([5; 32]);
        let probes = PairProbes::new(&secret, PairEnd::Gateway).unwrap();
        let selection = Selection::new(probes, PairEnd::Gateway, Guard::default(), 1);
        let (device, waker) = (
            Arc::clone(&gateway.device),
            Arc::clone(&gateway.path_messages),
        );
        Attended(tokio::spawn(async move {
            let mut ends = (relays, selection);
            loop {
                tokio::select! {
                    () = waker.woken() => {}
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
                attend_once(&device, &mut ends);
            }
        }))
    }
}

fn attend_once(device: &culvert_engine::Device, ends: &mut (Relays<()>, Selection)) {
    let (relays, selection) = ends;
    let now = culvert_engine::boot_time();
    while let Some(message) = device.next_path_message() {
        if !relays.handle_datagram(message.source, message.datagram(), now)
            && let Some(probe) = Message::parse(message.datagram())
        {
            selection.handle_message(&probe, message.source, now);
        }
    }
    relays.handle_timeout(now);
    selection.set_relays(&relays.known(()), &relays.usable(()), now);
    if selection.poll_timeout().is_some_and(|due| due <= now) {
        selection.handle_timeout(now);
    }
    while let Some(output) = relays.poll_output() {
        if let RelaysOutput::Send { datagram, to } = output {
            device.send_path_message(&datagram, to, None);
        }
    }
    while let Some(output) = selection.poll_output() {
        if let SelectionOutput::Send { datagram, to } = output {
            device.send_path_message(&datagram, to, None);
        }
    }
}

fn serve(socket: &UdpSocket, port: u16, relay: &Mutex<Relay>, stop: &AtomicBool) {
    let mut buffer = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        let boot: BootTime = culvert_engine::boot_time();
        let now = Now {
            boot,
            unix: culvert_engine::unix_time(),
        };
        let mut relay_now = relay.lock().unwrap();
        relay_now.handle_timeout(now);
        drop(relay_now);
        let Ok((len, source)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let run = Run {
            source,
            local: None,
            bytes: &buffer[..len],
            stride: len.max(1),
        };
        let mut relay = relay.lock().unwrap();
        let decisions = match port {
            MAIN_PORT => relay.handle_main_run(MAIN_PORT, &run, now),
            _ => relay.handle_run(0, &run, now),
        };
        for send in &decisions.sends {
            let _unsent = socket.send_to(&run.bytes[send.start..send.end], send.to.address);
        }
        for reply in &decisions.replies {
            let _unsent = socket.send_to(reply.datagram(), source);
        }
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

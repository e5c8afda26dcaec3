//! Prints the time that a gateway's core takes for a grant, by the number of clients that have some:
//! `cargo run --release -p culvert-gateway-core --example grant_speed`.
//!
//! Each grant is verified, entered, and in the table that the data plane is handed. The engine behind it is left out.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_base::{BootTime, UnixTime};
use culvert_gateway_core::{Gateway, Options, Output};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use culvert_policy::gate::GateTable;
use culvert_wire::messages::{
    FromGateway, GrantLabels, Interface, PortalSet, Ranges, Sequenced, ToGateway,
};
use culvert_wire::model::{Filter, Target, TargetKind};
use culvert_wire::{Cipher, GrantClaims, PROTOCOL, PresharedKey, PublicKey, Timestamp, encode};
use pasetors::keys::AsymmetricSecretKey;
use pasetors::version4::{PublicToken, V4};
use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

const UNIX: UnixTime = UnixTime::from_millis(1_800_000_000_000);
const NOW: BootTime = BootTime::from_millis(50_000);
const HOUR_MS: u64 = 3_600_000;
const GATEWAY: GatewayId = GatewayId::from_bytes([1; 16]);
const GRANTS_PER_CLIENT: u32 = 3;
/// Grants that are measured once all clients have theirs.
const MEASURED: u32 = 1_000;
/// The portal's texts that are handed over at once.
const BATCH: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:>8} {:>8} {:>16} {:>16} {:>14} {:>14}",
        "clients", "grants", "first, one by one", "in batches", "one more", "in batches"
    );
    for clients in [100, 1_000, 10_000] {
        let count = clients * GRANTS_PER_CLIENT;
        let mut micros = Vec::new();
        for batch in [1, BATCH] {
            let mut world = World::open()?;
            micros.push(world.measure(0..count, clients, batch)?);
            micros.insert(0, world.measure(count..count + MEASURED, clients, batch)?);
        }
        let [batch_more, more, first, batch_first] = micros[..] else {
            return Err("four times were measured".into());
        };
        println!(
            "{clients:>8} {count:>8} {first:>16.1} {batch_first:>16.1} {more:>14.1} {batch_more:>14.1}"
        );
    }
    println!("microseconds a grant; a first grant of a client makes a peer too");
    Ok(())
}

/// A gateway in a session with a portal that signs.
struct World {
    gateway: Gateway,
    secret: AsymmetricSecretKey<V4>,
    seq: u64,
    accepted: u32,
    table: Option<Arc<GateTable>>,
}

impl World {
    fn open() -> Result<Self, Box<dyn Error>> {
        let seed = [7; 32];
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)?;
        let public = pair.public_key().as_ref();
        let secret = AsymmetricSecretKey::from(&[seed.as_slice(), public].concat())
            .map_err(|error| format!("{error:?}"))?;
        let options = Options {
            machine: "a-machine".to_owned(),
            name: "gw".to_owned(),
            version: "1.2.3".to_owned(),
            public_key: PublicKey::from_bytes([250; 32]),
            ciphers: vec![Cipher::ChaCha20Poly1305],
        };
        let mut world = Self {
            gateway: Gateway::new(options, Vec::new(), [7; 32], NOW),
            secret,
            seq: 0,
            accepted: 0,
            table: None,
        };
        world.gateway.handle_timeout(NOW);
        world.execute();
        world.gateway.handle_connected(UNIX, NOW);
        let welcome = world.text(welcome(STANDARD.encode(public)));
        world.gateway.handle_text(&welcome, NOW);
        world.execute();
        Ok(world)
    }

    /// Microseconds for each of these grants.
    fn measure(
        &mut self,
        numbers: std::ops::Range<u32>,
        clients: u32,
        batch: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let count = numbers.len();
        let mut texts = Vec::new();
        for number in numbers {
            let claims = claims(number, clients);
            let payload = serde_json::to_vec(&claims)?;
            let token = PublicToken::sign(&self.secret, &payload, None, None)
                .map_err(|error| format!("{error:?}"))?;
            texts.push(self.text(ToGateway::Grant {
                token,
                preshared_key: PresharedKey::from_bytes([3; 32]),
                replaces: None,
                names: Vec::new(),
                labels: GrantLabels::default(),
            }));
        }
        self.accepted = 0;
        let started = Instant::now();
        for batch in texts.chunks(batch) {
            for text in batch {
                self.gateway.take_text(text, NOW);
            }
            self.gateway.finish_texts(NOW);
            self.execute();
            while self.gateway.waiting_grants() > 0 {
                self.gateway.handle_timeout(NOW);
                self.execute();
            }
        }
        let micros = started.elapsed().as_secs_f64() * 1e6 / count as f64;
        assert_eq!(self.accepted as usize, count, "every grant is in force");
        Ok(micros)
    }

    fn text(&mut self, message: ToGateway) -> String {
        self.seq += 1;
        encode(&Sequenced {
            epoch: 1,
            seq: self.seq,
            message,
        })
    }

    fn execute(&mut self) {
        while let Some(output) = self.gateway.poll_output() {
            match output {
                // The workers drop the table of before.
                Output::Engine { table, .. } => self.table = Some(table),
                Output::ToPortal(FromGateway::GrantAccepted { .. }) => self.accepted += 1,
                _ => {}
            }
        }
    }
}

fn welcome(key: String) -> ToGateway {
    ToGateway::Welcome {
        protocol: PROTOCOL,
        gateway: GATEWAY,
        site: None,
        site_name: None,
        interface: Interface {
            ipv4: Ipv4Addr::new(100, 64, 0, 1),
            ipv6: "fd00:2021:1111::1".parse().unwrap_or(Ipv6Addr::LOCALHOST),
        },
        ranges: Ranges {
            machines_ipv4: "100.64.0.0/11".to_owned(),
            machines_ipv6: "fd00:2021:1111::/64".to_owned(),
            names_ipv4: "100.96.0.0/11".to_owned(),
            names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
        },
        grant_keys: vec![key],
        grants: Vec::new(),
        more_grants: false,
        draining: false,
        verification_awaited: false,
        portals: PortalSet::default(),
    }
}

/// Grant `number`: the clients have theirs in turns.
fn claims(number: u32, clients: u32) -> GrantClaims {
    let (client, resource) = (number % clients, number / clients);
    let id = |kind: u8, number: u32| {
        let mut bytes = [0; 16];
        bytes[0] = kind;
        bytes[12..].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let mut key = [9; 32];
    key[..4].copy_from_slice(&client.to_be_bytes());
    let [_, high, middle, low] = (0x10_0100 + client).to_be_bytes();
    GrantClaims {
        grant: GrantId::from_bytes(id(1, number)),
        client: ClientId::from_bytes(id(2, client)),
        client_key: PublicKey::from_bytes(key),
        client_ipv4: Ipv4Addr::new(100, 64 + (high & 0x0F), middle, low),
        client_ipv6: Ipv6Addr::from_bits(
            (0xFD00_2021_1111_u128 << 80) + 0x1_0000 + u128::from(client),
        ),
        gateway: GATEWAY,
        resource: ResourceId::from_bytes(id(3, resource)),
        target: Target {
            kind: TargetKind::Cidr,
            address: format!("10.0.{}.0/24", resource % 250),
        }
        .into(),
        inbound: Vec::new().into(),
        filters: vec![Filter::Any].into(),
        cipher: Cipher::ChaCha20Poly1305,
        plain: false,
        iat: Timestamp::from_unix_ms(UNIX.as_millis()),
        exp: Timestamp::from_unix_ms(UNIX.as_millis() + HOUR_MS),
    }
}

//! The forwarding table beside a model that searches lists from end to end.

use crate::world::{Sent, World, client, client_at, data, gateway_at, initiation};
use culvert_relay_core::relay::INDICES_PER_CLIENT;
use proptest::prelude::*;
use std::net::SocketAddr;

const CLIENTS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    /// A client registers at an address.
    Register { client: u8, at: u8 },
    /// A client begins a session with an index of its choice.
    Begin { client: u8, index: u32 },
    /// The gateway sends a batch to these indices.
    Send { indices: Vec<u32> },
    /// The portal withdraws a client.
    Withdraw { client: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let client = 1..=CLIENTS;
    // Few of each, so that they meet.
    let index = 0_u32..12;
    prop_oneof![
        2 => (client.clone(), 1_u8..=6).prop_map(|(client, at)| Step::Register { client, at }),
        6 => (client.clone(), index.clone()).prop_map(|(client, index)| Step::Begin { client, index }),
        4 => proptest::collection::vec(index, 1..8).prop_map(|indices| Step::Send { indices }),
        1 => client.prop_map(|client| Step::Withdraw { client }),
    ]
}

/// A client, where it is, and its indices in the order of their claims.
struct Known {
    client: u8,
    at: SocketAddr,
    indices: Vec<u32>,
}

#[derive(Default)]
struct Model(Vec<Known>);

impl Model {
    fn register(&mut self, client: u8, at: SocketAddr) {
        self.0
            .retain(|known| known.client == client || known.at != at);
        match self.0.iter_mut().find(|known| known.client == client) {
            Some(known) => known.at = at,
            None => self.0.push(Known {
                client,
                at,
                indices: Vec::new(),
            }),
        }
    }

    fn begin(&mut self, client: u8, index: u32) {
        if self.0.iter().any(|known| known.indices.contains(&index)) {
            return;
        }
        if let Some(known) = self.0.iter_mut().find(|known| known.client == client) {
            known.indices.push(index);
            if known.indices.len() > INDICES_PER_CLIENT {
                known.indices.remove(0);
            }
        }
    }

    fn at(&self, client: u8) -> Option<SocketAddr> {
        let known = self.0.iter().find(|known| known.client == client)?;
        Some(known.at)
    }

    fn receiver(&self, index: u32) -> Option<SocketAddr> {
        let known = self.0.iter().find(|known| known.indices.contains(&index))?;
        Some(known.at)
    }

    /// Each datagram by itself, as it is to arrive.
    fn deliver(&self, indices: &[u32]) -> Vec<Sent> {
        let arrives = |index: &u32| {
            let to = self.receiver(*index)?;
            let bytes = data(*index, 64);
            Some(Sent { to, bytes })
        };
        indices.iter().filter_map(arrives).collect()
    }
}

/// Each datagram of what was sent in batches.
fn singly(sent: Vec<Sent>) -> Vec<Sent> {
    let single = |Sent { to, bytes }: Sent| {
        let datagrams: Vec<Vec<u8>> = bytes.chunks(64).map(<[u8]>::to_vec).collect();
        datagrams.into_iter().map(move |bytes| Sent { to, bytes })
    };
    sent.into_iter().flat_map(single).collect()
}

proptest! {
    #[test]
    fn every_record_goes_where_the_model_says(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::populated([]);
        let mut model = Model::default();
        for step in steps {
            // Tokens that are issued later count after a withdrawal, and registrations are not too many.
            world.pass(std::time::Duration::from_millis(1));
            match step {
                Step::Register { client: number, at } => {
                    let claims = world.claims(Some(client(number)));
                    if world.register(client_at(at), &claims).is_ok() {
                        model.register(number, client_at(at));
                    }
                }
                Step::Begin { client: number, index } => {
                    if let Some(at) = model.at(number) {
                        world.one(at, &initiation(index));
                        model.begin(number, index);
                    }
                }
                Step::Send { indices } => {
                    let batch: Vec<u8> = indices.iter().flat_map(|index| data(*index, 64)).collect();
                    let sent = world.receive(gateway_at(), &batch, 64);
                    prop_assert!(sent.len() <= indices.len());
                    prop_assert_eq!(singly(sent), model.deliver(&indices));
                }
                Step::Withdraw { client: number } => {
                    let claims = world.claims(Some(client(number)));
                    let gateway = claims.gateway;
                    let now = world.now.unix;
                    world.relay.withdraw(gateway, Some(client(number)), claims.iat, now);
                    model.0.retain(|known| known.client != number);
                }
            }
            prop_assert_eq!(world.relay.clients(), model.0.len());
        }
    }
}

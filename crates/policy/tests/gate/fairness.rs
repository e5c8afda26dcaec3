//! One client's packets, whatever they are, beside what another one has begun; and the number of flows of each client against
//! a model that only counts.

use crate::packets::{SYN, fragments, other, tcp_with, udp, udp_with};
use crate::setup::{CLIENT, OTHER_CLIENT, OTHER_PEER, PEER, Setup, grant};
use culvert_policy::gate::{DropReason, Gate, Grant, PeerKey, Portless, Seed};
use proptest::prelude::*;

const SERVER: &str = "10.0.0.1";
const GRE: u8 = 47;
/// Flows of the gate.
const MAX: usize = 64;
const SHARE: usize = MAX / 8;

fn anywhere() -> Vec<Grant> {
    vec![grant(1, "10.0.0.0/8", &["any"])]
}

fn setup() -> Setup {
    let mut setup = Setup::new(anywhere());
    setup.add_client(OTHER_PEER, OTHER_CLIENT, anywhere());
    setup.gate = Gate::with_max_flows(Seed::new([3; 32]), MAX).masquerading(Portless::default());
    setup
}

/// Packets of a client that wants to do harm.
#[derive(Clone, Debug)]
enum Hostile {
    /// So many connections, to one port after another.
    Scan { count: u16, from: u16 },
    /// First fragments of so many datagrams.
    FirstFragments { count: u32, from: u32 },
    /// Later fragments of datagrams that nobody began.
    LaterFragments { count: u32, from: u32 },
    /// A protocol without ports, to so many addresses.
    Portless { count: u8, network: u8 },
    /// From the other client's address.
    Forged { port: u16 },
    /// Time passes.
    Wait { ms: u64 },
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        (1_u16..200, any::<u16>()).prop_map(|(count, from)| Hostile::Scan { count, from }),
        (1_u32..200, any::<u32>())
            .prop_map(|(count, from)| Hostile::FirstFragments { count, from }),
        (1_u32..200, any::<u32>())
            .prop_map(|(count, from)| Hostile::LaterFragments { count, from }),
        (1_u8..200, any::<u8>()).prop_map(|(count, network)| Hostile::Portless { count, network }),
        (0_u16..8).prop_map(|port| Hostile::Forged { port }),
        (0_u64..2_000).prop_map(|ms| Hostile::Wait { ms }),
    ]
}

impl Hostile {
    fn send(&self, setup: &mut Setup) {
        let cut = |number: u32| {
            let datagram = udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]);
            fragments(&datagram, 64, number)
        };
        match *self {
            Self::Scan { count, from } => {
                for port in 0..count {
                    let to = (SERVER, from.wrapping_add(port));
                    setup.assert_sends(&tcp_with((CLIENT, 5000), to, SYN, b""));
                }
            }
            Self::FirstFragments { count, from } => {
                for number in 0..count {
                    setup.assert_sends(&cut(from.wrapping_add(number))[0]);
                }
            }
            Self::LaterFragments { count, from } => {
                for number in 0..count {
                    let [_, later] = cut(from.wrapping_add(number));
                    let now = setup.now();
                    if setup.send(&later) == Err(DropReason::Fragment) {
                        assert!(setup.gate.hold(now, PEER, &later));
                    }
                }
            }
            Self::Portless { count, network } => {
                for host in 0..count {
                    let to = format!("10.9.{network}.{host}");
                    setup.assert_sends(&other(CLIENT, &to, GRE));
                }
            }
            Self::Forged { port } => {
                let forged = udp((OTHER_CLIENT, port), (SERVER, 53));
                let refused = setup.send(&forged);
                assert_eq!(refused, Err(DropReason::ForgedSource));
            }
            Self::Wait { ms } => {
                setup.now_ms += ms;
                let now = setup.now();
                setup.gate.sweep(&setup.table, now, MAX);
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_one_client_sends_what_another_has_begun_stays(
        steps in prop::collection::vec(hostile(), 1..12),
    ) {
        let mut setup = setup();
        for port in 0..6 {
            prop_assert!(setup.send_from(OTHER_PEER, &udp((OTHER_CLIENT, port), (SERVER, 53))).is_ok());
        }
        prop_assert!(setup.send_from(OTHER_PEER, &other(OTHER_CLIENT, SERVER, GRE)).is_ok());
        let datagram = udp_with((OTHER_CLIENT, 1), (SERVER, 53), &[7; 100]);
        let [first, later] = fragments(&datagram, 64, 9);
        prop_assert!(setup.send_from(OTHER_PEER, &first).is_ok());
        let [late_first, early] = fragments(&datagram, 64, 10);
        let held_at = setup.now_ms;
        let now = setup.now();
        prop_assert!(setup.gate.hold(now, OTHER_PEER, &early));
        for step in steps {
            step.send(&mut setup);
            for port in 0..6 {
                prop_assert!(setup.is_answered(&udp((SERVER, 53), (OTHER_CLIENT, port))), "{:?}", step);
            }
            prop_assert!(setup.is_answered(&other(SERVER, OTHER_CLIENT, GRE)), "{:?}", step);
            prop_assert_eq!(
                setup.send(&other(CLIENT, SERVER, GRE)).map(drop),
                Err(DropReason::AddressTaken)
            );
        }
        if setup.now_ms - held_at < 15_000 {
            prop_assert!(setup.send_from(OTHER_PEER, &later).is_ok());
        }
        // And it begins something new.
        prop_assert!(setup.send_from(OTHER_PEER, &late_first).is_ok());
        if setup.now_ms - held_at < 1_000 {
            prop_assert_eq!(setup.gate.take_released(), [early.into_boxed_slice()]);
        }
    }

    #[test]
    fn clients_have_as_many_flows_as_a_model_counts(
        steps in prop::collection::vec((0_usize..80, 1_u16..30), 1..120),
    ) {
        let mut setup = setup();
        let address = |client: usize| format!("100.65.0.{client}");
        for client in 0..80 {
            setup.add_client(PeerKey(100 + client as u32), &address(client), anywhere());
        }
        let mut model = [0_usize; 80];
        let mut port = 0;
        for (client, count) in steps {
            let peer = PeerKey(100 + client as u32);
            for _ in 0..count {
                port += 1;
                let sent = setup.send_from(peer, &udp((&address(client), port), (SERVER, 53)));
                let free = MAX - model.iter().sum::<usize>();
                let own = model[client];
                let others = model.iter().enumerate().filter(|(other, _)| *other != client);
                let others: Vec<usize> = others.map(|(_, count)| *count).collect();
                let clients = 1 + others.iter().filter(|count| **count > 0).count();
                let most = others.into_iter().max();
                let limit = SHARE.min(free.max(MAX / clients));
                if own == 0 && limit == 0 {
                    prop_assert_eq!(sent, Err(DropReason::FlowsFull));
                    continue;
                }
                prop_assert!(sent.is_ok());
                if own < limit {
                    model[client] += 1;
                    if free == 0 {
                        // One of those with the most has lost one, and had more than its part.
                        let most = most.unwrap();
                        prop_assert!(most > MAX / clients);
                        let counts = counts(&setup);
                        let loser = (0..80).find(|other| counts[*other] < model[*other]);
                        let loser = loser.unwrap();
                        prop_assert_eq!(model[loser], most);
                        model[loser] -= 1;
                    }
                } else if own > limit && own > 1 {
                    // It comes down to what it may have by now.
                    model[client] -= 1;
                }
            }
            prop_assert_eq!(counts(&setup), model);
        }
    }
}

/// Flows of each client.
fn counts(setup: &Setup) -> [usize; 80] {
    let mut counts = [0; 80];
    for flow in setup.gate.flows() {
        counts[flow.peer.0 as usize - 100] += 1;
    }
    counts
}

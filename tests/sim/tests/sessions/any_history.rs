//! Any events in any order: the model holds, and once the events stop, every packet that is sent
//! arrives.

use crate::{RECOVERY_MAX, millis, seconds};
use culvert_sim::{Conditions, NodeId, World, address_of};
use proptest::prelude::*;
use std::time::Duration;

const NODES: usize = 3;
const DELAY_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Step {
    Send {
        from: usize,
        to: usize,
        packets: usize,
    },
    Traffic {
        from: usize,
        to: usize,
        every_millis: u64,
        seconds: u64,
    },
    Conditions {
        delay_max: u64,
        loss: u32,
        duplicates: u32,
    },
    Move {
        node: usize,
    },
    Restart {
        node: usize,
    },
    Link {
        node: usize,
        is_up: bool,
    },
    Keepalive {
        node: usize,
        peer: usize,
        seconds: u64,
    },
    Replay,
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES;
    prop_oneof![
        4 => (node(), node(), 1usize..150)
            .prop_map(|(from, to, packets)| Step::Send { from, to, packets }),
        2 => (node(), node(), 50u64..2_000, 1u64..300)
            .prop_map(|(from, to, every_millis, seconds)| Step::Traffic { from, to, every_millis, seconds }),
        2 => (1u64..2_000, prop_oneof![Just(0u32), 0u32..600], 0u32..300)
            .prop_map(|(delay_max, loss, duplicates)| Step::Conditions { delay_max, loss, duplicates }),
        1 => node().prop_map(|node| Step::Move { node }),
        1 => node().prop_map(|node| Step::Restart { node }),
        1 => (node(), any::<bool>()).prop_map(|(node, is_up)| Step::Link { node, is_up }),
        1 => (node(), node(), 1u64..60)
            .prop_map(|(node, peer, seconds)| Step::Keepalive { node, peer, seconds }),
        1 => Just(Step::Replay),
        6 => prop_oneof![0u64..100, 0u64..20_000, 0u64..300_000].prop_map(|millis| Step::Wait { millis }),
    ]
}

fn perform(world: &mut World, step: Step, moves: &mut usize) {
    match step {
        Step::Send { from, to, packets } if from != to => {
            world.send(NodeId(from), NodeId(to), packets);
        }
        Step::Traffic {
            from,
            to,
            every_millis,
            seconds,
        } if from != to => {
            let lasting = Duration::from_secs(seconds);
            world.start_traffic((NodeId(from), NodeId(to)), 1, millis(every_millis), lasting);
        }
        Step::Keepalive {
            node,
            peer,
            seconds,
        } if node != peer => {
            let interval = Duration::from_secs(seconds);
            world.set_keepalive(NodeId(node), NodeId(peer), interval);
        }
        Step::Send { .. } | Step::Traffic { .. } | Step::Keepalive { .. } => {}
        Step::Conditions {
            delay_max,
            loss,
            duplicates,
        } => {
            world.network.set_conditions(Conditions {
                delay: millis(1)..millis(delay_max),
                loss_per_mille: loss,
                duplicate_per_mille: duplicates,
            });
        }
        Step::Move { node } => {
            *moves += 1;
            world.move_node(NodeId(node), address_of(10 + *moves));
        }
        Step::Restart { node } => world.restart(NodeId(node)),
        Step::Link { node, is_up } => world.set_link(NodeId(node), is_up),
        Step::Replay => {
            let recording = world.network.take_recording();
            world.network.record();
            let now = world.now();
            for (_, to, bytes) in recording {
                world.network.send(address_of(200), to, bytes, now);
            }
        }
        Step::Wait { millis: pause } => world.run(millis(pause)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_packet_arrives_at_most_once_as_it_was_sent_where_it_was_sent_and_in_the_end_all_do(
        seed in any::<u64>(), steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(seed, NODES);
        world.network.record();
        let mut moves = 0;
        for step in steps {
            perform(&mut world, step, &mut moves);
        }
        // Peace: everybody is up, the network is perfect, and, once nothing from elsewhere is under
        // way any more, everybody knows where everybody is.
        world.stop_traffic();
        world.network.set_conditions(Conditions::perfect(millis(20)));
        let pairs = (0..NODES).flat_map(|from| (0..NODES).map(move |to| (NodeId(from), NodeId(to))));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        for node in (0..NODES).map(NodeId) {
            world.set_link(node, true);
            world.move_node(node, address_of(node.0));
        }
        world.run(DELAY_MAX);
        for pair in &pairs {
            world.tell_endpoint(pair.0, pair.1);
            world.start_traffic(*pair, 1, millis(250), RECOVERY_MAX + seconds(30));
        }
        world.run(RECOVERY_MAX);
        let quiet_since = world.now();
        world.run(seconds(35));
        prop_assert_eq!(world.model.missing(quiet_since), []);
        for node in (0..NODES).map(NodeId) {
            prop_assert!(world.node(node).shaker.indices_in_use() <= 4 * (NODES - 1));
        }
    }
}

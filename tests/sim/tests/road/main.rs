//! Packets through client, gateway and resource: nothing is reordered, doubled, or past policy, and every drop is counted.

use culvert_sim::Conditions;
use culvert_sim::road::{Kind, Scene, Traffic, Way};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

const UDP: Traffic = Traffic {
    kind: Kind::Udp,
    frames_per_s: 500,
    is_allowed: true,
    has_ecn: false,
};

const TCP: Traffic = Traffic {
    kind: Kind::Tcp,
    frames_per_s: 100,
    is_allowed: true,
    has_ecn: false,
};

/// Two flows that the grant allows, and one that it does not.
fn mixed() -> Vec<Traffic> {
    let forbidden = Traffic {
        is_allowed: false,
        ..UDP
    };
    vec![UDP, TCP, forbidden]
}

#[track_caller]
fn holds(scene: &Scene) {
    assert_eq!(scene.ledger.faults, Vec::<String>::new());
    assert_eq!(scene.unaccounted(), 0, "{:?}", scene.dropped());
}

#[test]
fn everything_that_policy_allows_arrives_in_order_over_a_good_network() {
    let mut scene = Scene::new(1, mixed());
    scene.run(Duration::from_secs(10));
    scene.run_until_idle();
    holds(&scene);
    assert!(scene.ledger.arrived(Way::There) > 10_000);
    assert!(scene.ledger.arrived(Way::Back) > 4_000);
    assert_eq!(scene.ledger.missing(Way::There), 0, "{:?}", scene.dropped());
    assert_eq!(scene.ledger.missing(Way::Back), 0, "{:?}", scene.dropped());
}

#[test]
fn packets_that_wait_for_the_first_handshake_arrive_in_order() {
    let mut scene = Scene::new(2, vec![UDP, TCP]);
    scene.set_conditions(Conditions::perfect(100 * MS));
    scene.run(150 * MS);
    assert_eq!(scene.ledger.arrived(Way::There), 0, "no key yet");
    scene.run_until_idle();
    holds(&scene);
    let lost = scene.ledger.missing(Way::There);
    let gave_way = scene.dropped().get("full").copied().unwrap_or(0);
    assert!(scene.ledger.arrived(Way::There) > 0);
    assert!(lost == 0 || gave_way > 0, "{lost}: {:?}", scene.dropped());
}

#[test]
fn copies_of_the_network_are_dropped_and_counted() {
    let mut scene = Scene::new(3, mixed());
    scene.set_conditions(Conditions {
        duplicate_per_mille: 200,
        ..Conditions::perfect(5 * MS)
    });
    scene.run(Duration::from_secs(5));
    scene.run_until_idle();
    holds(&scene);
    assert!(scene.copied > 100);
    assert_eq!(scene.ledger.missing(Way::There), 0);
}

#[test]
fn after_a_partition_packets_go_on_and_none_that_was_cut_off_comes_late() {
    let mut scene = Scene::new(4, mixed());
    scene.run(Duration::from_secs(2));
    scene.set_cut(true);
    scene.run(Duration::from_secs(30));
    scene.set_cut(false);
    let before = scene.ledger.arrived(Way::There);
    scene.run(Duration::from_secs(20));
    scene.run_until_idle();
    holds(&scene);
    assert!(scene.ledger.arrived(Way::There) > before + 5_000);
}

#[test]
fn after_a_revocation_nothing_passes_and_everything_is_counted() {
    let mut scene = Scene::new(5, mixed());
    scene.run(Duration::from_secs(2));
    scene.revoke();
    let before = scene.ledger.arrived(Way::There);
    scene.run(Duration::from_secs(2));
    scene.run_until_idle();
    holds(&scene);
    assert_eq!(scene.ledger.arrived(Way::There), before);
    let refused: u64 = scene.dropped().values().sum();
    assert!(refused > 1_000, "{:?}", scene.dropped());
}

#[test]
fn a_queue_that_stands_for_long_marks_packets_of_senders_that_understand_it_and_drops_those_of_others()
 {
    let flow = |has_ecn| Traffic {
        frames_per_s: 4_000,
        has_ecn,
        ..UDP
    };
    let mut scene = Scene::new(6, vec![flow(true), flow(false)]);
    scene.run(Duration::from_secs(1));
    // Some 5 Mbit/s for more than ten times as much.
    scene.link_bytes_per_ms = 600;
    scene.run(Duration::from_secs(3));
    let dropped = scene.dropped();
    scene.link_bytes_per_ms = usize::MAX;
    scene.run_until_idle();
    holds(&scene);
    assert!(scene.ledger.marked > 5, "{}", scene.ledger.marked);
    let told = dropped.get("codel").copied().unwrap_or(0);
    assert!(told > 5, "{dropped:?}");
    // RFC 8289: more often the longer it lasts, but one at a time.
    assert!(told < 1_000, "{dropped:?}");
}

#[test]
fn a_burst_that_drains_at_once_is_neither_marked_nor_dropped() {
    let mut scene = Scene::new(
        7,
        vec![
            Traffic {
                has_ecn: true,
                ..UDP
            },
            UDP,
            TCP,
        ],
    );
    scene.run(Duration::from_secs(5));
    scene.run_until_idle();
    holds(&scene);
    assert_eq!(scene.ledger.marked, 0);
    assert_eq!(scene.dropped().get("codel"), None);
}

#[test]
fn segments_of_a_connection_are_written_to_the_host_together() {
    let mut scene = Scene::new(8, vec![TCP]);
    scene.run(Duration::from_secs(5));
    scene.run_until_idle();
    holds(&scene);
    let frames = scene.frames_of_gateway();
    let packets = scene.ledger.arrived(Way::There);
    assert!(frames * 4 < packets, "{packets} packets in {frames} frames");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn on_any_network_nothing_is_doubled_or_past_policy_and_every_drop_is_counted(
        seed in any::<u64>(),
        delay_ms in 0_u64..200,
        spread_ms in 0_u64..50,
        loss_per_mille in 0_u32..300,
        duplicate_per_mille in 0_u32..100,
        cut_after_ms in 0_u64..2_000,
        cut_for_ms in 0_u64..3_000,
        link_bytes_per_ms in prop_oneof![Just(usize::MAX), 200_usize..20_000],
    ) {
        let mut scene = Scene::new(seed, mixed());
        let delay = Duration::from_millis(delay_ms);
        scene.set_conditions(Conditions {
            delay: delay..delay + Duration::from_millis(spread_ms),
            loss_per_mille,
            duplicate_per_mille,
        });
        scene.link_bytes_per_ms = link_bytes_per_ms;
        scene.run(Duration::from_millis(cut_after_ms));
        scene.set_cut(true);
        scene.run(Duration::from_millis(cut_for_ms));
        scene.set_cut(false);
        scene.run(Duration::from_secs(2));
        scene.link_bytes_per_ms = usize::MAX;
        scene.set_conditions(Conditions::perfect(delay));
        scene.run_until_idle();
        prop_assert_eq!(&scene.ledger.faults, &Vec::<String>::new());
        prop_assert_eq!(scene.unaccounted(), 0, "{:?}", scene.dropped());
    }
}

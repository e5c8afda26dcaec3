//! Properties that hold for any events, in any order.

use crate::common::{Clocked, HOME, RELAY, RELAYED, at};
use culvert_path::{Kind, Output};
use proptest::prelude::*;

/// An event of a peer.
#[derive(Clone, Copy, Debug)]
enum Event {
    Sent,
    Received,
    Confirmed(u8),
    NetworkChanged,
    Pass(u64),
    Sleep(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Sent),
        2 => Just(Event::Received),
        1 => (0_u8..4).prop_map(Event::Confirmed),
        1 => Just(Event::NetworkChanged),
        6 => (0_u64..3000).prop_map(Event::Pass),
        1 => (0_u64..100_000).prop_map(Event::Sleep),
    ]
}

fn happen(peer: &mut Clocked, event: Event) {
    match event {
        Event::Sent => peer.sent(),
        Event::Received => peer.received(),
        Event::Confirmed(host) => peer.confirm(&format!("192.0.2.{}:51820", host + 1)),
        Event::NetworkChanged => peer.network_changed(),
        Event::Pass(duration_ms) => peer.pass(duration_ms),
        Event::Sleep(duration_ms) => peer.sleep(duration_ms),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_peer_that_is_heard_every_two_seconds_is_never_dead(
        gaps in prop::collection::vec(1_u64..2000, 1..60),
        sends in prop::collection::vec(any::<bool>(), 60),
        late_ms in 0_u64..400,
    ) {
        let mut peer = Clocked::confirmed();
        peer.late_ms = late_ms;
        for (gap, sends) in gaps.iter().zip(sends) {
            if sends {
                peer.sent();
            }
            peer.pass(*gap);
            peer.received();
        }
        prop_assert_eq!(peer.outputs(), []);
    }

    #[test]
    fn a_peer_that_was_sent_to_and_is_silent_is_dead_within_five_seconds(
        before in prop::collection::vec(any_event(), 0..40),
        late_ms in 0_u64..=500,
        packets in prop::collection::vec(1_u64..1500, 1..5),
    ) {
        let mut peer = Clocked::new(&[(HOME, Kind::Public)]);
        for event in before {
            happen(&mut peer, event);
        }
        peer.confirm(HOME);
        peer.outputs();
        peer.late_ms = late_ms;
        peer.pass(1);
        let first_sent_at = peer.now;
        for gap in packets {
            peer.sent();
            peer.pass(gap);
        }
        peer.pass(60_000);
        let died_at = peer.died_at();
        prop_assert!(died_at.is_some_and(|at| (4000..=5000).contains(&(at - first_sent_at))));
    }

    #[test]
    fn nothing_sent_since_it_was_heard_means_nobody_dies(
        before in prop::collection::vec(any_event(), 0..40),
        idle in prop::collection::vec(any_event(), 0..40),
    ) {
        let mut peer = Clocked::new(&[(HOME, Kind::Public)]);
        for event in before {
            happen(&mut peer, event);
        }
        peer.pass(1);
        peer.received();
        peer.outputs();
        for event in idle.into_iter().filter(|it| !matches!(it, Event::Sent)) {
            happen(&mut peer, event);
        }
        prop_assert_eq!(peer.died_at(), None);
    }

    /// An independent account of what was sent and heard: a death needs two seconds in which one
    /// could have heard, and none.
    #[test]
    fn a_death_is_said_once_and_only_of_a_silent_peer(
        events in prop::collection::vec(any_event(), 0..120),
        late_ms in 0_u64..400,
    ) {
        let mut peer = Clocked::new(&[(HOME, Kind::Public), (RELAY, RELAYED)]);
        peer.late_ms = late_ms;
        let (mut heard_at, mut unanswered, mut deaths) = (None, None, 0);
        for event in events {
            let before = peer.log.len();
            happen(&mut peer, event);
            for (at, output) in &peer.log[before..] {
                if *output == Output::Dead {
                    deaths += 1;
                    prop_assert_eq!(deaths, 1, "twice without being heard");
                    let since: Option<u64> = unanswered;
                    prop_assert!(since.is_some_and(|since| at - since >= 4000));
                    prop_assert!(heard_at.is_none_or(|heard| heard < since.unwrap()));
                }
            }
            match event {
                // A packet that is sent in the millisecond in which something is heard counts as
                // answered.
                Event::Sent if heard_at == Some(peer.now) => {}
                Event::Sent => unanswered = unanswered.or(Some(peer.now)),
                Event::Received | Event::Confirmed(_) => {
                    (heard_at, unanswered, deaths) = (Some(peer.now), None, 0);
                }
                Event::NetworkChanged => {
                    deaths = 0;
                }
                Event::Pass(_) | Event::Sleep(_) => {}
            }
            let targets = peer.race.targets();
            prop_assert!(targets.len() <= 16 && targets.contains(&at(HOME)));
        }
    }
}

use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    floor: 1216,
    ceiling: 1420,
};

fn to() -> SocketAddr {
    "192.0.2.1:51820".parse().unwrap()
}

/// A path that carries packets of up to `widest` bytes and loses those that `is_lost` picks by their number.
struct Network<L> {
    widest: u16,
    round_trip: Duration,
    is_lost: L,
    now: BootTime,
    sent: u32,
}

impl<L: FnMut(u32) -> bool> Network<L> {
    fn new(widest: u16, is_lost: L) -> Self {
        Self {
            widest,
            round_trip: Duration::from_millis(20),
            is_lost,
            now: BootTime::from_millis(1_000_000),
            sent: 0,
        }
    }

    /// One full-size packet leaves, and time passes until the search rests. Returns how long that took.
    fn send_full_size(&mut self, search: &mut MtuSearch, limits: Limits) -> Duration {
        search.handle_full_size(to(), limits, None, self.now);
        let began = self.now;
        let mut answers = VecDeque::new();
        while !matches!(search.state, State::Resting { .. }) {
            while let Some(probe) = search.poll_probe() {
                self.sent += 1;
                if probe.len <= self.widest && !(self.is_lost)(self.sent) {
                    answers.push_back((self.now.saturating_add(self.round_trip), probe));
                }
            }
            let timeout = search.poll_timeout().expect("it is under way");
            match answers.front().copied() {
                Some((at, Probe { generation, len })) if at <= timeout => {
                    answers.pop_front();
                    self.now = at;
                    search.handle_answer(generation, len, self.now);
                }
                _ => {
                    self.now = timeout;
                    search.handle_timeout(self.now);
                }
            }
        }
        self.now.saturating_since(began)
    }

    fn rest(&mut self, search: &mut MtuSearch) {
        self.now = search.poll_timeout().expect("it rests");
        search.handle_timeout(self.now);
        assert_eq!(search.poll_timeout(), None);
    }
}

#[test]
fn a_path_that_carries_full_size_packets_costs_two_probes() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(1420, |_| false);
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), None);
    assert_eq!(search.measured(), Some(1420));
    assert_eq!(network.sent, 2);
}

#[test]
fn nothing_is_asked_before_a_full_size_packet_leaves() {
    let mut search = MtuSearch::default();
    search.handle_timeout(BootTime::from_millis(5));
    assert_eq!(search.poll_timeout(), None);
    assert_eq!(search.poll_probe(), None);
}

#[test]
fn every_narrow_path_of_ethernet_is_measured_within_a_second() {
    for widest in LIMITS.floor..LIMITS.ceiling {
        let mut search = MtuSearch::default();
        let mut network = Network::new(widest, |_| false);
        let took = network.send_full_size(&mut search, LIMITS);
        let found = search.passes().expect("the path is narrow");
        assert!(
            found <= widest && widest - found < STEP,
            "{widest}: {found}"
        );
        assert!(took < Duration::from_secs(1), "{widest}: {took:?}");
        assert!(network.sent <= 2 + 2 * 16, "{widest}: {}", network.sent);
    }
}

#[test]
fn a_peer_that_answers_nothing_changes_nothing_and_is_rarely_asked() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(0, |_| false);
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), None);
    assert_eq!(search.measured(), None);
    assert_eq!(network.sent, 2 * u32::from(ATTEMPTS));
    let asked_until = network.now;
    network.rest(&mut search);
    assert_eq!(network.now.saturating_since(asked_until), ASK_SILENT_AFTER);
}

#[test]
fn a_path_that_becomes_narrower_is_noticed_by_the_next_check() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(1420, |_| false);
    network.send_full_size(&mut search, LIMITS);
    network.rest(&mut search);
    network.widest = 1300;
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), Some(1296));
    // And narrower still, while it is checked at the length in use.
    network.rest(&mut search);
    network.widest = 1250;
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), Some(1248));
}

#[test]
fn a_path_that_widens_is_noticed_after_the_raise_timer() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(1300, |_| false);
    network.send_full_size(&mut search, LIMITS);
    network.rest(&mut search);
    network.widest = 1420;
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), Some(1296));
    network.rest(&mut search);
    network.now = network.now.saturating_add(RAISE_AFTER);
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), None);
}

#[test]
fn a_dead_path_keeps_what_was_found() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(1300, |_| false);
    network.send_full_size(&mut search, LIMITS);
    network.rest(&mut search);
    network.widest = 0;
    network.send_full_size(&mut search, LIMITS);
    assert_eq!(search.passes(), Some(1296));
}

#[test]
fn a_change_of_the_hosts_network_keeps_what_was_found_until_the_path_is_measured_again() {
    for (widest_after, found) in [(1300, Some(1296)), (1250, Some(1248)), (1420, None)] {
        let mut search = MtuSearch::default();
        let mut network = Network::new(1300, |_| false);
        network.send_full_size(&mut search, LIMITS);
        search.measure_again();
        assert_eq!(search.poll_timeout(), None);
        assert_eq!(search.passes(), Some(1296));
        network.widest = widest_after;
        network.send_full_size(&mut search, LIMITS);
        assert_eq!(search.passes(), found);
    }
}

#[test]
fn a_change_of_the_hosts_network_ends_a_search_that_is_under_way() {
    let mut search = MtuSearch::default();
    let now = BootTime::from_millis(0);
    search.handle_full_size(to(), LIMITS, None, now);
    let probe = search.poll_probe().unwrap();
    search.measure_again();
    assert_eq!(search.poll_probe(), None);
    search.handle_answer(probe.generation, probe.len, now);
    assert_eq!(search.measured(), None);
}

#[test]
fn another_path_is_measured_anew() {
    let mut search = MtuSearch::default();
    let mut network = Network::new(1300, |_| false);
    network.send_full_size(&mut search, LIMITS);
    let other = "198.51.100.1:51820".parse().unwrap();
    search.handle_full_size(other, LIMITS, None, network.now);
    assert_eq!(search.passes(), None);
    assert_eq!(
        search.poll_probe().map(|probe| probe.len),
        Some(LIMITS.ceiling)
    );
}

#[test]
fn an_answer_to_an_earlier_search_proves_nothing() {
    let mut search = MtuSearch::default();
    let now = BootTime::from_millis(0);
    search.handle_full_size(to(), LIMITS, None, now);
    let probe = search.poll_probe().unwrap();
    let other = "198.51.100.1:51820".parse().unwrap();
    search.handle_full_size(other, LIMITS, None, now);
    search.handle_answer(probe.generation, probe.len, now);
    assert!(matches!(search.state, State::Asking(_)));
    // Nor does one about a length that was never asked for.
    let probe = search.poll_probe().unwrap();
    search.handle_answer(probe.generation, probe.len + 1, now);
    assert!(matches!(search.state, State::Asking(_)));
}

#[test]
fn an_interface_below_the_floor_is_not_searched() {
    let mut search = MtuSearch::default();
    let limits = Limits {
        floor: 1216,
        ceiling: 1200,
    };
    search.handle_full_size(to(), limits, None, BootTime::ZERO);
    assert_eq!(search.poll_probe(), None);
}

proptest! {
    #[test]
    fn a_search_ends_with_a_length_that_passes(
        ceiling in 1217..=65_475_u16,
        share in 0.0..=1.0_f64,
        lost in proptest::collection::vec(proptest::bool::weighted(0.2), 64),
    ) {
        let limits = Limits { floor: 1216, ceiling };
        let widest = 1216 + (f64::from(ceiling - 1216) * share) as u16;
        let mut search = MtuSearch::default();
        let mut network = Network::new(widest, |number| {
            lost.get(number as usize).copied().unwrap_or_default()
        });
        network.send_full_size(&mut search, limits);
        let found = search.passes();
        if widest == ceiling {
            prop_assert!(found.is_none_or(|found| found < widest));
        } else {
            prop_assert!(found.is_none_or(|found| found <= widest));
        }
        let ladders = 2 * u32::from(LADDERS_MAX) * PROBES_PER_ROUND as u32;
        let first = 2 * u32::from(ATTEMPTS);
        prop_assert!(network.sent <= first + ladders, "{}", network.sent);
    }

    #[test]
    fn a_search_without_loss_is_exact_for_every_interface(
        ceiling in 1217..=65_475_u16,
        share in 0.0..=1.0_f64,
    ) {
        let limits = Limits { floor: 1216, ceiling };
        let widest = 1216 + (f64::from(ceiling - 1216) * share) as u16;
        let mut search = MtuSearch::default();
        let mut network = Network::new(widest, |_| false);
        network.send_full_size(&mut search, limits);
        let found = search.passes().unwrap_or(ceiling);
        prop_assert!(found <= widest && widest - found < STEP, "{found} of {widest}");
    }
}

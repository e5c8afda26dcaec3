//! The length and the repetitions of each measurement.

use std::time::Duration;

use crate::subject::{Kind, Subject};

/// The length of each measurement.
///
/// A full run of seven subjects takes about 20 minutes, a quick one of five 2½. The length of a turn
/// is the sum of its parts, and iperf3 measures whole seconds only.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// True in the short form.
    pub(crate) quick: bool,
    /// The number of turns of each subject.
    pub(crate) rounds: u32,
    /// The congestion controls of the TCP measurements; the first is the one that targets name.
    pub(crate) congestion_controls: &'static [&'static str],
    /// Seconds of each TCP throughput measurement.
    pub(crate) tcp_s: u32,
    /// Seconds of TCP load under which pings are sent.
    pub(crate) load_s: u32,
    /// The number of pings that measure an idle tunnel.
    pub(crate) idle_pings: u32,
    /// Halvings of the range that holds the loss-free UDP rate.
    pub(crate) udp_steps: u32,
    /// Seconds of each UDP step.
    pub(crate) udp_s: u32,
}

impl Effort {
    /// The time between two pings: far above any round trip here, so an idle tunnel falls asleep in
    /// between.
    pub(crate) const PING_INTERVAL: Duration = Duration::from_millis(20);

    pub(crate) fn new(quick: bool, rounds: Option<u32>) -> Self {
        if quick {
            Self {
                quick,
                rounds: rounds.unwrap_or(1),
                congestion_controls: &["cubic"],
                tcp_s: 2,
                load_s: 3,
                idle_pings: 50,
                udp_steps: 6,
                udp_s: 1,
            }
        } else {
            Self {
                quick,
                rounds: rounds.unwrap_or(3),
                congestion_controls: &["cubic", "bbr"],
                tcp_s: 3,
                load_s: 4,
                idle_pings: 100,
                udp_steps: 8,
                udp_s: 1,
            }
        }
    }

    /// UDP takes the longest of all; a first impression does without what no target needs.
    pub(crate) fn measures_udp_of(&self, subject: &Subject) -> bool {
        !self.quick || matches!(subject.kind, Kind::Product | Kind::Peer)
    }

    /// Shaped links compare the product with the bare link. Their results hardly vary, so two rounds
    /// are enough.
    pub(crate) fn measures_links_of(&self, subject: &Subject, round: u32) -> bool {
        if self.quick {
            subject.kind != Kind::Peer
        } else {
            round <= 2
        }
    }
}

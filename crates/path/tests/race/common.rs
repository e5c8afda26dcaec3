//! A race in virtual time.

use culvert_base::BootTime;
use culvert_ids::RelayId;
use culvert_path::{Guard, Kind, Output, Race};
use std::net::SocketAddr;

pub(crate) const HOME: &str = "192.0.2.1:51820";
pub(crate) const OFFICE: &str = "10.1.2.3:51820";
pub(crate) const RELAY: &str = "203.0.113.9:3478";
pub(crate) const RELAYED: Kind = Kind::Relayed(RelayId::from_bytes([1; 16]));

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn ms(millis: u64) -> BootTime {
    BootTime::from_millis(millis)
}

/// A race and a clock that stops wherever something happens.
pub(crate) struct Clocked {
    pub(crate) race: Race,
    pub(crate) now: u64,
    /// The delay with which the clock notices deadlines.
    pub(crate) late_ms: u64,
    pub(crate) log: Vec<(u64, Output)>,
}

impl Clocked {
    pub(crate) fn new(candidates: &[(&str, Kind)]) -> Self {
        let own = ["100.64.0.0/11".parse().unwrap()];
        let mut race = Race::new(Guard::new(own).unwrap());
        for (address, kind) in candidates {
            race.learn(at(address), *kind).unwrap();
        }
        let (late_ms, log) = (0, Vec::new());
        let mut clocked = Self {
            race,
            now: 1_000_000,
            late_ms,
            log,
        };
        clocked.outputs();
        clocked
    }

    /// A peer that has just answered from home.
    pub(crate) fn confirmed() -> Self {
        let mut clocked = Self::new(&[(HOME, Kind::Public), (OFFICE, Kind::Interface)]);
        clocked.sent();
        clocked.confirm(HOME);
        clocked.outputs();
        clocked.pass(1);
        clocked
    }

    /// The outputs since the last call, without changes of targets.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        self.drain();
        let log = std::mem::take(&mut self.log).into_iter();
        log.map(|(_, output)| output)
            .filter(|it| *it != Output::TargetsChanged)
            .collect()
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.race.poll_output() {
            self.log.push((self.now, output));
        }
    }

    pub(crate) fn sent(&mut self) {
        self.race.handle_sent(ms(self.now));
        self.drain();
    }

    pub(crate) fn received(&mut self) {
        self.race.handle_received(ms(self.now));
        self.drain();
    }

    pub(crate) fn confirm(&mut self, address: &str) {
        self.race
            .handle_confirmed(at(address), ms(self.now))
            .unwrap();
        self.drain();
    }

    pub(crate) fn network_changed(&mut self) {
        self.race.handle_network_changed(ms(self.now));
        self.drain();
    }

    /// Lets time pass, with every deadline looked at `late_ms` after it.
    pub(crate) fn pass(&mut self, duration_ms: u64) {
        let end = self.now + duration_ms;
        while let Some(deadline) = self.race.poll_timeout() {
            let wake = (deadline.as_millis() + self.late_ms).max(self.now);
            if wake > end {
                break;
            }
            self.now = wake;
            self.race.handle_timeout(ms(wake));
            self.drain();
            assert!(
                self.race.poll_timeout() != Some(deadline),
                "a deadline is met once"
            );
        }
        self.now = end;
    }

    /// The machine sleeps, and looks at its clock afterwards.
    pub(crate) fn sleep(&mut self, duration_ms: u64) {
        self.now += duration_ms;
        self.race.handle_timeout(ms(self.now));
        self.drain();
    }

    /// The time at which the peer was said to be dead.
    pub(crate) fn died_at(&mut self) -> Option<u64> {
        self.drain();
        self.log
            .iter()
            .find(|(_, output)| *output == Output::Dead)
            .map(|(at, _)| *at)
    }
}

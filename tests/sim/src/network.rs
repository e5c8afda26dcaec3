//! A datagram network with moods.

use crate::random::Random;
use culvert_base::BootTime;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// The properties of the network for packets from here on.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The delay of a datagram. A range reorders.
    pub delay: Range<Duration>,
    /// The number of lost datagrams in a thousand.
    pub loss_per_mille: u32,
    /// The number of datagrams in a thousand that arrive twice, each copy with a delay of its own.
    pub duplicate_per_mille: u32,
}

impl Conditions {
    /// Nothing is lost, and everything takes `delay`.
    pub fn perfect(delay: Duration) -> Self {
        Self {
            delay: delay..delay,
            loss_per_mille: 0,
            duplicate_per_mille: 0,
        }
    }
}

/// A datagram under way.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// Datagrams in flight, by the time of arrival and, within one instant, in the order of sending.
#[derive(Debug)]
pub struct Network {
    conditions: Conditions,
    random: Random,
    under_way: BTreeMap<(BootTime, u64), Datagram>,
    sent: u64,
    /// Everything sent, while somebody listens on the wire.
    recording: Option<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            conditions: Conditions::perfect(Duration::from_millis(20)),
            random: Random::new(seed),
            under_way: BTreeMap::new(),
            sent: 0,
            recording: None,
        }
    }

    /// Changes how datagrams are treated from here on.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Begins to record what is sent.
    pub fn record(&mut self) {
        self.recording = Some(Vec::new());
    }

    /// Ends the recording: source, destination and bytes of every datagram, lost ones included.
    pub fn take_recording(&mut self) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        self.recording.take().unwrap_or_default()
    }

    /// Sends a datagram, from whatever address it claims.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>, now: BootTime) {
        if let Some(recording) = &mut self.recording {
            recording.push((from, to, bytes.clone()));
        }
        let datagram = Datagram { from, to, bytes };
        if self.random.chance(self.conditions.duplicate_per_mille) {
            self.put(datagram.clone(), now);
        }
        self.put(datagram, now);
    }

    pub(crate) fn next_arrival(&self) -> Option<BootTime> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn pop(&mut self, now: BootTime) -> Option<Datagram> {
        let entry = self.under_way.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    fn put(&mut self, datagram: Datagram, now: BootTime) {
        let delay = self.random.duration(&self.conditions.delay);
        if self.random.chance(self.conditions.loss_per_mille) {
            return;
        }
        self.sent += 1;
        let arrival = now.saturating_add(delay);
        self.under_way.insert((arrival, self.sent), datagram);
    }
}

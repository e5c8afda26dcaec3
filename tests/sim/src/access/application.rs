//! An application that wants an answer again and again.

use super::catalog::Destination;
use super::packets::Seen;
use culvert_policy::Service;
use std::net::IpAddr;

/// For how long an application uses what a name stood for, in milliseconds.
const ADDRESS_MS: u64 = 30_000;

/// An application.
#[derive(Debug)]
pub(crate) struct Application {
    id: usize,
    pub(crate) destination: Destination,
    pub(crate) service: Service,
    pub(crate) every_ms: u64,
    pub(crate) port: u16,
    /// The address of the name, and the time in ms at which it was learned.
    pub(crate) address: Option<(IpAddr, u64)>,
    probes: u32,
    /// When each of the last probes was sent, by number, and where to.
    sent: std::collections::BTreeMap<u64, (u64, IpAddr)>,
    pub(crate) log: Log,
}

/// The events that an application has seen.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Probes that were sent.
    pub sent: u64,
    /// Answers: when the probe was sent, and when its answer came, in milliseconds.
    pub answered: Vec<(u64, u64)>,
}

/// Probes that may be answered yet.
const MAX_SENT: usize = 64;

impl Application {
    pub(crate) fn new(
        id: usize,
        destination: Destination,
        service: Service,
        every_ms: u64,
    ) -> Self {
        Self {
            id,
            destination,
            service,
            every_ms,
            port: 20_000 + u16::try_from(id).unwrap_or(0),
            address: match destination {
                Destination::Address(address) => Some((address, 0)),
                Destination::Name4(_) | Destination::Name6(_) => None,
            },
            probes: 0,
            sent: std::collections::BTreeMap::new(),
            log: Log::default(),
        }
    }

    /// The application that sent a probe, and which of its probes it was.
    pub(crate) fn of_probe(probe: u64) -> (usize, u32) {
        let [a, b, c, d, e, f, g, h] = probe.to_be_bytes();
        let id = u32::from_be_bytes([a, b, c, d]);
        let id = usize::try_from(id).unwrap_or(usize::MAX);
        (id, u32::from_be_bytes([e, f, g, h]))
    }

    pub(crate) fn probe_of(id: usize, number: u32) -> u64 {
        (id as u64) << 32 | u64::from(number)
    }

    pub(crate) const fn name(&self) -> Option<&'static str> {
        match self.destination {
            Destination::Address(_) => None,
            Destination::Name4(name) | Destination::Name6(name) => Some(name),
        }
    }

    pub(crate) const fn is_ipv4(&self) -> bool {
        match self.destination {
            Destination::Address(address) => address.is_ipv4(),
            Destination::Name4(_) => true,
            Destination::Name6(_) => false,
        }
    }

    pub(crate) fn needs_address(&self, now_ms: u64) -> bool {
        let is_fresh = |(_, since_ms): (IpAddr, u64)| now_ms < since_ms + ADDRESS_MS;
        self.name().is_some() && !self.address.is_some_and(is_fresh)
    }

    /// Takes the resolver's answer. If it says that there is none, there is none.
    pub(crate) fn take_address(&mut self, address: Option<IpAddr>, now_ms: u64) {
        self.address = address.map(|address| (address, now_ms));
    }

    /// The name loses the address that it had.
    pub(crate) fn forget_address(&mut self) {
        self.address = self.address.filter(|_| self.name().is_none());
    }

    /// The destination of the next probe, and its number.
    pub(crate) fn next_probe(&mut self, now_ms: u64) -> Option<(IpAddr, u64)> {
        let (address, _) = self.address?;
        self.probes += 1;
        let probe = Self::probe_of(self.id, self.probes);
        self.sent.insert(probe, (now_ms, address));
        if self.sent.len() > MAX_SENT {
            self.sent.pop_first();
        }
        self.log.sent += 1;
        Some((address, probe))
    }

    /// An answer; false where it is not from where the probe went.
    pub(crate) fn take_answer(&mut self, seen: &Seen, now_ms: u64) -> bool {
        let Some((sent_ms, address)) = self.sent.remove(&seen.probe) else {
            // Too late to matter.
            return true;
        };
        self.log.answered.push((sent_ms, now_ms));
        seen.source == address && seen.source_port == self.port && seen.service == self.service
    }
}

//! Numbers about streams, for metrics and status.

use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of all streams of a relay, or of the one of an end, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Streams that are open and registered.
    pub streams: u64,
    /// Streams in their handshake, or not registered yet.
    pub newcomers: u64,
    /// TCP connections that came.
    pub connections: u64,
    /// Connections that were closed because there were too many, in all or of their source.
    pub too_many: u64,
    /// Handshakes that failed or took too long.
    pub failed_handshakes: u64,
    /// Streams for a port that no gateway has.
    pub wrong_ports: u64,
    /// Streams that did not register in time.
    pub unregistered: u64,
    /// Streams that ended because nothing came on them for too long, or nothing sensible.
    pub broken: u64,
    /// Datagrams that came out of streams.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Datagrams that were put into streams.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Datagrams that were dropped because their stream was too slow.
    pub too_slow: u64,
    /// Datagrams out of streams that the system did not take.
    pub not_delivered: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) too_many: Counter,
    pub(crate) failed_handshakes: Counter,
    pub(crate) wrong_ports: Counter,
    pub(crate) unregistered: Counter,
    pub(crate) broken: Counter,
    pub(crate) datagrams_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) datagrams_out: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) too_slow: Counter,
    pub(crate) not_delivered: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// The numbers, with those of the streams that are open.
    pub(crate) fn report(&self, streams: usize, newcomers: usize) -> Report {
        Report {
            streams: streams as u64,
            newcomers: newcomers as u64,
            connections: self.connections.get(),
            too_many: self.too_many.get(),
            failed_handshakes: self.failed_handshakes.get(),
            wrong_ports: self.wrong_ports.get(),
            unregistered: self.unregistered.get(),
            broken: self.broken.get(),
            datagrams_in: self.datagrams_in.get(),
            bytes_in: self.bytes_in.get(),
            datagrams_out: self.datagrams_out.get(),
            bytes_out: self.bytes_out.get(),
            too_slow: self.too_slow.get(),
            not_delivered: self.not_delivered.get(),
        }
    }
}

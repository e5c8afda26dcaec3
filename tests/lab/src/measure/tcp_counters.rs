//! TCP counters of a namespace.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::namespace::Namespace;

/// Counters that grow at a *sender* when the receiver's acknowledgements show that segments came out
/// of order: found by selective acknowledgement, by time stamps, by plain Reno.
const REORDERING_SEEN_BY_SENDER: [&str; 3] = ["TCPSACKReorder", "TCPTSReorder", "TCPRenoReorder"];

/// The counter that grows at a *receiver* with each segment that comes before one it still misses,
/// whether that one is lost or late.
const OUT_OF_ORDER_QUEUED: &str = "TCPOFOQueue";

/// The `TcpExt` counters of a namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters(BTreeMap<String, u64>);

impl TcpCounters {
    /// Reads the counters, as `nstat -az` shows them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn of(namespace: &Namespace) -> Result<Self> {
        Self::parse(&namespace.run("cat /proc/net/netstat")?)
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |(name, value): (&String, &u64)| {
            (name.clone(), value.saturating_sub(earlier.value(name)))
        };
        Self(self.0.iter().map(difference).collect())
    }

    /// One counter by its kernel name without the `TcpExt` in front; zero if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The number of times that this namespace, as a sender, saw its segments arrive out of order.
    #[must_use]
    pub fn reordering_seen_by_sender(&self) -> u64 {
        REORDERING_SEEN_BY_SENDER
            .iter()
            .map(|name| self.value(name))
            .sum()
    }

    /// The number of segments that this namespace, as a receiver, had to keep because an earlier
    /// one was missing. Loss counts as well as reordering.
    #[must_use]
    pub fn out_of_order_queued(&self) -> u64 {
        self.value(OUT_OF_ORDER_QUEUED)
    }

    /// Parses /proc/net/netstat: a line of names, then a line of values.
    fn parse(text: &str) -> Result<Self> {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt: "));
        let names = lines.next().context("no TcpExt in /proc/net/netstat")?;
        let values = lines
            .next()
            .context("no TcpExt values in /proc/net/netstat")?;
        let counters = names
            .split_whitespace()
            .zip(values.split_whitespace())
            // The few counters that can be negative are none of ours.
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        Ok(Self(counters.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "TcpExt: SyncookiesSent TCPSACKReorder TCPOFOQueue\n\
                        TcpExt: 1 20 300\nIpExt: InNoRoutes\nIpExt: 9\n";

    #[test]
    fn values_stand_below_their_names() {
        let counters = TcpCounters::parse(TEXT).unwrap();
        assert_eq!(counters.value("TCPOFOQueue"), 300);
        assert_eq!(counters.reordering_seen_by_sender(), 20);
        assert_eq!(counters.value("InNoRoutes"), 0);
    }

    #[test]
    fn a_difference_counts_only_what_came_after() {
        let earlier = TcpCounters::parse(TEXT).unwrap();
        let later = TcpCounters::parse(&TEXT.replace("300", "301")).unwrap();
        assert_eq!(later.since(&earlier).out_of_order_queued(), 1);
        assert_eq!(later.since(&earlier).reordering_seen_by_sender(), 0);
    }
}

//! Entries of a table about signing in that made room for others: counted, and told of in the log.

use super::notice::Notice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The evictions of one table.
#[derive(Debug)]
pub struct Evictions {
    table: &'static str,
    count: AtomicU64,
    notice: Notice,
}

impl Evictions {
    /// None yet. Metrics and log call the table so.
    pub fn of(table: &'static str) -> Self {
        Self {
            table,
            count: AtomicU64::new(0),
            notice: Notice::default(),
        }
    }

    /// An entry gave way, or was refused in a table where none gives way. The name of the holder
    /// with a too large share is `whose`, as far as a log may say it.
    pub fn note(&self, whose: &str, now: Instant) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.notice.due(now) {
            tracing::warn!(
                count,
                table = self.table,
                whose,
                "sign-ins were dropped to make room for newer ones: this table is full, or one network or person \
                 has as many entries as it may; who is affected begins to sign in anew"
            );
        }
    }

    /// The table's name and how many there were.
    pub fn counted(&self) -> (&'static str, u64) {
        (self.table, self.count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_eviction_is_counted() {
        let evictions = Evictions::of("flows");
        let now = Instant::now();
        for _ in 0..3 {
            evictions.note("192.0.2.1", now);
        }
        assert_eq!(evictions.counted(), ("flows", 3));
    }
}

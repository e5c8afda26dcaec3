//! The answer to a peer's last initiation, for copies of it that come by other paths.

use crate::constants::{ANSWER_COPIES_FOR, ANSWERED_SOURCES_MAX};
use crate::crypto::hash;
use crate::parse::{Initiation, RESPONSE_LEN};
use culvert_base::BootTime;
use std::net::SocketAddr;

/// An initiation that was answered, or is about to be.
///
/// A peer with several paths sends the very same initiation over all of them. The copy that arrives first may have
/// come by a path that leads one way only, so its response is lost. The same response to each source lets the peer
/// have it over every path that works.
pub(super) struct Answered {
    /// The hash of the initiation up to its MACs.
    initiation: [u8; 32],
    /// `None` while it is made.
    response: Option<[u8; RESPONSE_LEN]>,
    at: BootTime,
    /// The sources that were answered, or will be: at most [`ANSWERED_SOURCES_MAX`].
    sources: Vec<SocketAddr>,
}

/// The answer to a copy of an initiation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyAnswer {
    /// This response.
    Now([u8; RESPONSE_LEN]),
    /// The response that is being made.
    Later,
}

impl Answered {
    pub(super) fn begin(initiation: &Initiation<'_>, source: SocketAddr, now: BootTime) -> Self {
        Self {
            initiation: hash_of(initiation),
            response: None,
            at: now,
            sources: vec![source],
        }
    }

    /// The initiation is answered by this. Returns the sources of the copies that have come.
    pub(super) fn complete(
        &mut self,
        response: [u8; RESPONSE_LEN],
        now: BootTime,
    ) -> &[SocketAddr] {
        self.response = Some(response);
        self.at = now;
        &self.sources
    }

    /// The answer, if this is the same initiation from a source that has not been answered, in time.
    pub(super) fn answer_copy(
        &mut self,
        initiation: &Initiation<'_>,
        source: SocketAddr,
        now: BootTime,
    ) -> Option<CopyAnswer> {
        let is_new = self.sources.len() < ANSWERED_SOURCES_MAX && !self.sources.contains(&source);
        if !is_new || self.is_over(now) || hash_of(initiation) != self.initiation {
            return None;
        }
        self.sources.push(source);
        Some(self.response.map_or(CopyAnswer::Later, CopyAnswer::Now))
    }

    /// True once copies are no longer answered.
    pub(super) fn is_over(&self, now: BootTime) -> bool {
        now.has_passed(self.at, ANSWER_COPIES_FOR)
    }
}

/// All that a copy has in common with the first: the MACs follow from it, and from a cookie.
fn hash_of(initiation: &Initiation<'_>) -> [u8; 32] {
    hash(&[initiation.macs.before_mac1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::INITIATION_LEN;

    const NOW: BootTime = BootTime::from_nanos(1_000_000_000);

    /// The answer to what is left of an initiation that was answered after `change`.
    fn answer_to(change: impl FnOnce(&mut [u8; INITIATION_LEN])) -> Option<CopyAnswer> {
        let mut datagram = [0; INITIATION_LEN];
        datagram[0] = 1;
        let first = Initiation::parse(&datagram).unwrap();
        let source = |host: u8| SocketAddr::from(([192, 0, 2, host], 51820));
        let mut answered = Answered::begin(&first, source(1), NOW);
        assert_eq!(
            answered.answer_copy(&first, source(3), NOW),
            Some(CopyAnswer::Later)
        );
        let sources = answered.complete([7; RESPONSE_LEN], NOW);
        assert_eq!(sources, [source(1), source(3)]);
        change(&mut datagram);
        let copy = Initiation::parse(&datagram).unwrap();
        answered.answer_copy(&copy, source(2), NOW)
    }

    #[test]
    fn a_change_of_any_byte_that_the_handshake_covers_makes_another_initiation() {
        let response = CopyAnswer::Now([7; RESPONSE_LEN]);
        assert_eq!(answer_to(|_| ()).as_ref(), Some(&response));
        for changed in 4..INITIATION_LEN - 32 {
            let answer = answer_to(|datagram| datagram[changed] ^= 1);
            assert_eq!(answer, None, "byte {changed}");
        }
        // The last 16 bytes are mac2, which is for the path that the copy took.
        let answer = answer_to(|datagram| datagram[INITIATION_LEN - 1] ^= 1);
        assert_eq!(answer, Some(response));
    }
}

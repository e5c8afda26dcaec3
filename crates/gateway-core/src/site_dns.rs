//! DNS questions of clients about names of their resources, of types that are no addresses.
//!
//! A client asks them at the gateway's address in the tunnel. Addresses are asked for with grants: those that a client
//! is told lead through the tunnel.

use culvert_ids::ClientId;
use std::collections::BTreeMap;

/// See [`SiteQuestions::begin`].
const PART_PER_CLIENT: usize = 4;

/// Questions under way, of each client that has any.
#[derive(Debug)]
pub(super) struct SiteQuestions {
    max: usize,
    of: BTreeMap<ClientId, usize>,
}

/// The reason for which a question is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// Nobody at that address may use a resource with the name.
    NotGranted,
    /// As many questions as may be are under way, or as many of that client.
    TooMany,
}

impl SiteQuestions {
    /// At most so many questions at once.
    pub(super) const fn new(max: usize) -> Self {
        let of = BTreeMap::new();
        Self { max, of }
    }

    /// Takes a place for a question of the client, and returns false if it may have no more. A client may have
    /// fewer questions under way than a quarter of the free places (dynamic thresholds, Choudhury and Hahne, 1998).
    /// Each client that takes all that it may leaves four fifths of the rest.
    pub(super) fn begin(&mut self, client: ClientId) -> bool {
        let free = self.max.saturating_sub(self.of.values().sum());
        let own = self.of.get(&client).copied().unwrap_or_default();
        let has_room = own < free / PART_PER_CLIENT;
        if has_room {
            self.of.insert(client, own + 1);
        }
        has_room
    }

    pub(super) fn end(&mut self, client: ClientId) {
        if let Some(own) = self.of.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                self.of.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::MAX_QUESTIONS;

    #[test]
    fn a_client_has_its_share_of_the_questions_and_leaves_some_to_others() {
        let client = |number| ClientId::from_bytes([number; 16]);
        let mut questions = SiteQuestions::new(MAX_QUESTIONS);
        let mut begun = Vec::new();
        // Each takes as many as it may, one client after the other.
        for number in 0..12 {
            let mut own = 0;
            while questions.begin(client(number)) {
                own += 1;
            }
            begun.push(own);
        }
        assert_eq!(begun[..3], [13, 10, 8]);
        assert!(begun.iter().all(|own| *own > 0), "{begun:?}");
        assert!(questions.begin(client(99)), "{begun:?}");
        for (number, own) in begun.into_iter().enumerate() {
            for _ in 0..own {
                questions.end(client(u8::try_from(number).unwrap()));
            }
        }
        assert_eq!(questions.of.len(), 1, "only the last one's is under way");
    }
}

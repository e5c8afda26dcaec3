//! The paths that clients told lately: flows are reported after they have ended, perhaps when the client is gone or its
//! path is another one.

use crate::session::ClientPath;
use culvert_ids::{ClientId, GatewayId};
use culvert_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pairs that are remembered: 10,000 clients with three gateways each. The one whose path is the oldest gives way. At
/// most 450 bytes each, 15 MB.
const MAX_PAIRS: usize = 1 << 15;

/// Paths of a pair that are remembered.
const MAX_PATHS: usize = 8;

/// The time within which a client tells its first path to a gateway: a flow that was shorter went by it.
const TOLD_WITHIN_MS: u64 = 10_000;

/// The last paths of each pair, in the order of their time.
#[derive(Debug, Default)]
pub(super) struct PathHistory {
    by_pair: BTreeMap<(ClientId, GatewayId), VecDeque<ClientPath>>,
    /// Each pair by the time of its last path.
    by_time: BTreeSet<(Timestamp, (ClientId, GatewayId))>,
}

impl PathHistory {
    /// The path of a pair is this one from now on.
    pub(super) fn note(&mut self, client: ClientId, gateway: GatewayId, path: ClientPath) {
        let pair = (client, gateway);
        if self.by_pair.len() >= MAX_PAIRS && !self.by_pair.contains_key(&pair) {
            self.forget_oldest();
        }
        let paths = self.by_pair.entry(pair).or_default();
        if let Some(last) = paths.back() {
            self.by_time.remove(&(last.since, pair));
        }
        if paths.len() >= MAX_PATHS {
            paths.pop_front();
        }
        paths.push_back(path);
        self.by_time.insert((path.since, pair));
    }

    /// The path of a pair at that time, if it is known.
    pub(super) fn at(
        &self,
        client: ClientId,
        gateway: GatewayId,
        at: Timestamp,
    ) -> Option<ClientPath> {
        let paths = self.by_pair.get(&(client, gateway))?;
        let in_force = paths.iter().rfind(|path| path.since <= at);
        let first = paths.front().filter(|path| {
            let until = at.unix_ms().saturating_add(TOLD_WITHIN_MS);
            path.since.unix_ms() <= until
        });
        in_force.or(first).copied()
    }

    fn forget_oldest(&mut self) {
        if let Some((_, pair)) = self.by_time.pop_first() {
            self.by_pair.remove(&pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::messages::PathKind;

    const GATEWAY: GatewayId = GatewayId::from_bytes([1; 16]);

    fn path(kind: PathKind, since_ms: u64) -> ClientPath {
        ClientPath::told(kind, None, None, Timestamp::from_unix_ms(since_ms))
    }

    fn client(number: usize) -> ClientId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        ClientId::from_bytes(bytes)
    }

    #[test]
    fn a_flow_has_the_path_of_its_time() {
        let mut history = PathHistory::default();
        history.note(client(1), GATEWAY, path(PathKind::Relayed, 100_000));
        history.note(client(1), GATEWAY, path(PathKind::Direct, 200_000));
        let kind = |client, ms| {
            let at = Timestamp::from_unix_ms(ms);
            history.at(client, GATEWAY, at).map(|path| path.path)
        };
        assert_eq!(kind(client(1), 150_000), Some(PathKind::Relayed));
        assert_eq!(kind(client(1), 200_000), Some(PathKind::Direct));
        // Shorter than the time that the client took to tell, and long before.
        assert_eq!(kind(client(1), 99_000), Some(PathKind::Relayed));
        assert_eq!(kind(client(1), 10_000), None);
        assert_eq!(kind(client(2), 150_000), None);
    }

    #[test]
    fn the_number_of_pairs_and_paths_is_bounded_and_the_oldest_go() {
        let mut history = PathHistory::default();
        for number in 0..=MAX_PAIRS {
            let since = 100_000 + number as u64;
            history.note(client(number), GATEWAY, path(PathKind::Direct, since));
        }
        assert_eq!(history.by_pair.len(), MAX_PAIRS);
        let later = Timestamp::from_unix_ms(u64::from(u32::MAX));
        assert_eq!(history.at(client(0), GATEWAY, later), None);
        assert!(history.at(client(1), GATEWAY, later).is_some());
        for change in 0..100 {
            history.note(client(1), GATEWAY, path(PathKind::Direct, 200_000 + change));
        }
        assert_eq!(history.by_pair[&(client(1), GATEWAY)].len(), MAX_PATHS);
    }
}

//! The ranges whose addresses may begin flows at clients: the kernel's guard lets nothing else begin one.

use culvert_ids::ClientId;
use culvert_policy::Prefix;
use std::collections::{BTreeMap, BTreeSet};

/// The ranges of all clients' grants that open something. As many as there are grants at most.
#[derive(Debug, Default)]
pub(super) struct InboundSources {
    of_clients: BTreeMap<ClientId, BTreeSet<Prefix>>,
    /// Every range, and of how many clients.
    ranges: BTreeMap<Prefix, u32>,
    is_new: bool,
}

impl InboundSources {
    /// These ranges may begin flows at a client, and no others.
    pub(super) fn set(&mut self, client: ClientId, ranges: &BTreeSet<Prefix>) {
        let before = match ranges.is_empty() {
            true => self.of_clients.remove(&client),
            false => self.of_clients.insert(client, ranges.clone()),
        };
        let before = before.unwrap_or_default();
        for range in ranges.difference(&before) {
            let count = self.ranges.entry(*range).or_default();
            *count += 1;
            self.is_new |= *count == 1;
        }
        for range in before.difference(ranges) {
            if let Some(count) = self.ranges.get_mut(range) {
                *count -= 1;
                if *count == 0 {
                    self.ranges.remove(range);
                    self.is_new = true;
                }
            }
        }
    }

    /// All of them, where they are others than the last time.
    pub(super) fn poll(&mut self) -> Option<BTreeSet<Prefix>> {
        std::mem::take(&mut self.is_new).then(|| self.ranges.keys().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::UnixTime;

    #[test]
    fn a_range_is_there_as_long_as_one_client_has_it() {
        let client = |number| ClientId::new(UnixTime::from_millis(number), [0; 10]);
        let ranges = |texts: &[&str]| -> BTreeSet<Prefix> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mut sources = InboundSources::default();
        assert_eq!(sources.poll(), None);
        sources.set(client(1), &ranges(&["10.0.0.0/8"]));
        sources.set(client(2), &ranges(&["10.0.0.0/8", "fd00::/64"]));
        assert_eq!(sources.poll(), Some(ranges(&["10.0.0.0/8", "fd00::/64"])));
        sources.set(client(1), &ranges(&[]));
        assert_eq!(sources.poll(), None, "the other client has it");
        sources.set(client(2), &ranges(&["fd00::/64"]));
        assert_eq!(sources.poll(), Some(ranges(&["fd00::/64"])));
        sources.set(client(2), &ranges(&[]));
        assert_eq!(sources.poll(), Some(ranges(&[])));
    }
}

//! The peer of an inner address: longest match over every peer's allowed IPs.
//!
//! "Cryptokey routing" (WireGuard paper, section 2): the table decides to whom a packet from the
//! TUN is sealed, and whether the source address of an opened packet may come from its peer.

use culvert_base::Prefix;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A longest-match table from address to owner. A copy shares all with its original that neither has changed since, so
/// that a change of one range costs the nodes on the way to it, whatever else the table holds.
///
/// Each family is a binary trie with its one-child chains left out, so a look-up visits at most as
/// many nodes as there are nested ranges around the address, and forks between them.
#[derive(Clone, Debug)]
pub struct AllowedIps<T> {
    v4: Link<T>,
    v6: Link<T>,
}

impl<T> Default for AllowedIps<T> {
    fn default() -> Self {
        Self { v4: None, v6: None }
    }
}

impl<T: Copy> AllowedIps<T> {
    /// A table of these ranges.
    pub fn new(ranges: &BTreeMap<Prefix, T>) -> Self {
        let mut table = Self::default();
        for (prefix, owner) in ranges {
            table.insert(prefix, *owner);
        }
        table
    }

    /// Gives a range to `owner`, whoever had it.
    pub fn insert(&mut self, range: &Prefix, owner: T) {
        let (bits, len) = (bits(range.address()), range.len());
        insert(self.family_mut(range.address()), bits, len, owner);
    }

    /// Takes a range from its owner. The ranges inside it and around it stay.
    pub fn remove(&mut self, range: &Prefix) {
        let (bits, len) = (bits(range.address()), range.len());
        remove(self.family_mut(range.address()), bits, len);
    }

    /// The owner of the longest range that holds `address`.
    pub fn owner(&self, address: IpAddr) -> Option<T> {
        let root = match address {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        longest_match(root, bits(address))
    }

    fn family_mut(&mut self, address: IpAddr) -> &mut Link<T> {
        match address {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        }
    }
}

/// A node, or nothing. With its counts a node has 64 bytes, the length of a cache line.
type Link<T> = Option<Arc<Node<T>>>;

#[derive(Clone, Debug)]
struct Node<T> {
    /// The bits that every address below this node starts with, left-aligned; the rest is zero.
    bits: u128,
    len: u8,
    owner: Option<T>,
    children: [Link<T>; 2],
}

impl<T> Node<T> {
    fn link(bits: u128, len: u8, owner: Option<T>, children: [Link<T>; 2]) -> Link<T> {
        Some(Arc::new(Self {
            bits,
            len,
            owner,
            children,
        }))
    }
}

fn longest_match<T: Copy>(root: &Link<T>, address: u128) -> Option<T> {
    let mut best = None;
    let mut at = root.as_deref();
    while let Some(node) = at {
        if mask(address, node.len) != node.bits {
            break;
        }
        best = node.owner.or(best);
        if node.len == u128::BITS as u8 {
            break;
        }
        at = node.children[branch(address, node.len)].as_deref();
    }
    best
}

/// Goes down 128 nodes at most: each is longer than the one above.
fn insert<T: Copy>(link: &mut Link<T>, bits: u128, len: u8, owner: T) {
    let Some(node) = link.as_deref() else {
        *link = Node::link(bits, len, Some(owner), [None, None]);
        return;
    };
    let shared = shared_len(node, bits, len);
    if shared < node.len {
        let is_around = shared == len;
        let side = branch(node.bits, shared);
        let mut children = [None, None];
        if !is_around {
            children[1 - side] = Node::link(bits, len, Some(owner), [None, None]);
        }
        children[side] = link.take();
        let owner = is_around.then_some(owner);
        *link = Node::link(mask(bits, shared), shared, owner, children);
    } else if let Some(node) = link.as_mut().map(Arc::make_mut) {
        if node.len == len {
            node.owner = Some(owner);
        } else {
            insert(&mut node.children[branch(bits, node.len)], bits, len, owner);
        }
    }
}

fn remove<T: Copy>(link: &mut Link<T>, bits: u128, len: u8) {
    let Some(node) = link else {
        return;
    };
    if node.len > len || mask(bits, node.len) != node.bits {
        return;
    }
    let node = Arc::make_mut(node);
    if node.len == len {
        node.owner = None;
    } else {
        remove(&mut node.children[branch(bits, node.len)], bits, len);
    }
    if node.owner.is_none() && node.children.iter().flatten().count() < 2 {
        let rest = node.children.iter_mut().find_map(Option::take);
        *link = rest;
    }
}

/// The number of leading bits that `node` and the first `len` of `bits` have in common.
fn shared_len<T>(node: &Node<T>, bits: u128, len: u8) -> u8 {
    let same = (node.bits ^ bits).leading_zeros() as u8;
    same.min(node.len).min(len)
}

/// The bit after the first `len` bits: which child the address lies under. `len` is below 128.
fn branch(bits: u128, len: u8) -> usize {
    usize::from(bits << len >> (u128::BITS - 1) == 1)
}

fn mask(bits: u128, len: u8) -> u128 {
    match u128::BITS - u32::from(len) {
        u128::BITS => 0,
        unused => bits >> unused << unused,
    }
}

/// The address as the leading bits of a 128-bit number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    fn from_bits(bits: u128, is_ipv4: bool) -> IpAddr {
        if is_ipv4 {
            IpAddr::V4(((bits >> 96) as u32).into())
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        // Few distinct leading bits, so that ranges nest and addresses hit them.
        let sparse = prop_oneof![
            any::<u128>(),
            (0u128..16).prop_map(|n| n << 124 | n << 96 | n)
        ];
        (sparse, any::<bool>(), 0u8..=128).prop_map(|(bits, v4, len)| {
            let len = if v4 { len % 33 } else { len };
            Prefix::around(from_bits(bits, v4), len).unwrap()
        })
    }

    fn naive_owner(ranges: &BTreeMap<Prefix, u32>, address: IpAddr) -> Option<u32> {
        ranges
            .iter()
            .filter(|(range, _)| {
                range.address().is_ipv4() == address.is_ipv4()
                    && Prefix::around(address, range.len()) == Ok(**range)
            })
            .max_by_key(|(range, _)| range.len())
            .map(|(_, owner)| *owner)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Prefix, u32),
        Remove(Prefix),
    }

    /// Also removes what was inserted: half of the removals name one of few ranges.
    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (prefix(), any::<u32>()).prop_map(|(range, owner)| Step::Insert(range, owner)),
            prefix().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn a_table_that_is_changed_range_by_range_is_the_one_that_is_built_at_once(
            steps in prop::collection::vec(step(), 0..60),
            victims in prop::collection::vec(any::<prop::sample::Index>(), 20),
            flips in prop::collection::vec(0u32..128, 4),
        ) {
            let mut ranges = BTreeMap::new();
            let mut table = AllowedIps::default();
            let inserted: Vec<Prefix> = steps.iter().filter_map(|step| match step {
                Step::Insert(range, _) => Some(*range),
                Step::Remove(_) => None,
            }).collect();
            let removals = victims.iter().filter(|_| !inserted.is_empty());
            let removals = removals.map(|victim| Step::Remove(*victim.get(&inserted)));
            for step in steps.iter().cloned().chain(removals) {
                let (before, ranges_before) = (table.clone(), ranges.clone());
                match step {
                    Step::Insert(range, owner) => {
                        table.insert(&range, owner);
                        ranges.insert(range, owner);
                    }
                    Step::Remove(range) => {
                        table.remove(&range);
                        ranges.remove(&range);
                    }
                }
                for range in &inserted {
                    for flip in &flips {
                        let is_ipv4 = range.address().is_ipv4();
                        let address = from_bits(bits(range.address()) ^ 1 << flip, is_ipv4);
                        prop_assert_eq!(table.owner(address), naive_owner(&ranges, address));
                        prop_assert_eq!(before.owner(address), naive_owner(&ranges_before, address));
                    }
                }
            }
            prop_assert_eq!(nodes(&table), nodes(&AllowedIps::new(&ranges)), "nothing is left over");
        }

        #[test]
        fn the_longest_range_that_holds_an_address_owns_it(
            ranges in prop::collection::btree_map(prefix(), any::<u32>(), 0..40),
            probes in prop::collection::vec((any::<u128>(), any::<bool>()), 1..20),
            flips in prop::collection::vec(0u32..128, 4),
        ) {
            let table = AllowedIps::new(&ranges);
            let random = probes.iter().map(|&(bits, v4)| from_bits(bits, v4));
            // Addresses at and next to the ranges find the edges that random ones miss.
            let near = ranges.keys().flat_map(|range| {
                flips.iter().map(|flip| from_bits(bits(range.address()) ^ 1 << flip, range.address().is_ipv4()))
                    .chain([range.address()])
            });
            for address in random.chain(near) {
                prop_assert_eq!(table.owner(address), naive_owner(&ranges, address), "{}", address);
            }
        }
    }

    fn nodes<T>(table: &AllowedIps<T>) -> usize {
        fn below<T>(link: &Link<T>) -> usize {
            let node = link.as_deref();
            node.map_or(0, |node| 1 + node.children.iter().map(below).sum::<usize>())
        }
        below(&table.v4) + below(&table.v6)
    }

    #[test]
    fn an_empty_table_owns_nothing() {
        let table = AllowedIps::<u32>::new(&BTreeMap::new());
        assert_eq!(table.owner([10, 0, 0, 1].into()), None);
    }
}

//! The peer of an inner address: longest match over every peer's allowed IPs.
//!
//! "Cryptokey routing" (WireGuard paper, section 2): the table decides to whom a packet from the
//! TUN is sealed, and whether the source address of an opened packet may come from its peer.

use culvert_base::Prefix;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An immutable longest-match table from address to owner, built once per configuration change.
///
/// Each family is a binary trie with its one-child chains left out, so a look-up visits at most as
/// many nodes as there are nested ranges around the address.
#[derive(Debug)]
pub struct AllowedIps<T> {
    v4: Trie<T>,
    v6: Trie<T>,
}

impl<T: Copy> AllowedIps<T> {
    /// Builds the table. A range appears once: giving it to another owner is the caller's business.
    pub fn new(ranges: &BTreeMap<Prefix, T>) -> Self {
        let mut table = Self {
            v4: Trie::default(),
            v6: Trie::default(),
        };
        for (prefix, owner) in ranges {
            let trie = if prefix.address().is_ipv4() {
                &mut table.v4
            } else {
                &mut table.v6
            };
            trie.insert(bits(prefix.address()), prefix.len(), *owner);
        }
        table
    }

    /// The owner of the longest range that holds `address`.
    pub fn owner(&self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(_) => self.v4.longest_match(bits(address)),
            IpAddr::V6(_) => self.v6.longest_match(bits(address)),
        }
    }
}

/// Index of a node in its trie; the root, where there is one, is node 0.
type NodeIndex = u32;

#[derive(Debug)]
struct Node<T> {
    /// The bits that every address below this node starts with, left-aligned; the rest is zero.
    bits: u128,
    len: u8,
    owner: Option<T>,
    children: [Option<NodeIndex>; 2],
}

#[derive(Debug)]
struct Trie<T> {
    nodes: Vec<Node<T>>,
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<T: Copy> Trie<T> {
    fn longest_match(&self, address: u128) -> Option<T> {
        let mut best = None;
        let mut at = (!self.nodes.is_empty()).then_some(0);
        while let Some(index) = at {
            let node = &self.nodes[index as usize];
            if mask(address, node.len) != node.bits {
                break;
            }
            best = node.owner.or(best);
            if node.len == u128::BITS as u8 {
                break;
            }
            at = node.children[branch(address, node.len)];
        }
        best
    }

    fn insert(&mut self, bits: u128, len: u8, owner: T) {
        if self.nodes.is_empty() {
            // A root of length 0 spares every other step the case of a root that must be split.
            self.push(0, 0, None);
        }
        let mut at = 0;
        loop {
            let node = &self.nodes[at as usize];
            if node.len == len {
                self.nodes[at as usize].owner = Some(owner);
                return;
            }
            let side = branch(bits, node.len);
            let Some(child) = node.children[side] else {
                let leaf = self.push(bits, len, Some(owner));
                self.nodes[at as usize].children[side] = Some(leaf);
                return;
            };
            let shared = self.shared_len(child, bits, len);
            if shared == self.nodes[child as usize].len {
                at = child;
                continue;
            }
            let fork = self.push(mask(bits, shared), shared, None);
            let child_side = branch(self.nodes[child as usize].bits, shared);
            self.nodes[fork as usize].children[child_side] = Some(child);
            self.nodes[at as usize].children[side] = Some(fork);
            at = fork;
        }
    }

    /// The number of leading bits that `child` and the first `len` of `bits` have in common.
    fn shared_len(&self, child: NodeIndex, bits: u128, len: u8) -> u8 {
        let child = &self.nodes[child as usize];
        let same = (child.bits ^ bits).leading_zeros() as u8;
        same.min(child.len).min(len)
    }

    fn push(&mut self, bits: u128, len: u8, owner: Option<T>) -> NodeIndex {
        let index = NodeIndex::try_from(self.nodes.len()).expect("fewer than 2^32 allowed IPs");
        self.nodes.push(Node {
            bits,
            len,
            owner,
            children: [None; 2],
        });
        index
    }
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

    proptest! {
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

    #[test]
    fn an_empty_table_owns_nothing() {
        let table = AllowedIps::<u32>::new(&BTreeMap::new());
        assert_eq!(table.owner([10, 0, 0, 1].into()), None);
    }
}

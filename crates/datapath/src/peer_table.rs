//! All peers by their numbers, or something of each, in a table whose copies share what has not changed.

use crate::peer::Peer;
use culvert_session::PeerId;
use std::sync::Arc;

/// Peers of one block: a change copies one block, and a list of blocks. With 65,536 peers the list has 512 entries.
const BLOCK: usize = 128;

type Block<T> = [Option<Arc<T>>; BLOCK];

/// The peers by the number of their [`PeerId`].
pub struct PeerTable<T = Peer> {
    blocks: Vec<Arc<Block<T>>>,
}

impl<T> PeerTable<T> {
    /// The peer with this number.
    #[must_use]
    pub fn get(&self, id: PeerId) -> Option<&Arc<T>> {
        let block = self.blocks.get(id.slot() / BLOCK)?;
        block[id.slot() % BLOCK].as_ref()
    }

    /// Puts a peer in the place of its number, whoever had it.
    pub fn insert(&mut self, id: PeerId, peer: Arc<T>) {
        let slot = id.slot();
        while self.blocks.len() <= slot / BLOCK {
            self.blocks.push(Arc::new(std::array::from_fn(|_| None)));
        }
        Arc::make_mut(&mut self.blocks[slot / BLOCK])[slot % BLOCK] = Some(peer);
    }

    /// Nobody has this number from here on.
    pub fn remove(&mut self, id: PeerId) {
        if self.get(id).is_some() {
            Arc::make_mut(&mut self.blocks[id.slot() / BLOCK])[id.slot() % BLOCK] = None;
        }
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        let blocks = self.blocks.iter();
        blocks.flat_map(|block| block.iter()).flatten()
    }
}

impl<T> Clone for PeerTable<T> {
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
        }
    }
}

impl<T> Default for PeerTable<T> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::PublicKey;

    fn peer(number: usize) -> Arc<Peer> {
        let id = PeerId(u32::try_from(number).unwrap());
        let key = PublicKey::from_bytes([1; 32]);
        Arc::new(Peer::new(id, key, Arc::default()))
    }

    #[test]
    fn a_copy_keeps_the_peers_that_it_was_made_with() {
        let mut table = PeerTable::default();
        let numbers = [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5];
        for number in numbers {
            let peer = peer(number);
            table.insert(peer.id, peer);
        }
        let copy = table.clone();
        table.remove(PeerId(1));
        table.remove(PeerId(u32::MAX));
        table.insert(PeerId(7), peer(7));
        let slots =
            |table: &PeerTable| -> Vec<usize> { table.iter().map(|peer| peer.id.slot()).collect() };
        assert_eq!(slots(&copy), numbers);
        assert_eq!(slots(&table), [0, 7, BLOCK - 1, BLOCK, 3 * BLOCK + 5]);
        assert!(table.get(PeerId(1)).is_none() && copy.get(PeerId(1)).is_some());
    }
}

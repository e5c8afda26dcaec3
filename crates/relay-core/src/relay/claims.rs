//! Numbers that clients claim: receiver indices of their sessions, and tags of their probes.

use super::record::Number;
use crate::hash::{HashKey, KeyedMap};

/// The place of an end in its port's table.
pub(crate) type Slot = u32;

/// Another client has the number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken;

/// The numbers of all clients of a port. A number belongs to the first that claimed it, until it leaves.
#[derive(Debug)]
pub(crate) struct ClaimTable(KeyedMap<Number, Slot>);

/// The numbers of one client: `N` at most, in the order of their claims.
#[derive(Clone, Debug)]
pub(crate) struct ClaimList<const N: usize> {
    numbers: [Number; N],
    len: usize,
    /// The oldest, once the list is full.
    oldest: usize,
}

impl<const N: usize> ClaimList<N> {
    pub(crate) const EMPTY: Self = Self {
        numbers: [[0; 4]; N],
        len: 0,
        oldest: 0,
    };

    fn iter(&self) -> impl Iterator<Item = Number> {
        self.numbers[..self.len].iter().copied()
    }

    /// Adds a number, and returns the one that leaves for it.
    fn push(&mut self, number: Number) -> Option<Number> {
        if self.len < N {
            self.numbers[self.len] = number;
            self.len += 1;
            return None;
        }
        let place = self.oldest;
        self.oldest = (place + 1) % N;
        Some(std::mem::replace(&mut self.numbers[place], number))
    }
}

impl ClaimTable {
    pub(crate) fn new(key: HashKey) -> Self {
        Self(KeyedMap::with_hasher(key))
    }

    /// The owner of a number.
    pub(crate) fn owner(&self, number: Number) -> Option<Slot> {
        self.0.get(&number).copied()
    }

    /// Gives a number to the client at `slot`, whose list is `list`.
    ///
    /// # Errors
    /// [`Taken`]; nothing changes.
    pub(crate) fn claim<const N: usize>(
        &mut self,
        number: Number,
        slot: Slot,
        list: &mut ClaimList<N>,
    ) -> Result<(), Taken> {
        match self.owner(number) {
            Some(owner) if owner == slot => return Ok(()),
            Some(_) => return Err(Taken),
            None => {}
        }
        if let Some(oldest) = list.push(number) {
            self.0.remove(&oldest);
        }
        self.0.insert(number, slot);
        Ok(())
    }

    /// Takes all numbers of a client away.
    pub(crate) fn release<const N: usize>(&mut self, list: &mut ClaimList<N>) {
        for number in list.iter() {
            self.0.remove(&number);
        }
        *list = ClaimList::EMPTY;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: u32) -> Number {
        value.to_be_bytes()
    }

    #[test]
    fn a_number_belongs_to_the_first_until_it_leaves() {
        let mut table = ClaimTable::new(HashKey::new(1));
        let [mut first, mut second] = [ClaimList::<2>::EMPTY, ClaimList::EMPTY];
        assert_eq!(table.claim(number(7), 0, &mut first), Ok(()));
        assert_eq!(table.claim(number(7), 1, &mut second), Err(Taken));
        assert_eq!(table.claim(number(7), 0, &mut first), Ok(()));
        table.release(&mut first);
        assert_eq!(table.owner(number(7)), None);
        assert_eq!(table.claim(number(7), 1, &mut second), Ok(()));
        assert_eq!(table.owner(number(7)), Some(1));
    }

    #[test]
    fn the_oldest_number_leaves_a_full_list() {
        let mut table = ClaimTable::new(HashKey::new(1));
        let mut list = ClaimList::<3>::EMPTY;
        for value in 0..10 {
            table.claim(number(value), 0, &mut list).unwrap();
            assert!(table.len() <= 3);
        }
        let owned: Vec<u32> = (0..10)
            .filter(|v| table.owner(number(*v)).is_some())
            .collect();
        assert_eq!(owned, [7, 8, 9]);
        table.release(&mut list);
        assert_eq!(table.len(), 0);
    }
}

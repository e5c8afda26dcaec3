//! Places that clients share: questions that wait, and connections.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An address has fewer places than a quarter of the free ones (dynamic thresholds, Choudhury and Hahne, 1998). Each one that takes
/// all that it may leaves four fifths of the rest.
const PART_PER_ADDRESS: usize = 4;

/// A number of places. A client has two addresses at most.
#[derive(Debug)]
pub(super) struct Places {
    max: usize,
    max_per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    of_address: BTreeMap<IpAddr, usize>,
    all: usize,
}

/// The place of an address, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(max: usize, max_per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            max_per_address,
            taken: Mutex::default(),
        })
    }

    /// Another place for an address; none where it has its share.
    pub(super) fn take(places: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = places.taken();
        let own = taken.of_address.get(&address).copied().unwrap_or_default();
        let free = places.max - taken.all;
        let limit = places.max_per_address.min(free / PART_PER_ADDRESS);
        // The last free places are for those that have none.
        if free == 0 || own >= limit.max(1) {
            return None;
        }
        taken.of_address.insert(address, own + 1);
        taken.all += 1;
        drop(taken);
        let places = Arc::clone(places);
        Some(Place { places, address })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.of_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.of_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(places: &Arc<Places>, number: u8) -> Vec<Place> {
        let address = IpAddr::from([100, 64, 0, number]);
        std::iter::from_fn(|| Places::take(places, address)).collect()
    }

    #[test]
    fn an_address_that_takes_all_it_can_leaves_places_to_others() {
        let places = Places::new(256, 16);
        let taken: Vec<Vec<Place>> = (0..25).map(|number| take_all(&places, number)).collect();
        assert_eq!(taken[0].len(), 16);
        assert!(taken.iter().all(|taken| !taken.is_empty()));
        assert_eq!(take_all(&places, 99).len(), 1);
        let rest: Vec<Vec<Place>> = (30..60).map(|number| take_all(&places, number)).collect();
        assert!(rest.last().is_some_and(Vec::is_empty));
        assert_eq!(places.taken().all, 256);
    }

    #[test]
    fn places_are_given_back_and_addresses_without_one_are_not_remembered() {
        let places = Places::new(128, 8);
        let mut taken = take_all(&places, 1);
        assert_eq!(taken.len(), 8);
        taken.pop();
        assert_eq!(take_all(&places, 1).len(), 1);
        drop(taken);
        assert_eq!(places.taken().all, 0);
        assert!(places.taken().of_address.is_empty());
    }
}

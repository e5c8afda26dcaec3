//! The flows that a host began through its tunnel, in a table that workers share without a lock.
//!
//! A set-associative cache: the hash of a key names a bucket, and a flow is in one of its [`WAYS`] places. Each place is a
//! seqlock (Boehm, "Can Seqlocks Get Along With Programming Language Memory Models?", 2012). Its head holds a generation, a
//! mark that somebody writes, and a part of the hash. A reader that finds the same head before and after has read one flow.
//! A writer takes a place by exchanging its head; whoever loses takes another place.
//!
//! Made once and never grown: nothing here allocates, blocks or waits.

use super::sync::{AtomicU64, Ordering, fence};

/// Flows that a client remembers: as many as one gateway remembers of it, 2^15, which is more than the 28,232 ports from
/// which Linux begins connections unless told otherwise. At 56 bytes each they take 1.8 MB. When the places of a new flow
/// are all taken, the one of them makes room that is over, unanswered, or silent for the longest time.
pub const MAX_CLIENT_FLOWS: usize = 1 << 15;

/// Places of one flow. Eight heads are one cache line. With a quarter of all places taken, a bucket overflows with a
/// probability of 0.02 % (Poisson, mean 2).
pub(super) const WAYS: usize = 8;

/// Of those, places of flows that began outside: half, so that what comes in never takes all from what the host begins.
const INBOUND_WAYS: usize = WAYS / 2;

/// Words of a key.
pub(super) const KEY_WORDS: usize = 4;

/// The key of a flow, in words that are read and written one by one.
pub(super) type KeyWords = [u64; KEY_WORDS];

/// The mark of a head that somebody writes.
const BUSY: u64 = 1 << 32;

/// The first of the bits that count the flows which were at a place.
const GENERATION_SHIFT: u32 = 33;

/// Places by which a key may be found.
#[derive(Debug, Default)]
struct Bucket {
    /// Generation (31 bits), [`BUSY`], tag (32 bits). 0 is a place that was never used.
    heads: [AtomicU64; WAYS],
    keys: [[AtomicU64; KEY_WORDS]; WAYS],
    /// Generation (upper half) and the flags of the flow.
    states: [AtomicU64; WAYS],
    /// The time of the last packet that counts, in seconds.
    last_s: [AtomicU64; WAYS],
}

impl Bucket {
    /// The third word of the key, the flags and the last second of the flow at a place.
    fn flow_at(&self, way: usize) -> (u64, u32, u64) {
        (
            self.keys[way][2].load(Ordering::Relaxed),
            self.states[way].load(Ordering::Relaxed) as u32,
            self.last_s[way].load(Ordering::Relaxed),
        )
    }
}

/// A table of flows.
#[derive(Debug)]
pub(super) struct ClientFlows {
    buckets: Box<[Bucket]>,
    displaced: AtomicU64,
}

/// A flow that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    bucket: usize,
    way: usize,
    generation: u32,
    /// The flags that it had.
    pub(super) flags: u32,
    /// The time of its last packet, in seconds.
    pub(super) last_s: u64,
}

/// The worth of a place for a new flow: the least one is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Never used.
    Free,
    /// The flow there is over.
    Over,
    /// It lasts; those that are worth less first, then those that were silent for longer.
    Lasting {
        /// False for flows that give way to others.
        is_answered: bool,
        /// The time of its last packet, in seconds.
        last_s: u64,
    },
    /// It is not to be had, whatever is there.
    Reserved,
}

impl ClientFlows {
    /// Room for `max` flows, at least those of one bucket.
    pub(super) fn new(max: usize) -> Self {
        let buckets = (max / WAYS).next_power_of_two();
        Self {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            displaced: AtomicU64::new(0),
        }
    }

    /// The flow with this key and hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &KeyWords) -> Option<Found> {
        let (bucket, tag) = self.place(hash);
        let it = &self.buckets[bucket];
        for way in 0..WAYS {
            let head = it.heads[way].load(Ordering::Acquire);
            if head & (BUSY | u64::from(u32::MAX)) != tag || generation(head) == 0 {
                continue;
            }
            let is_it = it.keys[way]
                .iter()
                .zip(key)
                .all(|(word, wanted)| word.load(Ordering::Relaxed) == *wanted);
            let state = it.states[way].load(Ordering::Relaxed);
            let last_s = it.last_s[way].load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if is_it && it.heads[way].load(Ordering::Relaxed) == head {
                return Some(Found {
                    bucket,
                    way,
                    generation: generation(head),
                    flags: state as u32,
                    last_s,
                });
            }
        }
        None
    }

    /// Notes that something of a flow came or went. Within a second nothing is written.
    #[inline]
    pub(super) fn touch(&self, found: &Found, now_s: u64) {
        if found.last_s < now_s {
            // Another flow that is there by now is as young.
            self.buckets[found.bucket].last_s[found.way].store(now_s, Ordering::Relaxed);
        }
    }

    /// Adds flags to a flow that has been found, unless another one is there by now.
    #[inline]
    pub(super) fn add_flags(&self, found: &Found, flags: u32) {
        if found.flags | flags != found.flags {
            self.write_flags(found, flags);
        }
    }

    #[cold]
    fn write_flags(&self, found: &Found, flags: u32) {
        let state = &self.buckets[found.bucket].states[found.way];
        let is_same = |state: u64| (state >> 32) as u32 == found.generation;
        let add = |state: u64| is_same(state).then_some(state | u64::from(flags));
        let _is_another = state.fetch_update(Ordering::Release, Ordering::Relaxed, add);
    }

    /// Enters a flow, in the place of `replaced` if there is such. `rank` says what a place is worth by the key's third
    /// word, the flags and the last second of the flow there. False where others write all its places at this moment.
    #[cold]
    pub(super) fn begin(
        &self,
        hash: u64,
        key: &KeyWords,
        flags: u32,
        now_s: u64,
        replaced: Option<Found>,
        rank: impl Fn(u64, u32, u64) -> Rank,
    ) -> bool {
        let rank = |used: Option<(u64, u32, u64)>| {
            used.map_or(Rank::Free, |(word, flags, last_s)| {
                rank(word, flags, last_s)
            })
        };
        self.enter(hash, key, flags, now_s, replaced, rank)
    }

    /// Enters a flow. `rank` says what a place is worth; one that was never used has no flow.
    fn enter(
        &self,
        hash: u64,
        key: &KeyWords,
        flags: u32,
        now_s: u64,
        replaced: Option<Found>,
        rank: impl Fn(Option<(u64, u32, u64)>) -> Rank,
    ) -> bool {
        let (bucket, tag) = self.place(hash);
        let mut tried = [false; WAYS];
        for _ in 0..WAYS {
            let chosen = replaced
                .map(|found| (Rank::Over, found.way, head(found.generation, tag)))
                .filter(|(_, way, _)| !tried[*way])
                .or_else(|| self.least(bucket, &tried, &rank));
            let Some((rank, way, before)) = chosen else {
                return false;
            };
            tried[way] = true;
            if self.write(bucket, (way, before), tag, key, flags, now_s) {
                if matches!(rank, Rank::Lasting { .. }) {
                    self.displaced.fetch_add(1, Ordering::Relaxed);
                }
                return true;
            }
        }
        false
    }

    /// The place that is worth the least of those not tried, with its worth, and the head of the flow that was judged.
    fn least(
        &self,
        bucket: usize,
        tried: &[bool; WAYS],
        rank: impl Fn(Option<(u64, u32, u64)>) -> Rank,
    ) -> Option<(Rank, usize, u64)> {
        let it = &self.buckets[bucket];
        let ways = (0..WAYS).filter(|way| !tried[*way]);
        let ranked = ways.map(|way| {
            let head = it.heads[way].load(Ordering::Relaxed);
            let used = (generation(head) != 0).then(|| it.flow_at(way));
            (rank(used), way, head)
        });
        ranked.filter(|(rank, ..)| *rank != Rank::Reserved).min()
    }

    /// Enters a flow that began outside. It takes no place in which a flow of the host lasts, and of all that began outside
    /// no more than [`INBOUND_WAYS`] are in one bucket. `rank` says too whether a flow began outside.
    #[cold]
    pub(super) fn begin_inbound(
        &self,
        hash: u64,
        key: &KeyWords,
        flags: u32,
        now_s: u64,
        replaced: Option<Found>,
        rank: impl Fn(u64, u32, u64) -> (bool, Rank),
    ) -> bool {
        let (bucket, _) = self.place(hash);
        let it = &self.buckets[bucket];
        let lasts = |way: &usize| {
            let (word, flags, last_s) = it.flow_at(*way);
            let (is_inbound, rank) = rank(word, flags, last_s);
            is_inbound && matches!(rank, Rank::Lasting { .. })
        };
        let is_full = (0..WAYS).filter(lasts).count() >= INBOUND_WAYS;
        let rank = |used: Option<(u64, u32, u64)>| {
            let of_used = |(word, flags, last_s)| rank(word, flags, last_s);
            match used.map_or((false, Rank::Free), of_used) {
                (true, rank) => rank,
                (false, Rank::Lasting { .. }) => Rank::Reserved,
                (false, _) if is_full => Rank::Reserved,
                (false, rank) => rank,
            }
        };
        self.enter(hash, key, flags, now_s, replaced, rank)
    }

    /// Writes a flow to a place with the head `before`. False where somebody else does, or has done so since: the flow there
    /// is not the one that was judged.
    fn write(
        &self,
        bucket: usize,
        (way, before): (usize, u64),
        tag: u64,
        key: &KeyWords,
        flags: u32,
        now_s: u64,
    ) -> bool {
        let it = &self.buckets[bucket];
        let taken = before | BUSY;
        if before == taken
            || it.heads[way]
                .compare_exchange(before, taken, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // A reader that sees a word from here on sees the busy head too.
        fence(Ordering::Release);
        let next = next_generation(generation(before));
        for (word, value) in it.keys[way].iter().zip(key) {
            word.store(*value, Ordering::Relaxed);
        }
        let state = u64::from(next) << 32 | u64::from(flags);
        // An exchange, so that flags which another worker adds at this moment come before it.
        it.states[way].swap(state, Ordering::AcqRel);
        it.last_s[way].store(now_s, Ordering::Relaxed);
        it.heads[way].store(head(next, tag), Ordering::Release);
        true
    }

    /// The number of a flow's place.
    pub(super) const fn number(found: &Found) -> (u32, u32) {
        // The table has fewer than 2^32 places.
        ((found.bucket * WAYS + found.way) as u32, found.generation)
    }

    /// The flow with such a number, if it is still the same one, and the third word of its key.
    pub(super) fn at(&self, (place, generation_then): (u32, u32)) -> Option<(Found, u64)> {
        let (bucket, way) = (place as usize / WAYS, place as usize % WAYS);
        let it = self.buckets.get(bucket)?;
        let head = it.heads[way].load(Ordering::Acquire);
        if head & BUSY != 0 || generation(head) != generation_then {
            return None;
        }
        let word = it.keys[way][2].load(Ordering::Relaxed);
        let found = Found {
            bucket,
            way,
            generation: generation_then,
            flags: it.states[way].load(Ordering::Relaxed) as u32,
            last_s: it.last_s[way].load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (it.heads[way].load(Ordering::Relaxed) == head).then_some((found, word))
    }

    /// Places whose flow is worth more than nothing.
    pub(super) fn count(&self, rank: impl Fn(u64, u32, u64) -> Rank) -> usize {
        let lasts = |bucket: &Bucket, way: usize| {
            generation(bucket.heads[way].load(Ordering::Relaxed)) != 0
                && matches!(
                    {
                        let (word, flags, last_s) = bucket.flow_at(way);
                        rank(word, flags, last_s)
                    },
                    Rank::Lasting { .. }
                )
        };
        let in_bucket = |bucket: &Bucket| (0..WAYS).filter(|way| lasts(bucket, *way)).count();
        self.buckets.iter().map(in_bucket).sum()
    }

    /// Flows that made room for others although they were not over.
    pub(super) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> (usize, u64) {
        // The number of buckets is a power of two.
        (hash as usize & (self.buckets.len() - 1), hash >> 32)
    }
}

/// The head of a place that nobody writes.
const fn head(generation: u32, tag: u64) -> u64 {
    (generation as u64) << GENERATION_SHIFT | tag
}

const fn generation(head: u64) -> u32 {
    (head >> GENERATION_SHIFT) as u32
}

/// 0 means that a place was never used.
const fn next_generation(generation: u32) -> u32 {
    match (generation + 1) & (u32::MAX >> 1) {
        0 => 1,
        next => next,
    }
}

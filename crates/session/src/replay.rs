//! The sliding window that refuses a counter seen before (§5.4.6, RFC 6479 for the idea).

/// The largest distance behind the highest counter at which a packet is still judged. It is more datagrams than wait
/// in a receiver's socket, since priority packets are read ahead of them: the socket holds 16 MiB, and the kernel
/// charges at least 768 bytes for each. With full packets the window covers 47 MB: reordering by
/// up to 38 ms at 10 Gbit/s. Linux keeps 8192 bits. The 4 KiB of this window are about the size of its cipher's tables,
/// and a key under which little has come takes less.
pub const REPLAY_WINDOW: u64 = 32_768;

const WORD_BITS: u64 = 64;
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize;

/// The words of a window that has seen something: enough for the packets of a client that is idle but for keepalives.
const FIRST_WORDS: usize = 4;

/// The verdict of the window on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// Not seen before.
    Fresh,
    /// Seen before.
    Replayed,
    /// [`REPLAY_WINDOW`] or more behind the highest: seen or not is unknown, so it is refused.
    TooOld,
}

/// The set of the last [`REPLAY_WINDOW`] counters that were received.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// One more than the highest counter received; zero before the first.
    next: u64,
    /// Bit `counter % REPLAY_WINDOW`, for the counters `next - REPLAY_WINDOW .. next`. It has fewer than [`WORDS`] while
    /// all counters from 0 to `next` have their place in fewer: most of thousands of sessions carry little.
    seen: Vec<u64>,
}

/// The position of a counter relative to the window.
enum Position {
    /// At or past the right edge.
    Ahead,
    /// Inside: the word and bit that stand for it.
    Within { word: usize, bit: u64 },
    /// Past the left edge.
    Behind,
}

impl ReplayWindow {
    /// A window that has seen nothing.
    pub const fn new() -> Self {
        Self {
            next: 0,
            seen: Vec::new(),
        }
    }

    /// Judges `counter` without remembering it: for use before the packet is authentic.
    pub fn check(&self, counter: u64) -> ReplayVerdict {
        match self.position(counter) {
            Position::Ahead => ReplayVerdict::Fresh,
            Position::Within { word, bit } if self.seen[word] & bit == 0 => ReplayVerdict::Fresh,
            Position::Within { .. } => ReplayVerdict::Replayed,
            Position::Behind => ReplayVerdict::TooOld,
        }
    }

    /// Judges `counter` and remembers it if it is fresh: for use once the packet is authentic.
    ///
    /// `counter` must be below `u64::MAX`, which
    /// [`REJECT_AFTER_MESSAGES`](crate::REJECT_AFTER_MESSAGES) sees to.
    pub fn commit(&mut self, counter: u64) -> ReplayVerdict {
        let verdict = self.check(counter);
        if verdict == ReplayVerdict::Fresh {
            if counter >= self.next {
                self.make_room(counter);
                self.advance(counter);
            }
            let (word, bit) = place(counter);
            self.seen[word] |= bit;
        }
        verdict
    }

    fn position(&self, counter: u64) -> Position {
        if counter >= self.next {
            return Position::Ahead;
        }
        if self.next - counter > REPLAY_WINDOW {
            return Position::Behind;
        }
        let (word, bit) = place(counter);
        Position::Within { word, bit }
    }

    /// Grows the window, twice each time, until `counter` has a place.
    fn make_room(&mut self, counter: u64) {
        let needed = (counter / WORD_BITS).min(WORDS as u64 - 1) as usize + 1;
        if self.seen.len() < needed {
            let words = needed.next_power_of_two().max(FIRST_WORDS);
            self.seen.resize(words, 0);
        }
    }

    /// Moves the right edge past `counter` and forgets what falls out on the left: the places of
    /// `next ..= counter`, a word at a time.
    fn advance(&mut self, counter: u64) {
        if counter - self.next >= REPLAY_WINDOW {
            self.seen.fill(0);
        } else {
            let mut from = self.next;
            while from <= counter {
                let word_end = from | (WORD_BITS - 1);
                let to = word_end.min(counter);
                let (word, first) = place(from);
                let (_, last) = place(to);
                // All bits from `first` to `last`, both included.
                self.seen[word] &= !((last - first) | last);
                from = to + 1;
            }
        }
        self.next = counter + 1;
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

/// The word and the bit that stand for `counter`.
fn place(counter: u64) -> (usize, u64) {
    let word = (counter / WORD_BITS) as usize % WORDS;
    (word, 1 << (counter % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The same by remembering everything.
    #[derive(Default)]
    struct Naive(BTreeSet<u64>);

    impl Naive {
        fn commit(&mut self, counter: u64) -> ReplayVerdict {
            let next = self.0.last().map_or(0, |highest| highest + 1);
            if counter < next && next - counter > REPLAY_WINDOW {
                return ReplayVerdict::TooOld;
            }
            if self.0.insert(counter) {
                ReplayVerdict::Fresh
            } else {
                ReplayVerdict::Replayed
            }
        }
    }

    #[test]
    fn the_window_is_exactly_as_wide_as_it_says() {
        let mut window = ReplayWindow::new();
        assert_eq!(window.commit(REPLAY_WINDOW), ReplayVerdict::Fresh);
        assert_eq!(window.check(0), ReplayVerdict::TooOld);
        assert_eq!(window.commit(1), ReplayVerdict::Fresh);
        assert_eq!(window.commit(1), ReplayVerdict::Replayed);
    }

    #[test]
    fn a_key_under_which_little_has_come_has_a_small_window() {
        let mut window = ReplayWindow::new();
        for counter in 0..200 {
            window.commit(counter);
        }
        assert_eq!(window.seen.len(), FIRST_WORDS);
        for counter in 200..2 * REPLAY_WINDOW {
            window.commit(counter);
        }
        assert_eq!(window.seen.len(), WORDS);
    }

    #[test]
    fn checking_remembers_nothing() {
        let mut window = ReplayWindow::new();
        assert_eq!(window.check(5), ReplayVerdict::Fresh);
        assert_eq!(window.check(5), ReplayVerdict::Fresh);
        assert_eq!(window.commit(5), ReplayVerdict::Fresh);
        assert_eq!(window.check(5), ReplayVerdict::Replayed);
    }

    #[test]
    fn the_highest_permitted_counter_is_judged() {
        let mut window = ReplayWindow::new();
        let highest = crate::REJECT_AFTER_MESSAGES - 1;
        assert_eq!(window.commit(highest), ReplayVerdict::Fresh);
        assert_eq!(window.commit(highest), ReplayVerdict::Replayed);
        assert_eq!(window.commit(highest - 1), ReplayVerdict::Fresh);
        assert_eq!(window.commit(0), ReplayVerdict::TooOld);
    }

    const EDGE: i64 = REPLAY_WINDOW as i64;

    /// Steps that stay near the edges of words and of the window, where mistakes would be.
    fn step() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => -3i64..=3,
            4 => -130i64..=130,
            2 => -EDGE - 70..=-EDGE + 70,
            2 => EDGE - 70..=EDGE + 70,
            1 => -3 * EDGE..=3 * EDGE,
        ]
    }

    proptest! {
        #[test]
        fn the_window_agrees_with_a_memory_of_everything(
            start in prop_oneof![Just(0u64), REPLAY_WINDOW - 200..REPLAY_WINDOW + 200, Just(u64::from(u32::MAX))],
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let (mut window, mut naive) = (ReplayWindow::new(), Naive::default());
            let mut counter = start;
            for step in steps {
                counter = counter.saturating_add_signed(step);
                let checked = window.check(counter);
                let committed = window.commit(counter);
                prop_assert_eq!(checked, committed);
                prop_assert_eq!(committed, naive.commit(counter), "counter {}", counter);
            }
        }
    }
}

//! One record: encrypted or decrypted, and hashed on the way.
//!
//! The units for AES and for carry-less products are different ones, and both are busy only where
//! there are instructions for both. So up to eight rows go through the rounds of AES together, and
//! between the rounds the products of as many rows are computed. When opening, these are the
//! products of the same rows, whose ciphertext is there from the start. When sealing, they are
//! those of the rows before.

use super::ghash::{MAX_LANES, POWERS, Sum};
use super::schedule::MIDDLE_ROUNDS;
use super::secrets::Secrets;
use super::vectors::{Block, Vectors};

/// Rows that are worked on together: so many that the units for AES need not wait for results.
const TOGETHER: usize = 8;

/// Blocks after which the sum is reduced where a record is longer than the table of powers: whole
/// rows, and so few that some are left for the end.
const SEGMENT: usize = POWERS - MAX_LANES;

/// The first counter of the data; counter 1 encrypts the tag (NIST SP 800-38D §7.1).
const FIRST: u32 = 2;

/// The block counters of the first blocks of a record, "a 32-bit" big-endian number behind the nonce.
static COUNTERS: [Block; POWERS] = {
    let mut blocks = [[0; 16]; POWERS];
    let mut block = 0;
    while block < POWERS {
        blocks[block] = counter_block(block);
        block += 1;
    }
    blocks
};

/// Encrypts (`SEAL`) or decrypts the data of a record in place. Returns the sum of its hash without the
/// block of its length. `nonce` is the block of its nonce under counter 0.
#[inline(always)]
pub(super) fn crypt<V: Vectors<LANES>, const LANES: usize, const SEAL: bool>(
    secrets: &Secrets<V, LANES>,
    nonce: &Block,
    mut data: &mut [u8],
) -> Sum<V, LANES> {
    let vectors = secrets.vectors;
    let start = vectors.xor(vectors.spread(nonce), secrets.schedule.key(vectors, 0));
    let mut work = Work::<V, LANES, SEAL> {
        secrets,
        start,
        row: 0,
        carried: vectors.zero(),
        sum: Sum::zero(vectors),
    };
    // The block of the length follows.
    while data.len().div_ceil(16) + 1 > POWERS {
        let (segment, rest) = data.split_at_mut(SEGMENT * 16);
        work.segment(segment, SEGMENT);
        work.carried = work.sum.hash();
        work.sum = Sum::zero(vectors);
        data = rest;
    }
    if !data.is_empty() {
        let blocks = data.len().div_ceil(16);
        work.segment(data, blocks + 1);
    }
    work.sum
}

struct Work<'a, V: Vectors<LANES>, const LANES: usize, const SEAL: bool> {
    secrets: &'a Secrets<V, LANES>,
    /// The nonce under counter 0, XORed to round key 0.
    start: V::Vector,
    /// The number of rows that are done.
    row: usize,
    /// The hash of the segments before, which is to be added to the next block.
    carried: V::Vector,
    sum: Sum<V, LANES>,
}

/// The blocks of a vector, or what they are multiplied with.
type Row<const LANES: usize> = [Block; LANES];

impl<V: Vectors<LANES>, const LANES: usize, const SEAL: bool> Work<'_, V, LANES, SEAL> {
    /// Bytes of a row.
    const ROW_LEN: usize = 16 * LANES;

    /// Works on data, not empty, whose first block is hashed with `H^highest`.
    #[inline(always)]
    fn segment(&mut self, data: &mut [u8], highest: usize) {
        const FULL: bool = false;
        let mut powers = self.secrets.powers.from(highest);
        // One to eight rows are left for the end, the last of them full or not.
        let groups = (data.len() - 1) / (TOGETHER * Self::ROW_LEN);
        let (groups, rest) = data.split_at_mut(groups * TOGETHER * Self::ROW_LEN);
        let (groups, _) = rows(groups).as_chunks_mut();
        let mut unhashed: &[Row<LANES>] = &[];
        for group in groups {
            let group: &mut [Row<LANES>; TOGETHER] = group;
            if SEAL && unhashed.is_empty() {
                self.crypt::<TOGETHER, 0, FULL>(group, &mut [], &[], &[]);
            } else {
                let now = take(&mut powers);
                self.crypt::<TOGETHER, TOGETHER, FULL>(group, &mut [], unhashed, now);
            }
            if SEAL {
                unhashed = group;
            }
        }
        self.end(rest, unhashed, powers);
    }

    /// Works on the one to eight rows at the end of a segment. `unhashed` are the rows before, where
    /// they are still to be hashed.
    #[inline(always)]
    fn end(&mut self, data: &mut [u8], unhashed: &[Row<LANES>], mut powers: &[Row<LANES>]) {
        const END: bool = true;
        let (rows, last) = data.split_at_mut((data.len() - 1) / Self::ROW_LEN * Self::ROW_LEN);
        let rows = self::rows(rows);
        macro_rules! end {
            ($($count:literal)+) => {
                match rows.len() + 1 {
                    $($count if !SEAL => {
                        let now = take(&mut powers);
                        self.crypt::<$count, $count, END>(rows, last, &[], now);
                    }
                    $count => {
                        let last = if unhashed.is_empty() {
                            self.crypt::<$count, 0, END>(rows, last, &[], &[])
                        } else {
                            let now = take(&mut powers);
                            self.crypt::<$count, TOGETHER, END>(rows, last, unhashed, now)
                        };
                        self.hash::<$count>(rows, last, take(&mut powers));
                    })+
                    _ => unreachable!("the end of a segment has one to eight rows"),
                }
            };
        }
        end!(1 2 3 4 5 6 7 8);
    }

    /// Encrypts or decrypts `CRYPT` rows, and between their rounds hashes `HASH` rows: when sealing
    /// those of `unhashed`, when opening the same rows. With `END`, `last` is the last row, full or
    /// not. Returns that as encrypted, behind its end zeros.
    #[inline(always)]
    fn crypt<const CRYPT: usize, const HASH: usize, const END: bool>(
        &mut self,
        rows: &mut [Row<LANES>],
        last: &mut [u8],
        unhashed: &[Row<LANES>],
        powers: &[Row<LANES>; HASH],
    ) -> V::Vector {
        assert!(rows.len() == CRYPT - usize::from(END));
        assert!(!SEAL || unhashed.len() == HASH);
        let vectors = self.secrets.vectors;
        let schedule = &self.secrets.schedule;
        let before = if END {
            vectors.load_partial(last)
        } else {
            vectors.zero()
        };
        let mut sum = self.sum;
        let mut states = self.counters::<CRYPT>();
        macro_rules! rounds {
            ($($round:literal)+) => {$(
                let key = schedule.key(vectors, $round);
                for state in &mut states {
                    *state = vectors.round(*state, key);
                    vectors.in_order(state);
                }
                let now = ($round - 1) * HASH / MIDDLE_ROUNDS;
                if now != $round * HASH / MIDDLE_ROUNDS {
                    let mut blocks = if SEAL {
                        vectors.load(&unhashed[now])
                    } else if END && now == CRYPT - 1 {
                        before
                    } else {
                        vectors.load(&rows[now])
                    };
                    vectors.in_order(&mut blocks);
                    blocks = vectors.reverse(blocks);
                    if now == 0 {
                        blocks = vectors.xor(blocks, self.carried);
                    }
                    sum.add(blocks, vectors.load(&powers[now]));
                    sum.in_order();
                }
            )+};
        }
        rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
        let key = schedule.key(vectors, MIDDLE_ROUNDS + 1);
        for (row, state) in rows.iter_mut().zip(&states) {
            let stream = vectors.last_round(*state, key);
            vectors.store(row, vectors.xor(vectors.load(row), stream));
        }
        if HASH > 0 {
            self.sum = sum;
            self.carried = vectors.zero();
        }
        let stream = vectors.last_round(states[CRYPT - 1], key);
        let after = vectors.front(vectors.xor(before, stream), last.len());
        if END {
            vectors.store_partial(last, after);
        }
        after
    }

    /// Hashes what comes last when sealing: `rows`, and `last`.
    #[inline(always)]
    fn hash<const HASH: usize>(
        &mut self,
        rows: &[Row<LANES>],
        last: V::Vector,
        powers: &[Row<LANES>; HASH],
    ) {
        let vectors = self.secrets.vectors;
        let mut sum = self.sum;
        let mut carried = self.carried;
        for (row, powers) in rows.iter().zip(powers) {
            let blocks = vectors.xor(vectors.reverse(vectors.load(row)), carried);
            sum.add(blocks, vectors.load(powers));
            carried = vectors.zero();
        }
        let blocks = vectors.xor(vectors.reverse(last), carried);
        sum.add(blocks, vectors.load(&powers[HASH - 1]));
        self.sum = sum;
        self.carried = vectors.zero();
    }

    /// The next counter blocks, XORed to round key 0.
    #[inline(always)]
    fn counters<const ROWS: usize>(&mut self) -> [V::Vector; ROWS] {
        let vectors = self.secrets.vectors;
        let mut states = [self.start; ROWS];
        let (rows, _) = COUNTERS.as_chunks();
        if let Some(rows) = rows.get(self.row..self.row + ROWS) {
            for (state, counters) in states.iter_mut().zip(rows) {
                *state = vectors.xor(*state, vectors.load(counters));
            }
        } else {
            for (row, state) in (self.row..).zip(&mut states) {
                let counters = core::array::from_fn(|lane| counter_block(row * LANES + lane));
                *state = vectors.xor(*state, vectors.load(&counters));
            }
        }
        self.row += ROWS;
        states
    }
}

/// The counter of a block of the data, where the nonce has zeros.
const fn counter_block(block: usize) -> Block {
    let [a, b, c, d] = (FIRST + block as u32).to_be_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
}

/// Whole rows of data.
#[inline(always)]
fn rows<const LANES: usize>(data: &mut [u8]) -> &mut [Row<LANES>] {
    data.as_chunks_mut().0.as_chunks_mut().0
}

/// Takes the powers of the next rows off `powers`.
#[inline(always)]
fn take<'a, const LANES: usize, const ROWS: usize>(
    powers: &mut &'a [Row<LANES>],
) -> &'a [Row<LANES>; ROWS] {
    let (now, rest) = powers.split_first_chunk().expect("a power for each block");
    *powers = rest;
    now
}

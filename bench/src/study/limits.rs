//! The rates at which this machine copies and encrypts; they bound the rate of a tunnel.

mod handover;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use culvert_aead::{Key, Layout, Suite, TAG_LEN};

use super::lab::Lab;
use super::part::Part;
use super::profile::{COPY as COPY_PROFILED, COPY_AND_SUM};
use super::sheet::{At, Sheet};

/// The time for which each rate is measured.
const MEASURE_FOR: Duration = Duration::from_millis(300);

/// A block as large as a batch, which the second-level cache of one core holds, and one that no cache does.
const CACHED_BYTES: usize = 64 << 10;
const UNCACHED_BYTES: usize = 256 << 20;

/// A batch of full records, as the road seals it.
const RECORDS: usize = 45;
const RECORD_BYTES: usize = 1420;

/// Steps of a chain in which each waits for the one before it. A step is three shifts and three exclusive ors
/// of one register, one cycle each on every x86-64 processor of the last twenty years.
const CHAIN_STEPS: u32 = 20_000_000;
const CYCLES_A_STEP: f64 = 6.0;

const SPEEDS: &str = "speeds of this machine, one core";
const GB_PER_S: &str = "GB/s";
const NS_PER_BYTE: &str = "nanoseconds a byte";
const CYCLES_PER_BYTE: &str = "cycles a byte";
const COPY: &str = "copy within the caches";

/// The bytes that two cores hand to each other in turn: a few superframes, as with a receiver that keeps up with
/// its sender.
const HANDED_OVER_BYTES: usize = 256 << 10;

/// The two suites with their rows, and what profile.rs calls them.
const SUITES: [(Suite, &str, [&str; 2]); 2] = [
    (
        Suite::ChaCha20Poly1305,
        "ChaCha20-Poly1305",
        ["seal, ChaCha20-Poly1305", "open, ChaCha20-Poly1305"],
    ),
    (
        Suite::Aes256Gcm,
        "AES-256-GCM",
        ["seal, AES-256-GCM", "open, AES-256-GCM"],
    ),
];

/// The number of times that each end copies a byte (docs/packet-road.md). The sender copies out of the kernel, into
/// the batch, and into the kernel. The receiver opens in place, and copies out of the kernel and into it.
const ENDS: [(&str, f64); 2] = [("sender", 3.0), ("receiver", 2.0)];

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    lab.progress("copying, sealing and opening");
    let ghz = cycles_per_ns();
    let mut add = |row, gb_per_s: f64| {
        let at = |column| At {
            table: SPEEDS,
            row,
            column,
        };
        sheet.add(at(GB_PER_S), gb_per_s);
        sheet.add(at(NS_PER_BYTE), 1.0 / gb_per_s);
        sheet.add(at(CYCLES_PER_BYTE), ghz / gb_per_s);
    };
    add(COPY, copy(CACHED_BYTES));
    add("copy through memory", copy(UNCACHED_BYTES));
    if let Some(speeds) = handover::between_cores(HANDED_OVER_BYTES, MEASURE_FOR) {
        add("copy into what another core has just read", speeds.into);
        add(
            "copy out of what another core has just written",
            speeds.out_of,
        );
    }
    for (suite, _, [sealing, opening]) in SUITES {
        add(sealing, seal(suite));
        add(opening, open(suite));
    }
    let at = At {
        table: SPEEDS,
        row: "the processor's clock",
        column: "GHz",
    };
    sheet.add(at, ghz);
    lab.keep(sheet)?;
    Ok(())
}

/// Holds all rounds against what the profile says.
pub(crate) fn compare(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    // Two machines, or two states of the product, have no distance.
    let profile = lab.sheet_of(Part::Profile)?.filter(|profile| {
        profile.machine.is_like(&sheet.machine) && profile.commit == sheet.commit
    });
    match profile {
        Some(profile) => distance(sheet, &profile),
        None => sheet.failures.push(
            "no distance from the limit: there is no profile of this machine and commit (--only profile,limits)".to_owned(),
        ),
    }
    Ok(())
}

/// The distance of each end from its lower bound: its copies and its cipher, at the speed of this machine.
fn distance(sheet: &mut Sheet, profile: &Sheet) {
    let speed = |row, column| {
        sheet.median(At {
            table: SPEEDS,
            row,
            column,
        })
    };
    let mut found = Vec::new();
    for (_, suite, [sealing, opening]) in SUITES {
        for ((end, copies), cipher) in ENDS.into_iter().zip([sealing, opening]) {
            let row = format!("{suite}, {end}");
            let stage = |stage| {
                profile.median(At {
                    table: "nanoseconds a byte",
                    row: &row,
                    column: stage,
                })
            };
            let all: Option<f64> = profile
                .columns("nanoseconds a byte")
                .into_iter()
                .map(stage)
                .sum();
            let (Some(copy), Some(cipher), Some(ghz), Some(all)) = (
                speed(COPY, NS_PER_BYTE),
                speed(cipher, NS_PER_BYTE),
                speed("the processor's clock", "GHz"),
                all,
            ) else {
                continue;
            };
            let least = copies * copy + cipher;
            let mut add =
                |column: &'static str, value: f64| found.push((row.clone(), column, value));
            add("least: copies, cycles a byte", copies * copy * ghz);
            add("least: cipher, cycles a byte", cipher * ghz);
            if let (Some(copying), Some(summing)) = (stage(COPY_PROFILED), stage(COPY_AND_SUM)) {
                add("measured: copy, cycles a byte", (copying + summing) * ghz);
            }
            if let Some(ciphering) = stage("cipher") {
                add("measured: cipher, cycles a byte", ciphering * ghz);
            }
            add("measured: all, cycles a byte", all * ghz);
            add("least of all measured, %", 100.0 * least / all);
            add("one core at the least, Gbit/s", 8.0 / least);
            add("one core as measured, Gbit/s", 8.0 / all);
        }
    }
    for (row, column, value) in found {
        let at = At {
            table: "distance from the limit",
            row: &row,
            column,
        };
        sheet.add(at, value);
    }
}

/// The clock of the processor under load: how many steps of a chain of dependent instructions it takes a nanosecond.
fn cycles_per_ns() -> f64 {
    let mut word = black_box(88_172_645_463_325_252_u64);
    let began = Instant::now();
    for _ in 0..CHAIN_STEPS {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
    }
    black_box(word);
    f64::from(CHAIN_STEPS) * CYCLES_A_STEP / began.elapsed().as_secs_f64() / 1e9
}

/// Gigabytes a second.
fn copy(block_bytes: usize) -> f64 {
    let from = vec![1_u8; block_bytes];
    let mut to = vec![0_u8; block_bytes];
    speed(block_bytes, || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    })
}

const LAYOUT: Layout = Layout {
    head_len: 16,
    stride: 16 + RECORD_BYTES + TAG_LEN,
};

fn seal(suite: Suite) -> f64 {
    let key = Key::new(suite, &[7; 32]);
    let mut buffer = vec![0; RECORDS * LAYOUT.stride];
    let mut nonce = 0;
    speed(RECORDS * RECORD_BYTES, || {
        key.seal_batch(nonce, black_box(&mut buffer), LAYOUT);
        nonce += RECORDS as u64;
    })
}

/// Opening happens in place, so each time the sealed records are put back, whose time is taken off.
fn open(suite: Suite) -> f64 {
    let key = Key::new(suite, &[7; 32]);
    let mut sealed = vec![0; RECORDS * LAYOUT.stride];
    key.seal_batch(0, &mut sealed, LAYOUT);
    let nonces: Vec<u64> = (0..RECORDS as u64).collect();
    let mut buffer = sealed.clone();
    let bytes = RECORDS * RECORD_BYTES;
    let both = speed(bytes, || {
        black_box(&mut buffer).copy_from_slice(black_box(&sealed));
        black_box(key.open_batch(&nonces, &mut buffer, LAYOUT));
    });
    let copying = speed(bytes, || {
        black_box(&mut buffer).copy_from_slice(black_box(&sealed));
    });
    1.0 / (1.0 / both - 1.0 / copying)
}

/// The rate of `work` on `bytes` bytes, in gigabytes a second.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    // The first touches pages for the first time.
    work();
    let began = Instant::now();
    let mut done = 0;
    while began.elapsed() < MEASURE_FOR {
        work();
        done += bytes;
    }
    done as f64 / 1e9 / began.elapsed().as_secs_f64()
}

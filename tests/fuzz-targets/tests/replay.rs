//! Every seed and every committed input of every fuzz target, run again: `fuzz/corpus` holds what
//! the fuzzer found worth keeping, `fuzz/regressions` what once failed.

use culvert_fuzz_targets::{TARGETS, seeds};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the inputs of `target`; a target without seeds or corpus is not tested at all, so it fails.
fn replay(target: &str) {
    let (_, run) = TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .expect("a target of this name");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    for (number, seed) in seeds.iter().enumerate() {
        eprintln!("seed {number}: {seed:02x?}");
        run(seed);
    }
    let corpus = inputs(&fuzz().join("corpus").join(target));
    assert!(
        !corpus.is_empty(),
        "fuzz/corpus/{target} is missing or empty"
    );
    let regressions = inputs(&fuzz().join("regressions").join(target));
    for input in corpus.iter().chain(&regressions) {
        let bytes = fs::read(input).expect("a readable input");
        // Names the input in the captured output, which a failure prints.
        eprintln!("{}", input.display());
        run(&bytes);
    }
}

macro_rules! replay {
    ($($target:ident),* $(,)?) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        const REPLAYED: &[&str] = &[$(stringify!($target)),*];
    };
}

replay!(
    access_toml,
    aead_batch,
    age,
    allowed_ips,
    client_gate,
    coalesce,
    control,
    cut,
    dns_stub,
    form,
    gate,
    gateway_dns,
    grant,
    handshake,
    http_head,
    icmp,
    id_token,
    ip_view,
    message,
    passkey,
    relay,
    relay_stream,
    replay_window,
    sealed_value,
    selection,
    socket_request,
    transport,
    uapi_set,
);

#[test]
fn every_target_is_replayed_and_has_a_wrapper_and_nothing_else_has() {
    let targets: BTreeSet<String> = TARGETS.map(|(name, _)| name.to_owned()).into();
    let replayed: BTreeSet<String> = REPLAYED.iter().map(ToString::to_string).collect();
    assert_eq!(replayed, targets);
    assert_eq!(stems(&fuzz().join("fuzz_targets")), targets);
    assert_eq!(stems(&fuzz().join("corpus")), targets);
    for name in stems(&fuzz().join("regressions")) {
        assert!(
            targets.contains(&name),
            "fuzz/regressions/{name} is no target's"
        );
    }
}

/// The empty input and a few plain ones, so that a target that needs a corpus to be harmless shows.
#[test]
fn no_target_stumbles_over_short_inputs() {
    for (name, run) in TARGETS {
        for byte in [0, 1, 0x45, 0x60, 0xFF] {
            for len in [0, 1, 2, 10, 100, 1000] {
                eprintln!("{name}: {len} × {byte:#04x}");
                run(&vec![byte; len]);
            }
        }
    }
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a folder, in order; none where there is no folder.
fn inputs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

/// The names of what is in a folder, without extension.
fn stems(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.display().to_string());
    entries
        .filter_map(|entry| stem(entry.expect("a readable folder").path()))
        .collect()
}

//! Writes the seeds of every target into a folder each below the one given, for `fuzz/run.sh`.

#![forbid(unsafe_code)]

use culvert_fuzz_targets::{TARGETS, seeds};
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let into = env::args_os().nth(1).map(PathBuf::from);
    let into = into.ok_or_else(|| io::Error::other("usage: seeds FOLDER"))?;
    for (target, _) in TARGETS {
        let folder = into.join(target);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds(target).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}

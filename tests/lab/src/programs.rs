//! The paths of the programs under test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

/// The root of the workspace.
#[must_use]
pub fn workspace_dir() -> PathBuf {
    // The manifest of this crate lies in tests/lab.
    let mut dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    dir.pop();
    dir.pop();
    dir
}

/// The `culvert` program: what `CULVERT_BIN` names, or the build, release or debug, that is newer.
///
/// # Errors
/// When there is none.
pub fn culvert_program() -> Result<PathBuf> {
    if let Some(path) = env::var_os("CULVERT_BIN") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("CULVERT_BIN names {}, which is not there", path.display());
        }
        return Ok(path);
    }
    let newest = ["release", "debug"]
        .iter()
        .map(|profile| target_dir().join(profile).join("culvert"))
        .filter_map(|path| Some((built(&path)?, path)))
        .max();
    match newest {
        Some((_, path)) => Ok(path),
        None => bail!("there is no culvert program: run `cargo build --release -p culvert`"),
    }
}

/// The program of a peer implementation that `scripts/peers.sh` builds.
///
/// # Errors
/// When it is not built.
pub fn peer_program(file_name: &str) -> Result<PathBuf> {
    let path = workspace_dir().join("target/peers/bin").join(file_name);
    if !path.is_file() {
        bail!("{file_name} is not built: run scripts/peers.sh");
    }
    Ok(path)
}

/// The one block of a document that is in this language, such as a configuration that it prints.
///
/// # Errors
/// When it has none, or several.
pub fn documented(document: &str, language: &str) -> Result<String> {
    let path = workspace_dir().join(document);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = text.split(&fence).skip(1).collect();
    let [block] = blocks.as_slice() else {
        bail!("{document} has {} blocks of {language}", blocks.len());
    };
    Ok(block.split("```").next().unwrap_or_default().to_owned())
}

fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_dir().join("target"), PathBuf::from)
}

fn built(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

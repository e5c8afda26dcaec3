//! The pages of the site, and how they are written.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages of the site by their path there, such as `docs/portal.md`.
pub(super) type Pages = BTreeMap<String, String>;

/// Removes what an earlier run wrote and this one does not.
pub(super) fn forget_others(source: &Path, pages: &Pages) -> Result<()> {
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path: PathBuf = entry?.path();
            let page = path.strip_prefix(source)?.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !pages.contains_key(&page) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Writes a file that is not so yet.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|now| now == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}

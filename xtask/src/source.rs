//! The source of the repository: its files, and what Rust code and comments in them say.

pub(crate) mod comments;
pub(crate) mod mentions;

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `folder` with this extension, in order. Folders that a build made are left out.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    const NOT_SOURCE: [&str; 4] = ["target", ".git", "corpus", "node_modules"];
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !NOT_SOURCE.contains(&&*name) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The file at `path`, as `syn` parses it.
pub(crate) fn parse(path: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    syn::parse_file(&text).with_context(|| path.display().to_string())
}

//! A copy of the repository in which code is changed, so that an interrupted run leaves nothing broken behind.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies what git knows of `root`, changes that are not committed included, to `to`.
pub(crate) fn copy(root: &Path, to: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files failed");
    let mut remaining = BTreeSet::new();
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        // It is listed until its deletion is committed.
        if root.join(name).is_file() {
            copy_if_changed(&root.join(name), &to.join(name)).with_context(|| name.to_owned())?;
            remaining.insert(to.join(name));
        }
    }
    remove_others(to, &remaining)
}

/// Leaves the time of a file that is the same, so that cargo builds no more than it must.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from)?;
    write_if_changed(to, &content)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}

/// Writes a file only where that changes it.
pub(crate) fn write_if_changed(to: &Path, content: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::write(to, content)?;
    Ok(())
}

/// Removes the files in `folder` that are not among `remaining`: cargo would find tests in them.
fn remove_others(folder: &Path, remaining: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), remaining)?;
        } else if !remaining.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

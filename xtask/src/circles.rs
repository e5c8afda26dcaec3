//! Circles between files of one crate: neither can be read, tested or moved without the other.
//!
//! A file depends on another one when its code names an item of it: in an import, a type, a call or the arguments of
//! a macro. These are the rules:
//!
//! - A path leads to the file that defines the item, through all re-exports on the way.
//! - Declaring a module is no dependency, and re-exporting items of a descendant (`pub use child::Item`) is none.
//!   Naming such an item in other code is one. `mod.rs` and `lib.rs` may therefore be the front of a folder.
//! - A child that names what its parent file defines depends on the parent. If the parent's code uses the child too,
//!   the two are a circle: what both need belongs into a file of its own.
//! - Tests (`#[cfg(test)]`) do not count. Methods are called without a path: they do not count either.
//!
//! The circles that there are stand in `xtask/circles.toml`. A file that joins one is a problem, and so is an entry for
//! a file that left it.

mod graph;
mod known;
mod modules;

use crate::metadata::{Member, Workspace};
use anyhow::Result;
use graph::{Circle, Graph};
use known::{Entry, TABLE};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The circles of all crates.
pub(crate) struct Circles(Vec<Found>);

/// One circle, and what closes it.
#[derive(Debug)]
struct Found {
    entry: Entry,
    /// A line for each file that names something of another one.
    edges: String,
}

impl Circles {
    /// Looks for them.
    pub(crate) fn find(root: &Path, workspace: &Workspace) -> Result<Self> {
        let mut found = Vec::new();
        for member in &workspace.members {
            let (graph, circles) = circles_of(member)?;
            found.extend(circles.iter().map(|circle| Found {
                entry: Entry {
                    package: member.name.clone(),
                    files: names(member, circle),
                },
                edges: edges(root, &graph, circle),
            }));
        }
        Ok(Self(found))
    }

    /// Lists those that the table does not know, and entries of the table that are no circles.
    pub(crate) fn check(&self, root: &Path) -> Result<Vec<String>> {
        Ok(compare(&self.0, &known::load(root)?.unwrap_or_default()))
    }

    /// Takes out of the table what is no circle any more. If there is no table, all circles are in the first one.
    pub(crate) fn lower(&self, root: &Path) -> Result<()> {
        let found = self.0.iter().map(|found| found.entry.clone());
        let entries = match known::load(root)? {
            Some(known) => known::lowered(&known, found),
            None => found.collect(),
        };
        known::write(root, &entries)
    }

    /// Each with its files, and what closes it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Found { entry, edges } in &self.0 {
            let Entry { package, files } = entry;
            let _infallible = writeln!(text, "{package}: {} files", files.len());
            for file in files {
                let _infallible = writeln!(text, "    {file}");
            }
            let _infallible = writeln!(text, "{edges}");
        }
        text
    }
}

fn circles_of(member: &Member) -> Result<(Graph, Vec<Circle>)> {
    // `place` of a module asks for files that are not there.
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let mut graph = Graph::default();
    for root in &member.roots {
        graph.add(root, &read)?;
    }
    let circles = graph.circles();
    Ok((graph, circles))
}

/// The files of a circle, by their paths in the crate's folder `src`.
fn names(member: &Member, circle: &Circle) -> Vec<String> {
    let source = member.folder.join("src");
    let name = |path: &PathBuf| path.strip_prefix(&source).unwrap_or(path).to_owned();
    let names = circle.iter().map(name);
    names.map(|path| path.display().to_string()).collect()
}

/// A line for each file that names something of another one of the circle.
fn edges(root: &Path, graph: &Graph, circle: &Circle) -> String {
    let shown = |path: &Path| {
        path.strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    let mut text = String::new();
    for (from, to, reason) in graph.within(circle) {
        let (from, to) = (shown(from), shown(to));
        let _infallible = writeln!(text, "  {from}:{} → {to}: {}", reason.line, reason.item);
    }
    text
}

fn compare(found: &[Found], known: &[Entry]) -> Vec<String> {
    let mut problems: Vec<String> = found.iter().filter_map(|it| grown(it, known)).collect();
    for entry in known {
        let circles_with = |file: &String| {
            let mut circles = found.iter().map(|it| &it.entry);
            circles.position(|it| it.package == entry.package && it.files.contains(file))
        };
        let Entry { package, files } = entry;
        let is_left = |file: &&String| circles_with(file).is_none();
        let left: Vec<&str> = files.iter().filter(is_left).map(|file| &**file).collect();
        let circles: BTreeSet<usize> = files.iter().filter_map(circles_with).collect();
        if !left.is_empty() {
            problems.push(format!(
                "{TABLE}: {package}: no longer in a circle: {}: cargo xtask circles --lower",
                left.join(", ")
            ));
        } else if circles.len() > 1 {
            problems.push(format!(
                "{TABLE}: {package}: the circle of {} has come apart: cargo xtask circles --lower",
                files.join(", ")
            ));
        }
    }
    problems
}

/// The problem with a circle that is not within one of the known ones.
fn grown(Found { entry, edges }: &Found, known: &[Entry]) -> Option<String> {
    let Entry { package, files } = entry;
    let is_among =
        |it: &&Entry| it.package == *package && it.files.iter().any(|it| files.contains(it));
    let among: Vec<&Entry> = known.iter().filter(is_among).collect();
    let is_new = |file: &&String| !among.iter().any(|it| it.files.contains(file));
    let new: Vec<&str> = files.iter().filter(is_new).map(|file| &**file).collect();
    let files = files.join(", ");
    if !new.is_empty() {
        let new = new.join(", ");
        return Some(format!(
            "{package}: new in a circle: {new}; the circle is {files}:\n{edges}"
        ));
    }
    let count = among.len();
    (count > 1).then(|| format!("{package}: {count} circles have become one: {files}:\n{edges}"))
}

#[cfg(test)]
mod tests;

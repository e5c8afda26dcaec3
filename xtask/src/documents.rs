//! The documents: links that lead nowhere, crates that ARCHITECTURE.md forgets.

mod markdown;

use crate::metadata::{Member, Workspace};
use crate::source;
use crate::source::comments::{Kind, comments};
use anyhow::{Context, Result};
use markdown::Link;
use std::fs;
use std::path::Path;

/// Lists what is wrong.
pub(crate) fn check(root: &Path, workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in source::files(root, "md")? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        problems.extend(broken_links(root, &path, &markdown::links(&text, 1)));
    }
    // Documentation comments link to documents by path, which rustdoc does not check.
    for path in source::files(root, "rs")? {
        let text = fs::read_to_string(&path)?;
        let links = documented_links(&text).with_context(|| path.display().to_string())?;
        problems.extend(broken_links(root, &path, &links));
    }
    let architecture = root.join("ARCHITECTURE.md");
    problems.extend(match fs::read_to_string(architecture) {
        Ok(text) => forgotten_crates(root, &workspace.members, &text),
        Err(error) => vec![format!("ARCHITECTURE.md: {error}")],
    });
    Ok(problems)
}

/// The links of documentation comments to files.
fn documented_links(source: &str) -> Result<Vec<Link>> {
    let mut comments = comments(source)?;
    comments.retain(|comment| comment.kind != Kind::Plain);
    let links = comments
        .iter()
        .flat_map(|comment| markdown::links(&comment.text, comment.line));
    Ok(links.filter(|link| link.target.starts_with('.')).collect())
}

/// Links of the file at `path` to files or headings that are not there.
fn broken_links(root: &Path, path: &Path, links: &[Link]) -> Vec<String> {
    let shown = path.strip_prefix(root).unwrap_or(path).display();
    let broken = |link: &Link| {
        let problem = broken(path, &link.target)?;
        Some(format!(
            "{shown}:{}: ({}) {problem}",
            link.line, link.target
        ))
    };
    links.iter().filter_map(broken).collect()
}

/// The reason for which a link of the file at `from` leads nowhere. Links to elsewhere (with a scheme) are not
/// followed.
fn broken(from: &Path, target: &str) -> Option<String> {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    if !scheme.is_empty() && scheme.chars().all(|char| char.is_ascii_alphanumeric()) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = match file {
        "" => from.to_owned(),
        _ => from.parent().unwrap_or(from).join(file),
    };
    if !to.exists() {
        return Some("leads to no file".to_owned());
    }
    let is_markdown = to.extension().is_some_and(|extension| extension == "md");
    if anchor.is_empty() || !is_markdown {
        return None;
    }
    let text = fs::read_to_string(&to).unwrap_or_default();
    let is_there = markdown::anchors(&text).iter().any(|it| it == anchor);
    (!is_there).then(|| "leads to no heading".to_owned())
}

/// Crates that the document names neither by path nor, in code font, by the name of their folder.
fn forgotten_crates(root: &Path, members: &[Member], text: &str) -> Vec<String> {
    let is_named = |member: &&Member| {
        let path = member.folder.strip_prefix(root).unwrap_or(&member.folder);
        let folder = path.file_name().unwrap_or_default().display();
        text.contains(&path.display().to_string()) || text.contains(&format!("`{folder}`"))
    };
    members
        .iter()
        .filter(|member| !is_named(member))
        .map(|member| format!("ARCHITECTURE.md does not name {}", member.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with one document, and links of another document in it.
    fn broken_of(targets: &[&str]) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/documents");
        let from = folder.join("example.md");
        let found = targets
            .iter()
            .filter(|target| broken(&from, target).is_some());
        found.map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_to_no_file_or_heading_is_a_problem() {
        let good = [
            "example.md",
            "../documents/example.md#a-heading",
            "#a-heading",
            "markdown.rs#L7",
            "..",
            "https://example.org/nothing#at-all",
            "mailto:someone@example.org",
        ];
        assert_eq!(broken_of(&good), [""; 0]);
        let bad = [
            "missing.md",
            "example.md#no-such-heading",
            "#no-such-heading",
            "../example.md",
        ];
        assert_eq!(broken_of(&bad), bad);
    }

    #[test]
    fn a_problem_tells_file_and_line() {
        let links = markdown::links("one\n\n[two](missing.md)\n", 1);
        let root = Path::new("/nowhere");
        assert_eq!(
            broken_links(root, &root.join("docs/a.md"), &links),
            ["docs/a.md:3: (missing.md) leads to no file"]
        );
    }

    #[test]
    fn only_documentation_comments_of_a_source_file_are_documents() {
        let source = "//! [a](./b.md)\n// [c](./d.md)\nfn f() {} // [e](./f.md)\n/// [g](./h.md) [i]\nfn g() {}\n";
        let links = documented_links(source).expect("Rust");
        let lines: Vec<usize> = links.iter().map(|link| link.line).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn a_crate_that_is_not_named_is_a_problem() {
        let member = |name: &str, folder: &str| Member {
            name: name.to_owned(),
            folder: folder.into(),
            roots: Vec::new(),
        };
        let members = [
            member("culvert-packet", "/w/crates/packet"),
            member("culvert-lab", "/w/tests/lab"),
        ];
        let forgotten = |text| forgotten_crates(Path::new("/w"), &members, text);
        assert!(forgotten("`packet` cuts; tests/lab measures").is_empty());
        assert_eq!(
            forgotten("a packet goes to tests/lab"),
            ["ARCHITECTURE.md does not name culvert-packet"]
        );
    }
}

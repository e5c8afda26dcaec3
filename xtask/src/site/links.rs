//! Links of documents: on the site they lead to pages; those to source files are text there.

use super::navigation::Documents;
use std::path::{Component, Path, PathBuf};

/// The text of the document at `source`, as a page.
pub(super) fn lead_to_pages(text: &str, source: &str, documents: &Documents) -> String {
    let mut out = String::new();
    let mut fence = None;
    // Text of a paragraph, in which a link's text may span lines.
    let mut prose = String::new();
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, None) => prose.push_str(line),
            (None, Some(_)) => {
                out += &rewrite(&std::mem::take(&mut prose), source, documents);
                out += line;
                fence = marker;
            }
            (Some(open), close) => {
                out += line;
                if close == Some(open) {
                    fence = None;
                }
            }
        }
    }
    out + &rewrite(&prose, source, documents)
}

fn rewrite(prose: &str, source: &str, documents: &Documents) -> String {
    let mut out = String::new();
    let mut rest = prose;
    let mut in_code = false;
    // Where in `out` the brackets that are open begin.
    let mut open = Vec::new();
    while let Some(char) = rest.chars().next() {
        let (now, after) = rest.split_at(char.len_utf8());
        rest = after;
        match char {
            '`' => in_code = !in_code,
            '[' if !in_code => open.push(out.len()),
            ']' if !in_code => {
                let start = open.pop();
                let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                if let (Some(start), Some((target, after))) = (start, target) {
                    rest = after;
                    match to_page(target, source, documents) {
                        Some(target) => out += &format!("]({target})"),
                        None => drop(out.remove(start)),
                    }
                    continue;
                }
            }
            // A code span does not go on in the next paragraph, whatever was left open.
            '\n' if rest.starts_with('\n') => in_code = false,
            _ => {}
        }
        out += now;
    }
    out
}

/// Where a link leads on the site; `None` where that is no page.
fn to_page(target: &str, source: &str, documents: &Documents) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
        return Some(target.to_owned());
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let folder = Path::new(source).parent().unwrap_or(Path::new(""));
    let path = normal(&folder.join(file));
    let from = documents.get(source)?;
    let up = "../".repeat(from.matches('/').count());
    if let Some(chart) = path
        .strip_prefix("docs/")
        .filter(|path| path.ends_with(".svg"))
    {
        return Some(format!("{up}{chart}"));
    }
    let page = documents.get(&path)?;
    Some(format!("{up}{page}{anchor}"))
}

fn normal(path: &Path) -> String {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::Normal(name) => normal.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    normal.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        let pages = [
            ("README.md", "index.md"),
            ("docs/a.md", "docs/a.md"),
            ("docs/adr/0001.md", "docs/adr/0001.md"),
        ];
        let pages = pages.map(|(source, page)| (source.to_owned(), page.to_owned()));
        lead_to_pages(text, "docs/a.md", &Documents::from(pages))
    }

    #[test]
    fn links_to_documents_lead_to_pages() {
        assert_eq!(page("[a](../README.md#b)"), "[a](../index.md#b)");
        assert_eq!(page("[a\nb](adr/0001.md)"), "[a\nb](../docs/adr/0001.md)");
        assert_eq!(page("[a](#b) [c](https://d)"), "[a](#b) [c](https://d)");
    }

    #[test]
    fn charts_are_shown() {
        let shown = page("![a chart](performance/tcp.svg)");
        assert_eq!(shown, "![a chart](../performance/tcp.svg)");
    }

    #[test]
    fn links_to_source_files_become_text() {
        assert_eq!(
            page("see [`x.rs`](../crates/x.rs), [b](..)"),
            "see `x.rs`, b"
        );
        assert_eq!(page("[tw\no](../x.rs) three"), "tw\no three");
    }

    #[test]
    fn code_is_left_as_it_is() {
        let text = "`[a](b)` and\n```\n[a](b)\n```\n";
        assert_eq!(page(text), text);
    }
}

//! Links of documents: on the site they lead to pages; those to source files are text there.

use super::navigation::Documents;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The text of the document at `source`, as a page.
pub(super) fn lead_to_pages(text: &str, source: &str, documents: &Documents) -> String {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(
            Tag::Link {
                link_type: LinkType::Inline,
                dest_url,
                ..
            }
            | Tag::Image {
                link_type: LinkType::Inline,
                dest_url,
                ..
            },
        ) = event
        else {
            continue;
        };
        // `[text](target)`: the text may have brackets, the target has none.
        let Some(middle) = text[range.clone()].rfind("](") else {
            continue;
        };
        let target = range.start + middle..range.end;
        if let Some(page) = to_page(&dest_url, source, documents) {
            edits.push((target, format!("]({page})")));
        } else {
            let opening = text[range.start..].find('[').map_or(0, |at| at + 1);
            edits.push((range.start..range.start + opening, String::new()));
            edits.push((target, String::new()));
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, replacement) in edits {
        out += &text[at..range.start];
        out += &replacement;
        at = range.end;
    }
    out + &text[at..]
}

/// The target of a link on the site; `None` where that is no page.
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
    if let Some(picture) = path
        .strip_prefix("docs/")
        .filter(|path| path.ends_with(".svg") || path.ends_with(".png"))
    {
        return Some(format!("{up}{picture}"));
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

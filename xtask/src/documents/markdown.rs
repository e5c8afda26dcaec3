//! As much of Markdown as it takes to find links and headings.

use std::collections::BTreeMap;

/// A link's target and the line it stands on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Every inline link and image, and every link definition, outside of code.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, content) in prose(text) {
        let content = without_code_spans(content);
        let mut rest = content.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            links.push(link(line, target));
            rest = after;
        }
        if let Some((label, target)) = content.trim_start().split_once("]: ")
            && label.starts_with('[')
            && !label.starts_with("[^")
        {
            links.push(link(line, target.split(' ').next().unwrap_or_default()));
        }
    }
    links
}

/// The anchors that GitHub gives the headings of a document.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, content) in prose(text) {
        let title = content.trim_start_matches('#');
        let level = content.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(match *count {
            0 => anchor,
            earlier => format!("{anchor}-{earlier}"),
        });
        *count += 1;
    }
    anchors
}

/// The documentation comments of a Rust source file; other lines are empty.
pub(super) fn documentation(source: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("//!").or(line.strip_prefix("///"));
        format!("{}\n", text.unwrap_or_default().trim_start())
    };
    source.lines().map(comment).collect()
}

/// Lower case, spaces as hyphens, and of the rest only letters, digits, hyphens and underscores;
/// of a link only its text.
fn anchor(title: &str) -> String {
    let mut anchor = String::new();
    let mut rest = title;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            ' ' => anchor.push('-'),
            ']' if rest.starts_with('(') => {
                rest = rest.split_once(')').map_or("", |(_, after)| after);
            }
            _ if char.is_alphanumeric() || char == '-' || char == '_' => {
                anchor.extend(char.to_lowercase());
            }
            _ => {}
        }
    }
    anchor
}

/// The lines outside of fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (None, None) => return Some((index + 1, line)),
            (Some(_), _) => {}
        }
        None
    })
}

fn without_code_spans(line: &str) -> String {
    let parts = line.split('`').step_by(2);
    parts.collect::<Vec<_>>().join("`")
}

fn link(line: usize, target: &str) -> Link {
    Link {
        line,
        target: target.trim_matches(['<', '>']).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_only() {
        let text = "[a](b.md) and ![c](<d.png> \"title\")\n```\n[e](f.md)\n```\n`[g](h.md)` [i](j#k)\n[l]: m.md\n[^n]: o\n";
        let found: Vec<(usize, String)> = links(text)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();
        let expected = [(1, "b.md"), (1, "d.png"), (5, "j#k"), (6, "m.md")];
        assert_eq!(
            found,
            expected.map(|(line, target)| (line, target.to_owned()))
        );
    }

    #[test]
    fn headings_have_the_anchors_that_github_gives_them() {
        let text = "# The road, `in` and out!\n## Twice\n#hashtag\n```\n# no\n```\n## Twice\n### A [link](x.md) §8\n";
        let expected = ["the-road-in-and-out", "twice", "twice-1", "a-link-8"];
        assert_eq!(anchors(text), expected);
    }

    #[test]
    fn only_documentation_comments_of_a_source_file_are_documents() {
        let source = "//! [a](b.md)\n// [c](d.md)\nfn f() {} // [e](f.md)\n    /// [g](h.md)\n";
        let found: Vec<usize> = links(&documentation(source))
            .into_iter()
            .map(|link| link.line)
            .collect();
        assert_eq!(found, [1, 4]);
    }
}

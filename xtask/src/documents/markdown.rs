//! Links and headings of Markdown.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;

/// A link's target and the line it stands on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Every link and image. The first line of `text` has the number `first_line`.
pub(super) fn links(text: &str, first_line: usize) -> Vec<Link> {
    let events = Parser::new_ext(text, options()).into_offset_iter();
    let links = events.filter_map(|(event, range)| match event {
        Event::Start(
            Tag::Link {
                dest_url,
                link_type,
                ..
            }
            | Tag::Image {
                dest_url,
                link_type,
                ..
            },
        ) if link_type != LinkType::Email => Some(Link {
            line: first_line + text[..range.start].matches('\n').count(),
            target: dest_url.into_string(),
        }),
        _ => None,
    });
    links.collect()
}

/// The anchors that GitHub gives the headings of a document.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let mut title: Option<String> = None;
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Start(Tag::Heading { .. }) => title = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(title) = &mut title {
                    title.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&title.take().unwrap_or_default());
                let count = seen.entry(anchor.clone()).or_default();
                anchors.push(match *count {
                    0 => anchor,
                    earlier => format!("{anchor}-{earlier}"),
                });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

/// Lower case, spaces as hyphens, and of the rest only letters, digits, hyphens and underscores.
fn anchor(title: &str) -> String {
    let remaining = title.chars().filter_map(|char| match char {
        ' ' => Some('-'),
        _ if char.is_alphanumeric() || char == '-' || char == '_' => Some(char),
        _ => None,
    });
    remaining.flat_map(char::to_lowercase).collect()
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_only() {
        let text = "[a](b.md) and ![c](<d.png> \"title\")\n```\n[e](f.md)\n```\n`[g](h.md)` [i](j#k)\n\n[l] [^n]\n\n\
            [l]: m.md\n\n[^n]: o\n";
        let found: Vec<(usize, String)> = links(text, 1)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();
        let expected = [(1, "b.md"), (1, "d.png"), (5, "j#k"), (7, "m.md")];
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
}

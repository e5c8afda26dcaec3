//! Lines of text with links in them, as a table has them.

/// A part of a line, which may lead to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) path: Option<String>,
}

impl Piece {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let (text, path) = (text.into(), None);
        Self { text, path }
    }
}

/// Lines, so that the row of a list stays low: one short line, or a summary that opens them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// None for one short line.
    pub(crate) summary: Option<String>,
    pub(crate) lines: Vec<Vec<Piece>>,
}

/// The longest line that stands in a table by itself, in characters.
const SHORT: usize = 60;

/// The longest summary without the number of those that it leaves out: one line of a narrow column.
const SUMMARY: usize = 22;

impl Lines {
    /// The lines. The summary is made of `titles`, without repetition.
    pub(crate) fn new(titles: &[String], lines: Vec<Vec<Piece>>) -> Self {
        let chars = |line: &Vec<Piece>| -> usize {
            line.iter().map(|piece| piece.text.chars().count()).sum()
        };
        let is_short = matches!(&*lines, [line] if chars(line) <= SHORT);
        let summary = (!is_short && !lines.is_empty()).then(|| listed(titles, SUMMARY));
        Self { summary, lines }
    }
}

/// The first of the texts that fit, without repetition, and the number of the others.
pub(crate) fn listed(texts: &[String], most_chars: usize) -> String {
    let mut shown = String::new();
    let mut others = 0;
    for (at, text) in texts.iter().enumerate() {
        if texts[..at].contains(text) {
            continue;
        }
        let chars = shown.chars().count() + text.chars().count() + 2;
        if shown.is_empty() {
            shown = text.chars().take(most_chars).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
        } else if chars <= most_chars && others == 0 {
            shown.push_str(", ");
            shown.push_str(text);
        } else {
            others += 1;
        }
    }
    match others {
        0 => shown,
        others => format!("{shown} and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_short_line_needs_no_summary() {
        let titles = ["name".to_owned()];
        let line = |chars: usize| vec![Piece::text("x".repeat(chars))];
        assert_eq!(Lines::new(&titles, vec![line(60)]).summary, None);
        assert_eq!(Lines::new(&[], Vec::new()).summary, None);
        for lines in [vec![line(61)], vec![line(1), line(1)]] {
            let summary = Lines::new(&titles, lines).summary;
            assert_eq!(summary.as_deref(), Some("name"));
        }
    }

    #[test]
    fn texts_that_do_not_fit_are_counted() {
        let texts = ["name", "group", "name", "resource"].map(str::to_owned);
        assert_eq!(listed(&texts, 60), "name, group, resource");
        assert_eq!(listed(&texts, 11), "name, group and 1 more");
        assert_eq!(listed(&texts, 3), "nam… and 2 more");
        assert_eq!(listed(&[], 3), "");
    }
}

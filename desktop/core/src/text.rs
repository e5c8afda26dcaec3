//! Texts that others chose: names of resources, reasons, addresses. They are shown as text, whatever is in them.

/// The longest name that is shown, in characters; more is cut with an ellipsis.
pub const MAX_SHOWN_CHARS: usize = 200;

const FIRST_STRONG_ISOLATE: char = '\u{2068}';
const POP_DIRECTIONAL_ISOLATE: char = '\u{2069}';

/// `text` without characters that change what is around them: controls, ends of lines, and marks of writing direction.
/// Each becomes U+FFFD, so that the reader sees that something was there. Overlong texts are cut.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut cleaned: String = text.chars().take(MAX_SHOWN_CHARS).map(harmless).collect();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        cleaned.push('…');
    }
    cleaned
}

/// `text` cleaned and between FSI and PDI: its direction does not reorder the words around it.
#[must_use]
pub fn isolate(text: &str) -> String {
    format!(
        "{FIRST_STRONG_ISOLATE}{}{POP_DIRECTIONAL_ISOLATE}",
        clean(text)
    )
}

/// A line of a log, of any length, without characters that change what is around them.
#[must_use]
pub fn clean_line(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// The time for which a text that goes by itself is shown, in seconds: that to see it, and that to read it at 15 characters
/// a second, as slow readers do.
#[must_use]
pub fn reading_s(text: &str) -> u32 {
    const TO_SEE_S: u32 = 5;
    const CHARS_PER_S: usize = 15;
    let to_read_s = text.chars().count() / CHARS_PER_S;
    TO_SEE_S.saturating_add(u32::try_from(to_read_s).unwrap_or(u32::MAX))
}

/// `text` for a widget that interprets Pango markup and can't be told not to.
#[must_use]
pub fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `text` for a notification. Some servers read markup in it and some do not, so its characters are replaced by others
/// that look alike.
#[must_use]
pub fn without_markup(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '<' => '‹',
            '>' => '›',
            '&' => '＆',
            other => other,
        })
        .collect()
}

const fn harmless(character: char) -> char {
    match character {
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => '\u{fffd}',
        // Arabic letter mark, marks, embeddings and overrides, isolates (UAX #9), and separators of lines.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            '\u{fffd}'
        }
        // Tags, which no font shows.
        '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_isolate() {
        let shown = isolate("db\u{2069}\u{202e}exe.fdp\n");
        assert_eq!(shown, "\u{2068}db\u{fffd}\u{fffd}exe.fdp\u{fffd}\u{2069}");
        assert_eq!(isolate("שרת"), "\u{2068}שרת\u{2069}");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape_markup("<b>a&b</b>"), "&lt;b&gt;a&amp;b&lt;/b&gt;");
        assert_eq!(without_markup("<a href=x>&"), "‹a href=x›＆");
    }

    #[test]
    fn a_long_name_is_cut() {
        let cut = clean(&"ä".repeat(MAX_SHOWN_CHARS + 1));
        assert_eq!(cut.chars().count(), MAX_SHOWN_CHARS + 1);
        assert!(cut.ends_with('…'));
        assert_eq!(
            clean(&"ä".repeat(MAX_SHOWN_CHARS)).chars().count(),
            MAX_SHOWN_CHARS
        );
    }

    #[test]
    fn a_long_text_is_shown_for_longer() {
        assert_eq!(reading_s(""), 5);
        assert_eq!(reading_s("Kopiert"), 5);
        assert_eq!(reading_s(&"ä".repeat(150)), 15);
    }
}

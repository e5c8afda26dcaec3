//! Text of others in messages.

use std::fmt::Write;

/// The most characters of a refused text that an error repeats: enough for any address range or name of a thing.
const MAX_QUOTED_CHARS: usize = 64;

/// The most characters of a name that a message repeats: a name has at most 100.
const MAX_NAME_CHARS: usize = 100;

/// As much of a refused text as an error repeats.
#[must_use]
pub fn quotable(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

/// A name in double quotes, as it is written, for a sentence. A character that nobody would see is shown by its number,
/// as `<U+200B>`: it may be the reason why nothing has that name. A longer text is cut, with `…` at its end.
#[must_use]
pub fn quoted(name: &str) -> String {
    let mut shown = String::with_capacity(name.len() + 2);
    shown.push('"');
    for (place, char) in name.chars().enumerate() {
        if place == MAX_NAME_CHARS {
            shown.push('…');
            break;
        }
        if is_deceptive(char) {
            // Writing to a string never fails.
            let _infallible = write!(shown, "<U+{:04X}>", u32::from(char));
        } else {
            shown.push(char);
        }
    }
    shown.push('"');
    shown
}

/// True if the character is invisible, reorders its neighbours or controls a terminal. Such are
/// control characters, those that Unicode calls `Default_Ignorable_Code_Point`, separators of
/// lines, interlinear annotation, and the empty Braille pattern.
#[must_use]
pub fn is_deceptive(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_as_it_is_written() {
        for (name, shown) in [
            ("Müller", "\"Müller\""),
            ("Mu\u{308}ller", "\"Mu\u{308}ller\""),
            ("O'Neill \\ \u{1f4ce}", "\"O'Neill \\ \u{1f4ce}\""),
            ("ad\u{200b}min", "\"ad<U+200B>min\""),
            ("a\u{1b}[2J\u{202e}b", "\"a<U+001B>[2J<U+202E>b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), shown);
        }
    }

    #[test]
    fn a_name_is_quoted_whole_and_a_longer_text_is_cut() {
        let name = "ä".repeat(100);
        assert_eq!(quoted(&name), format!("\"{name}\""));
        assert_eq!(quoted(&format!("{name}b")), format!("\"{name}…\""));
    }
}

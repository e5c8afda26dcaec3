//! Text of others, as it may be shown on a terminal.

use std::fmt::Write;

/// The text with whatever would move the cursor, colour the terminal, or make its letters stand in
/// another order written out, such as `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if is_hidden(letter) => {
                // Writing to a string never fails.
                let _infallible = write!(shown, "{}", letter.escape_default());
            }
            letter => shown.push(letter),
        }
    }
    shown
}

/// Control characters; line and paragraph separators; marks of direction, which make a name look like
/// another one (Unicode Technical Report 36, §2.4); and letters without any width. The joiners
/// U+200C and U+200D are letters of some languages and stay.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_controls_a_terminal_is_written_out() {
        for (text, shown) in [
            ("Büro, 東京 & 👩‍💻", "Büro, 東京 & 👩‍💻"),
            ("\u{1b}[2Jcleared\u{7}", "\\u{1b}[2Jcleared\\u{7}"),
            ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("abc\u{202e}dcba", "abc\\u{202e}dcba"),
            ("same\u{200b}", "same\\u{200b}"),
            ("two\u{2028}lines", "two\\u{2028}lines"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            let shown = visible(&text);
            prop_assert!(!shown.chars().any(is_hidden), "{shown:?}");
            prop_assert_eq!(visible(&shown), shown);
        }
    }
}

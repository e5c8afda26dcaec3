//! Text of others, as it may be shown on a terminal.

use culvert_base::is_deceptive;
use std::fmt::Write;

/// The text with whatever would move the cursor, colour the terminal, or make its letters stand in
/// another order written out, such as `\u{1b}`. [`culvert_base::quoted`] writes `<U+001B>`. The notation
/// here is another one, because a reader can thereby tell a name that was quoted from a line that was cleaned as a whole.
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

/// Characters that no name has ([`is_deceptive`]). The joiners U+200C and U+200D and the variation
/// selectors of emoji are letters of other texts and stay.
fn is_hidden(letter: char) -> bool {
    let stays = matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    is_deceptive(letter) && !stays
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

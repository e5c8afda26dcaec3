//! Names that people compare: no character in them is invisible or reorders its neighbours.
//!
//! A reviewer compares two names by eye: those of machines before approving one, those of groups before
//! adding a person. Unicode Technical Report 36 (§2.4, §3.1) lists the characters that make two different
//! names look the same. They are refused, and a name is kept in Normalization Form C, so that one
//! letter has one spelling. Letters of different scripts that look alike (Unicode Technical Standard 39)
//! are not detected.

use culvert_base::is_deceptive;
use std::fmt;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Replaces a refused character in a name that a machine reported: visible, and never part of a real name.
const REPLACEMENT: char = '\u{fffd}';

/// A character that no name has, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeceptiveCharacter {
    found: char,
    /// Counted in characters from 1.
    place: usize,
}

impl fmt::Display for DeceptiveCharacter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.found {
            char if char.is_control() => "a control character",
            '\u{2028}' | '\u{2029}' => "a line separator",
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => "a mark that changes the direction of text",
            _ => "an invisible character",
        };
        let (number, place) = (u32::from(self.found), self.place);
        write!(out, "U+{number:04X}, {kind} (character {place})")
    }
}

/// The first character of the text that no name has.
#[must_use]
pub fn deceptive_character(text: &str) -> Option<DeceptiveCharacter> {
    let place = text.chars().position(is_deceptive)?;
    let found = text.chars().nth(place)?;
    let place = place + 1;
    Some(DeceptiveCharacter { found, place })
}

/// The name in Normalization Form C.
///
/// # Errors
/// The first character that no name has.
pub fn normalized_name(text: &str) -> Result<String, DeceptiveCharacter> {
    match deceptive_character(text) {
        Some(found) => Err(found),
        None => Ok(composed(text)),
    }
}

/// Any text in Normalization Form C, so that it is found among names.
#[must_use]
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// Any text in Normalization Form D, in which names may be that are older than the rule.
#[must_use]
pub fn decomposed(text: &str) -> String {
    text.nfd().collect()
}

/// True if the text is in Normalization Form C, as every name is that [`normalized_name`] returned.
#[must_use]
pub fn is_normalized(text: &str) -> bool {
    is_nfc(text)
}

/// A name that a machine or an identity provider reported: each refused character becomes U+FFFD. A machine
/// cannot correct its host name in a form, so it is not turned away.
#[must_use]
pub fn readable_name(text: &str) -> String {
    let readable = |char| {
        if is_deceptive(char) {
            REPLACEMENT
        } else {
            char
        }
    };
    text.chars().map(readable).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_refused_character_is_named() {
        for (text, named) in [
            ("a\u{7}b", "U+0007, a control character (character 2)"),
            ("a\nb", "U+000A, a control character (character 2)"),
            (
                "a\u{202e}b",
                "U+202E, a mark that changes the direction of text (character 2)",
            ),
            (
                "a\u{2069}b",
                "U+2069, a mark that changes the direction of text (character 2)",
            ),
            (
                "a\u{61c}b",
                "U+061C, a mark that changes the direction of text (character 2)",
            ),
            ("a\u{2028}b", "U+2028, a line separator (character 2)"),
            ("a\u{200b}b", "U+200B, an invisible character (character 2)"),
            ("\u{ad}b", "U+00AD, an invisible character (character 1)"),
            (
                "ä東b\u{200b}",
                "U+200B, an invisible character (character 4)",
            ),
        ] {
            let found = normalized_name(text).unwrap_err();
            assert_eq!(found.to_string(), named);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of normalisations take minutes there")]
    fn every_range_of_deceptive_characters_is_refused_at_both_ends_and_not_beyond() {
        for (first, last) in [
            ('\u{0}', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{ad}', '\u{ad}'),
            ('\u{34f}', '\u{34f}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{115f}', '\u{1160}'),
            ('\u{180b}', '\u{180f}'),
            ('\u{200b}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2060}', '\u{206f}'),
            ('\u{3164}', '\u{3164}'),
            ('\u{fe00}', '\u{fe0f}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{ffa0}', '\u{ffa0}'),
            ('\u{e0000}', '\u{e0fff}'),
        ] {
            for char in first..=last {
                assert!(normalized_name(&format!("a{char}b")).is_err(), "{char:?}");
            }
            for next in [
                u32::from(first).checked_sub(1),
                u32::from(last).checked_add(1),
            ] {
                if let Some(next) = next.and_then(char::from_u32) {
                    assert!(!is_deceptive(next), "{next:?}");
                }
            }
        }
    }

    #[test]
    fn names_of_all_scripts_pass() {
        for name in [
            "Büro",
            "東京",
            "Köln 📎",
            "مكتب",
            "משרד",
            "कार्यालय",
            "Ωμέγα",
            "ソウル",
            "서울",
        ] {
            assert_eq!(normalized_name(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn one_letter_has_one_spelling() {
        let composed = "Caf\u{e9}";
        assert_eq!(normalized_name("Cafe\u{301}").as_deref(), Ok(composed));
        assert!(is_normalized(composed) && !is_normalized("Cafe\u{301}"));
    }

    #[test]
    fn a_reported_name_shows_where_a_character_was_replaced() {
        assert_eq!(
            readable_name("pi\u{202e}otr\u{200b}"),
            "pi\u{fffd}otr\u{fffd}"
        );
        assert_eq!(readable_name("Cafe\u{301}"), "Caf\u{e9}");
    }

    proptest! {
        #[test]
        fn no_accepted_name_has_an_invisible_character_and_each_is_kept_as_it_is(text in "[a-zü\u{308}\u{200b}\u{202e}東 ]{0,12}|\\PC{0,20}") {
            if let Ok(name) = normalized_name(&text) {
                prop_assert!(!name.chars().any(is_deceptive), "{name:?}");
                prop_assert_eq!(normalized_name(&name), Ok(name.clone()));
            }
        }

        #[test]
        fn what_is_read_is_a_name_and_stays_as_it_is(text in any::<String>()) {
            let read = readable_name(&text);
            prop_assert_eq!(normalized_name(&read), Ok(read.clone()));
            prop_assert!(is_normalized(&read));
            prop_assert_eq!(readable_name(&read), read);
        }
    }
}

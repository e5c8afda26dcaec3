//! Search texts for logs.

use culvert_policy::composed;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of a text to look for: a name has at most [`crate::MAX_NAME_CHARS`] letters, of two bytes in
/// most scripts; of a longer one a part is enough.
pub const MAX_SEARCH_LEN: usize = 200;

/// A text that somebody looks for in a log. Every character stands for itself; the case of letters
/// does not count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SearchText {
    /// Its own, so that filters stay plain values.
    bytes: [u8; MAX_SEARCH_LEN],
    len: usize,
}

/// The reason for which a text can't be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SearchTextError {
    /// There is nothing to look for.
    #[error("say what to look for, or leave it out")]
    Empty,
    /// It is too long.
    #[error("it has {0} bytes, and {MAX_SEARCH_LEN} at most: a part of it is enough")]
    TooLong(usize),
    /// Nothing in a log has such characters.
    #[error("it has no control characters, line breaks among them")]
    Control,
}

impl SearchText {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It was text, and is cut nowhere.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl FromStr for SearchText {
    type Err = SearchTextError;

    /// Spaces around it do not count. It is looked for in Normalization Form C, as names are kept.
    fn from_str(text: &str) -> Result<Self, SearchTextError> {
        let text = composed(text.trim());
        if text.is_empty() {
            return Err(SearchTextError::Empty);
        }
        if text.len() > MAX_SEARCH_LEN {
            return Err(SearchTextError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(SearchTextError::Control);
        }
        let mut bytes = [0; MAX_SEARCH_LEN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self {
            bytes,
            len: text.len(),
        })
    }
}

impl fmt::Debug for SearchText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_to_look_for_is_some_letters_and_not_too_many() {
        let read = |text: &str| text.parse::<SearchText>();
        assert_eq!(read("Cafe\u{301}").unwrap().as_str(), "Caf\u{e9}");
        assert_eq!(read("  Ada L. ").unwrap().as_str(), "Ada L.");
        assert_eq!(read(" \t "), Err(SearchTextError::Empty));
        assert_eq!(read("a\nb"), Err(SearchTextError::Control));
        assert!(read(&"ä".repeat(MAX_SEARCH_LEN / 2)).is_ok());
        let long = "ä".repeat(MAX_SEARCH_LEN / 2 + 1);
        assert_eq!(read(&long), Err(SearchTextError::TooLong(202)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(text in ".{0,220}") {
            if let Ok(read) = text.parse::<SearchText>() {
                prop_assert_eq!(read.as_str(), text.trim());
            }
        }
    }
}

//! Refused text in messages.

/// The most characters of a refused text that an error repeats: enough for any address range or name of a thing.
const MAX_QUOTED_CHARS: usize = 64;

/// As much of a refused text as an error repeats.
#[must_use]
pub fn quotable(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

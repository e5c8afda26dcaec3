//! Text of the portal in the log and on a terminal.

/// A name as it comes to a terminal and a log.
pub(super) fn tidy(name: &str) -> String {
    const MAX_CHARS: usize = 100;
    let plain = name.chars().filter(|letter| !letter.is_control());
    plain.take(MAX_CHARS).collect()
}

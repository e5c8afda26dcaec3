//! Texts for the trace of a run.

/// The beginning of a message, for the trace.
pub(crate) fn brief(text: &str) -> &str {
    const MAX: usize = 220;
    text.get(..MAX).unwrap_or(text)
}

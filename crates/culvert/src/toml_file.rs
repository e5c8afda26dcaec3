//! An error in a TOML file, with its line.

use std::fmt;

/// A file that is not understood. Shown behind the file's path and a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl FileError {
    /// The error of the parser for `text`.
    pub(crate) fn of(error: &toml::de::Error, text: &str) -> Self {
        Self {
            line: error.span().map(|span| line_of(text, span.start)),
            message: error.message().replace('\n', " "),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{line}: {}", self.message),
            None => write!(out, " {}", self.message),
        }
    }
}

/// The line of `text` on which the byte at `offset` stands, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

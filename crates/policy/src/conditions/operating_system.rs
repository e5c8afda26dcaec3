//! The operating system that a client says it has.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Characters of an id and of a version. The longest ids of distributions have about 20.
pub(super) const MAX_CHARS: usize = 64;

/// The family of systems whose distributions `os-release` names.
pub(super) const LINUX: &str = "linux";

/// The operating system that a client says it has. The portal can't prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatingSystem {
    /// `linux`.
    pub family: String,
    /// The distribution: `ID` of os-release, such as `debian`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The version of the distribution: `VERSION_ID` of os-release, such as `12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl OperatingSystem {
    /// A Linux of which nothing more is known.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            family: LINUX.to_owned(),
            id: None,
            version: None,
        }
    }

    /// The same without words that os-release does not allow. None where the family is such a word.
    #[must_use]
    pub fn checked(self) -> Option<Self> {
        let id = self.id.filter(|id| is_word(id));
        Some(Self {
            family: Some(self.family).filter(|family| is_word(family))?,
            version: self.version.filter(|it| id.is_some() && is_word(it)),
            id,
        })
    }
}

impl fmt::Display for OperatingSystem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.id, &self.version) {
            (None, _) => out.write_str(&self.family),
            (Some(id), None) => write!(out, "{id} without a version"),
            (Some(id), Some(version)) => write!(out, "{id} {version}"),
        }
    }
}

/// A word that os-release(5) allows as an id and as a version, and that fits into a sentence.
pub(super) fn is_word(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(is_plain)
}

//! One text, or several, as files have them.

use serde::Deserialize;

/// A text, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl OneOrMore {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }
}

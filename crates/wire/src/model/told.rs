//! Parts of a message that this version does not know, because the sender is of a later version. They
//! have no effect: they are not obeyed, and they do not make the rest of the message invalid.

use super::Target;
use serde::de::IgnoredAny;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;

/// The elements of a list that this version understands, and how many more there were. It reads as the
/// list of the former: what is not understood allows nothing and is chosen by nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood<T> {
    known: Vec<T>,
    others: usize,
}

impl<T> Understood<T> {
    /// The number of elements that are not understood.
    #[must_use]
    pub const fn others(&self) -> usize {
        self.others
    }

    /// True if there is nothing, not even what is not understood.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.known.is_empty() && self.others == 0
    }
}

impl<T> Default for Understood<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Understood<T> {
    fn from(known: Vec<T>) -> Self {
        Self { known, others: 0 }
    }
}

impl<T> Deref for Understood<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.known
    }
}

impl<T: Serialize> Serialize for Understood<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut list = out.serialize_seq(Some(self.known.len() + self.others))?;
        for known in &self.known {
            list.serialize_element(known)?;
        }
        // Nobody understands a null either: that something was there is not lost on the way.
        for _ in 0..self.others {
            list.serialize_element(&())?;
        }
        list.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Understood<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Element<T> {
            Known(T),
            Other(IgnoredAny),
        }
        let elements = Vec::<Element<T>>::deserialize(from)?;
        let count = elements.len();
        let known = elements.into_iter().filter_map(|element| match element {
            Element::Known(known) => Some(known),
            Element::Other(_) => None,
        });
        let known: Vec<T> = known.collect();
        let others = count - known.len();
        Ok(Self { known, others })
    }
}

/// Takes of a list what is understood, where it does not matter that there was more.
pub(crate) fn understood<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Understood::deserialize(from).map(|list| list.known)
}

/// A target as a client is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToldTarget {
    /// One of a kind that this version knows.
    Known(Target),
    /// Another one: nobody gets there with this version.
    Unknown {
        /// As the portal wrote it.
        kind: String,
    },
}

impl ToldTarget {
    /// The target, where this version knows what it is.
    #[must_use]
    pub const fn known(&self) -> Option<&Target> {
        match self {
            Self::Known(target) => Some(target),
            Self::Unknown { .. } => None,
        }
    }
}

impl From<Target> for ToldTarget {
    fn from(target: Target) -> Self {
        Self::Known(target)
    }
}

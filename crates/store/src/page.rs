//! Lists, a page at a time.

use crate::{EntityId, EntityKind, MAX_PAGE};
use culvert_wire::model::Target;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The rows on it.
    pub items: Vec<T>,
    /// The beginning of the next page; none on the last one.
    pub next: Option<C>,
}

/// The largest number of rows on a page: 1 to [`MAX_PAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageLimit(u16);

/// The filter of rows; all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// With this name, whatever the case of its letters.
    pub name: Option<String>,
    /// With this in their name, whatever the case of its letters.
    pub name_contains: Option<String>,
    /// That refer to these rows: memberships to a group or an actor, resources, gateways and tokens
    /// to a site, policies to a group or a resource, clients and tokens to an actor.
    pub refers_to: Vec<EntityId>,
    /// Resources with this address, as it is kept.
    pub target: Option<Target>,
    /// That are in this part of their kind.
    pub part: Option<Part>,
}

/// A part of the rows of one kind that people have a list of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Actors that are machines.
    ServiceAccounts,
    /// Tokens that people made: no sessions of browsers, and none for set-up.
    MadeTokens,
    /// Sessions of browsers.
    Sessions,
    /// Gateways that no administrator has verified, and none has revoked.
    UnverifiedGateways,
}

impl Part {
    /// The kind of its rows.
    pub const fn kind(self) -> EntityKind {
        match self {
            Self::ServiceAccounts => EntityKind::Actor,
            Self::MadeTokens | Self::Sessions => EntityKind::Token,
            Self::UnverifiedGateways => EntityKind::Gateway,
        }
    }
}

impl PageLimit {
    /// As many as there may be.
    pub const MAX: Self = Self(MAX_PAGE);

    /// Cuts what is outside 1 to [`MAX_PAGE`].
    pub fn new(rows: u64) -> Self {
        let rows = rows.clamp(1, u64::from(MAX_PAGE));
        Self(u16::try_from(rows).unwrap_or(MAX_PAGE))
    }

    /// Rows.
    pub const fn rows(self) -> u16 {
        self.0
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

impl<T, C> Page<T, C> {
    /// From up to one row more than the page takes, which says whether there is another page.
    pub fn cut(mut items: Vec<T>, limit: PageLimit, cursor: impl Fn(&T) -> C) -> Self {
        let rows = usize::from(limit.rows());
        let more = items.len() > rows;
        items.truncate(rows);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }

    /// The same page of something else.
    pub fn map<U>(self, with: impl Fn(T) -> U) -> Page<U, C> {
        Page {
            items: self.items.into_iter().map(with).collect(),
            next: self.next,
        }
    }
}

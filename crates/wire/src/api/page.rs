use serde::{Deserialize, Serialize};

/// Entries of a page whose length nobody asked for.
pub const DEFAULT_PAGE_LEN: u16 = 50;

/// Most entries of a page: 200 resources with all their filters stay below half a megabyte.
pub const MAX_PAGE_LEN: u16 = 200;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The entries, in an order that does not change.
    #[cfg_attr(feature = "openapi", schema(inline))]
    pub items: Vec<T>,
    /// The `cursor` to give for the entries that follow; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The number of all entries that were asked for, where the list has an order of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

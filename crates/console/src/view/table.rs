//! Tables, and the ways to find rows in them.

use super::Cell;
use std::borrow::Cow;

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The text of a table without rows.
    pub(crate) empty: Cow<'static, str>,
    /// The address of the page before.
    pub(crate) previous: Option<String>,
    /// The address of the next page.
    pub(crate) next: Option<String>,
    /// The page is about nothing else, so that its title is enough.
    pub(crate) is_alone: bool,
    /// The ways to find rows, above the list.
    pub(crate) filter_bar: Option<FilterBar>,
    /// The actions on the rows that are marked.
    pub(crate) selection: Option<SelectionBar>,
}

/// The actions on the rows that are marked.
#[derive(Clone, Debug)]
pub(crate) struct SelectionBar {
    /// The form's address.
    pub(crate) path: String,
    pub(crate) many: &'static str,
    /// The word and the name of each; true for those that take something away.
    pub(crate) buttons: Vec<(&'static str, &'static str, bool)>,
}

impl Table {
    pub(crate) fn has_times(&self) -> bool {
        self.rows.iter().flatten().any(Cell::is_moment)
    }

    fn ordering(&self, column: &str) -> Option<&Ordering> {
        let orders = &self.filter_bar.as_ref()?.orders;
        let found = orders.iter().find(|(name, _)| *name == column);
        found.map(|(_, ordering)| ordering)
    }

    /// The address of the list in the order of this column.
    pub(crate) fn ordered(&self, column: &str) -> Option<&str> {
        self.ordering(column).map(|ordering| &*ordering.path)
    }

    /// The direction in which the rows are ordered by this column, in the words of `aria-sort`.
    pub(crate) fn direction(&self, column: &str) -> Option<&'static str> {
        self.ordering(column)?.direction
    }
}

/// The ways to find rows of a list.
#[derive(Clone, Debug)]
pub(crate) struct FilterBar {
    /// The address of the list.
    pub(crate) path: &'static str,
    /// The text that was looked for.
    pub(crate) search: String,
    /// The columns in which a search looks.
    pub(crate) hint: &'static str,
    /// The fields that go with a search.
    pub(crate) hidden: Vec<(&'static str, String)>,
    pub(crate) chips: Vec<Chip>,
    /// The columns by which the list is ordered.
    pub(crate) orders: Vec<(&'static str, Ordering)>,
    /// The number of rows, and where these are among them.
    pub(crate) count: String,
}

/// A link to the rows in one state.
#[derive(Clone, Debug)]
pub(crate) struct Chip {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    pub(crate) is_current: bool,
}

/// The order of a list by one column.
#[derive(Clone, Debug)]
pub(crate) struct Ordering {
    /// The address of the list in this order, or in the opposite one where it is in it.
    pub(crate) path: String,
    pub(crate) direction: Option<&'static str>,
}

//! Lists that people look through: the texts, states and orders by which rows are found.
//!
//! All of it is in the address: a list works by links and one form, and can be sent to somebody.

use super::asked::Asked;
use super::view::{Cell, Chip, FilterBar, Ordering, Table};
use culvert_portal_service::{ListRequest, Live};
use culvert_store::{Order, OrderBy, Part, Position};
use std::borrow::Cow;

/// Rows of a page: more than a screen shows, and some 30 kB.
const ROWS: u16 = 50;

/// The last page that is counted: no kind has more rows.
const MAX_PAGE: u64 = culvert_store::MAX_ROWS_PER_KIND as u64 / ROWS as u64 + 1;

/// The description of a list.
pub(super) struct Listing {
    /// The path of its page.
    pub(super) at: &'static str,
    pub(super) title: &'static str,
    /// The headings, each with the order that it gives.
    pub(super) columns: &'static [(&'static str, Option<OrderBy>)],
    /// The states that rows are narrowed to.
    pub(super) states: &'static [RowState],
    /// The columns in which a search looks.
    pub(super) hint: &'static str,
    /// The text of a list that has no row at all.
    pub(super) empty: &'static str,
}

/// A state that rows of a list are in.
pub(super) struct RowState {
    /// As it is in the address.
    pub(super) word: &'static str,
    pub(super) name: &'static str,
    rows: StateRows,
}

/// The rows in a state.
#[derive(Clone, Copy)]
enum StateRows {
    Part(Part),
    Live(Live),
}

impl RowState {
    pub(super) const fn new(word: &'static str, name: &'static str, part: Part) -> Self {
        let rows = StateRows::Part(part);
        Self { word, name, rows }
    }

    /// Of machines, by what they are at this moment.
    pub(super) const fn live(word: &'static str, name: &'static str, live: Live) -> Self {
        let rows = StateRows::Live(live);
        Self { word, name, rows }
    }
}

impl Listing {
    /// The request for the rows that the address asks for. Words that it does not know ask for nothing.
    pub(super) fn request(&self, asked: &Asked) -> ListRequest {
        let mut request = ListRequest::searching(asked.0.filled("search"));
        match self.state(asked).map(|state| state.rows) {
            Some(StateRows::Part(part)) => request.filter.parts.push(part),
            Some(StateRows::Live(live)) => request.live = Some(live),
            None => {}
        }
        request.limit = Some(ROWS);
        request.position = Some(Position {
            order: self.order(asked),
            skipped: (page(asked) - 1) * u64::from(ROWS),
        });
        request
    }

    /// The table with these rows, of so many in all.
    pub(super) fn table(&self, asked: &Asked, total: Option<u64>, rows: Vec<Vec<Cell>>) -> Table {
        let total = total.unwrap_or(rows.len() as u64);
        let page = page(asked);
        let before = (page - 1) * u64::from(ROWS);
        let last = before + rows.len() as u64;
        let to = |page: u64| asked.with(self.at, &[("page", &page.to_string())]);
        Table {
            title: self.title.to_owned(),
            columns: self.columns.iter().map(|(name, _)| *name).collect(),
            previous: (page > 1).then(|| to(page - 1)),
            next: (last < total).then(|| to(page + 1)),
            empty: self.nothing(asked),
            is_alone: true,
            selection: None,
            filter_bar: Some(FilterBar {
                path: self.at,
                search: asked.0.text("search").to_owned(),
                hint: self.hint,
                hidden: self.hidden(asked),
                chips: self.chips(asked),
                orders: self.orders(asked),
                count: match (rows.is_empty(), page) {
                    (true, _) => String::new(),
                    (false, 1) if last == total => total.to_string(),
                    (false, _) => format!("{}–{last} of {total}", before + 1),
                },
            }),
            rows,
        }
    }

    fn state(&self, asked: &Asked) -> Option<&'static RowState> {
        let word = asked.0.filled("state")?;
        self.states.iter().find(|state| state.word == word)
    }

    /// The order that is asked for; by name otherwise.
    fn order(&self, asked: &Asked) -> Order {
        let text = asked.0.text("sort");
        let (is_descending, word) = match text.strip_prefix('-') {
            Some(word) => (true, word),
            None => (false, text),
        };
        let orders = self.columns.iter().filter_map(|(_, by)| *by);
        match orders.into_iter().find(|by| order_word(*by) == word) {
            Some(by) => Order { by, is_descending },
            None => Order::default(),
        }
    }

    /// The fields that a search sends along.
    fn hidden(&self, asked: &Asked) -> Vec<(&'static str, String)> {
        let state = self
            .state(asked)
            .map(|state| ("state", state.word.to_owned()));
        let sort = asked.0.filled("sort").map(|sort| ("sort", sort.to_owned()));
        state.into_iter().chain(sort).collect()
    }

    fn chips(&self, asked: &Asked) -> Vec<Chip> {
        if self.states.is_empty() {
            return Vec::new();
        }
        let current = self.state(asked).map_or("", |state| state.word);
        let all = ("", "All");
        let states = self.states.iter().map(|state| (state.word, state.name));
        let chips = std::iter::once(all).chain(states).map(|(word, name)| Chip {
            name,
            path: asked.with(self.at, &[("state", word)]),
            is_current: word == current,
        });
        chips.collect()
    }

    fn orders(&self, asked: &Asked) -> Vec<(&'static str, Ordering)> {
        let now = self.order(asked);
        let orders = self.columns.iter().filter_map(|(name, by)| {
            let by = (*by)?;
            let word = order_word(by);
            let is_now = now.by == by;
            // Times are asked for from the latest on.
            let begins_descending = matches!(by, OrderBy::Seen | OrderBy::Created);
            let goes_descending = match is_now {
                true => !now.is_descending,
                false => begins_descending,
            };
            let sort = match goes_descending {
                true => format!("-{word}"),
                false => word.to_owned(),
            };
            let ordering = Ordering {
                path: asked.with(self.at, &[("sort", &sort)]),
                direction: is_now.then_some(match now.is_descending {
                    true => "descending",
                    false => "ascending",
                }),
            };
            Some((*name, ordering))
        });
        orders.collect()
    }

    /// The text of a list without rows: it says what was looked for, where something was.
    fn nothing(&self, asked: &Asked) -> Cow<'static, str> {
        match (asked.0.filled("search"), self.state(asked)) {
            (None, None) if page(asked) == 1 => self.empty.into(),
            (None, None) => "The list ends before this page.".into(),
            (Some(search), None) => format!("Nothing here matches “{search}”.").into(),
            (None, Some(state)) => format!("Nothing here is “{}”.", state.name).into(),
            (Some(search), Some(state)) => {
                format!("Nothing here that is “{}” matches “{search}”.", state.name).into()
            }
        }
    }
}

/// The rows that came into being last, with the number of all.
pub(super) fn newest(rows: usize) -> ListRequest {
    ListRequest {
        limit: u16::try_from(rows).ok(),
        position: Some(Position {
            order: Order {
                by: OrderBy::Created,
                is_descending: true,
            },
            skipped: 0,
        }),
        ..ListRequest::default()
    }
}

/// The page of the list, from 1.
fn page(asked: &Asked) -> u64 {
    let page = asked.0.text("page").parse().unwrap_or(1);
    u64::clamp(page, 1, MAX_PAGE)
}

const fn order_word(by: OrderBy) -> &'static str {
    match by {
        OrderBy::Created => "created",
        OrderBy::Name => "name",
        OrderBy::Holder => "holder",
        OrderBy::Seen => "seen",
    }
}

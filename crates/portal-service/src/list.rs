//! Lists, a page at a time.

use super::{Caller, Service};
use culvert_ids::AccountId;
use culvert_portal_base::Fault;
use culvert_store::{EntityId, Kind, ListFilter, PageLimit, Part, Position};
use culvert_wire::api::{DEFAULT_PAGE_LEN, MAX_PAGE_LEN, Page};

/// A request for a page of a list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// The rows to list.
    pub filter: ListFilter,
    /// [`Page::next_cursor`] of the page before.
    pub cursor: Option<String>,
    /// The place in an order of its own, instead of a cursor in the order of ids.
    pub position: Option<Position>,
    /// Rows of a page.
    pub limit: Option<u16>,
    /// Only machines that are so at this moment.
    pub live: Option<Live>,
}

/// The state of a client or a gateway at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// It has a session.
    Connected,
    /// It runs an older version than the portal, as it said when it last connected.
    Outdated,
}

impl ListRequest {
    /// Only rows that refer to `id`, if there is one.
    pub fn referring_to(mut self, id: Option<impl Into<EntityId>>) -> Self {
        self.filter.refers_to.extend(id.map(Into::into));
        self
    }

    /// The same list, of a part of its kind.
    pub(super) fn of_part(&self, part: Part) -> Self {
        let mut request = self.clone();
        request.filter.parts.push(part);
        request
    }
}

/// The number of entries of a page.
pub(super) fn page_limit(limit: Option<u16>) -> Result<PageLimit, Fault> {
    match limit.unwrap_or(DEFAULT_PAGE_LEN) {
        limit @ 1..=MAX_PAGE_LEN => Ok(PageLimit::new(u64::from(limit))),
        limit => Err(Fault::invalid(
            "limit",
            format_args!("{limit} is not between 1 and {MAX_PAGE_LEN}"),
        )),
    }
}

/// Takes apart a cursor that the portal made.
pub(super) fn cursor<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>, Fault> {
    let wrong = |_| {
        let detail = "give `next_cursor` of the page before, or leave it out to begin anew";
        Fault::invalid("cursor", detail)
    };
    text.map(str::parse).transpose().map_err(wrong)
}

impl Service {
    /// A page of the rows of a kind, each as `show` makes it.
    pub(super) async fn list<T: Kind, U>(
        &self,
        caller: &Caller,
        request: &ListRequest,
        show: impl Fn(T) -> U + Send,
    ) -> Result<Page<U>, Fault> {
        caller.may_read()?;
        self.list_own(caller, request, show).await
    }

    /// The same, of what the caller may see whatever the role is.
    pub(super) async fn list_own<T: Kind, U>(
        &self,
        caller: &Caller,
        request: &ListRequest,
        show: impl Fn(T) -> U + Send,
    ) -> Result<Page<U>, Fault> {
        let limit = page_limit(request.limit)?;
        if let Some(position) = request.position {
            return self
                .list_ordered(caller, request, position, limit, show)
                .await;
        }
        let after: Option<EntityId> = cursor(request.cursor.as_deref())?;
        if after.is_some_and(|after| after.kind() != T::KIND) {
            return Err(Fault::invalid("cursor", "it is a cursor of another list"));
        }
        let list =
            self.database
                .store
                .list(caller.account(), T::KIND, &request.filter, after, limit);
        let page = self.database.ask("list", list).await?;
        let rows = page.items.into_iter().filter_map(T::from_entity);
        Ok(Page {
            items: rows.map(show).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
            total: None,
        })
    }

    /// The same in an order of its own, with the number of all.
    async fn list_ordered<T: Kind, U>(
        &self,
        caller: &Caller,
        request: &ListRequest,
        position: Position,
        limit: PageLimit,
        show: impl Fn(T) -> U + Send,
    ) -> Result<Page<U>, Fault> {
        let store = &self.database.store;
        let list = store.list_ordered(caller.account(), T::KIND, &request.filter, position, limit);
        let found = self.database.ask("list_ordered", list).await?;
        let rows = found.items.into_iter().filter_map(T::from_entity);
        Ok(Page {
            items: rows.map(show).collect(),
            next_cursor: None,
            total: Some(found.total),
        })
    }

    /// All rows of a kind that pass the filter, as [`super::database::Database::all`] says.
    pub(super) async fn all<T: Kind>(
        &self,
        account: AccountId,
        filter: &ListFilter,
    ) -> Result<Vec<T>, Fault> {
        Ok(self.database.all(account, filter).await?)
    }

    /// The first page of these rows, as many as one question to the database may ask for.
    pub(super) async fn first_page<T: Kind>(
        &self,
        account: AccountId,
        filter: &ListFilter,
    ) -> Result<Vec<T>, Fault> {
        let store = &self.database.store;
        let list = store.list(account, T::KIND, filter, None, PageLimit::MAX);
        let page = self.database.ask("list", list).await?;
        Ok(page.items.into_iter().filter_map(T::from_entity).collect())
    }

    /// One row by its id.
    pub(super) async fn get<T: Kind>(&self, account: AccountId, id: T::Id) -> Result<T, Fault> {
        Ok(self.database.get(account, id).await?)
    }

    /// The same, for who may read the configuration.
    pub(super) async fn read<T: Kind>(&self, caller: &Caller, id: T::Id) -> Result<T, Fault> {
        caller.may_read()?;
        self.get(caller.account(), id).await
    }
}

//! The database, and how long it takes to answer.

use culvert_ids::AccountId;
use culvert_portal_base::Metrics;
use culvert_store::{Kind, ListFilter, PageLimit, Store, StoreError, StoreExt};
use std::sync::Arc;

/// The store, with the metrics that note each operation of it.
pub(super) struct Database {
    pub(super) store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Database {
    pub(super) fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }

    /// Asks the store, and notes how long it took.
    pub(super) async fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.metrics.timed(operation, answer).await
    }

    /// One row by its id.
    pub(super) async fn get<T: Kind>(
        &self,
        account: AccountId,
        id: T::Id,
    ) -> Result<T, StoreError> {
        self.ask("get", self.store.get_as::<T>(account, id)).await
    }

    /// All rows of a kind that pass the filter. For kinds and filters that leave few of them.
    pub(super) async fn all<T: Kind>(
        &self,
        account: AccountId,
        filter: &ListFilter,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let list = self
                .store
                .list(account, T::KIND, filter, after, PageLimit::MAX);
            let page = self.ask("list", list).await?;
            rows.extend(page.items.into_iter().filter_map(T::from_entity));
            after = page.next;
            if after.is_none() {
                return Ok(rows);
            }
        }
    }
}

use super::list::{cursor, page_limit};
use super::{Caller, Service};
use culvert_log_sinks::entries;
use culvert_portal_base::Fault;
use culvert_store::{
    AccessFilter, AccessSeq, AccessTotals, ChangeFilter, FlowFilter, FlowSeq, SearchText, Seq,
};
use culvert_wire::Timestamp;
use culvert_wire::api::{AccessLogEntry, ChangeLogEntry, FlowLogEntry, Page};

/// A request for a page of the change log.
#[derive(Clone, Debug, Default)]
pub struct ChangeLogRequest {
    /// The entries to show.
    pub filter: ChangeFilter,
    /// The end of the page before.
    pub cursor: Option<String>,
    /// Entries of a page.
    pub limit: Option<u16>,
}

/// A request for a page of the access log.
#[derive(Clone, Debug, Default)]
pub struct AccessLogRequest {
    /// The entries to show.
    pub filter: AccessFilter,
    /// The end of the page before.
    pub cursor: Option<String>,
    /// Entries of a page.
    pub limit: Option<u16>,
}

/// A request for a page of the flow log.
#[derive(Clone, Debug, Default)]
pub struct FlowLogRequest {
    /// The entries to show.
    pub filter: FlowFilter,
    /// The end of the page before.
    pub cursor: Option<String>,
    /// Entries of a page.
    pub limit: Option<u16>,
}

/// The text to search for; none if nothing is written.
pub fn search_text(text: Option<&str>) -> Result<Option<SearchText>, Fault> {
    let text = text.filter(|text| !text.trim().is_empty());
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error| Fault::invalid("search", error))
}

impl Service {
    /// The newest first.
    pub async fn change_log(
        &self,
        caller: &Caller,
        request: &ChangeLogRequest,
    ) -> Result<Page<ChangeLogEntry>, Fault> {
        caller.may_read()?;
        let limit = page_limit(request.limit)?;
        let before = cursor(request.cursor.as_deref())?.map(Seq);
        let log = self
            .database
            .store
            .change_log(caller.account(), &request.filter, before, limit);
        let page = self.database.ask("change_log", log).await?;
        Ok(Page {
            items: page.items.into_iter().map(entries::change).collect(),
            next_cursor: page.next.map(|next| next.0.to_string()),
            total: None,
        })
    }

    /// The newest first.
    pub async fn access_log(
        &self,
        caller: &Caller,
        request: &AccessLogRequest,
    ) -> Result<Page<AccessLogEntry>, Fault> {
        caller.may_read()?;
        let limit = page_limit(request.limit)?;
        let before = cursor(request.cursor.as_deref())?.map(AccessSeq);
        let log = self
            .database
            .store
            .access_log(caller.account(), &request.filter, before, limit);
        let page = self.database.ask("access_log", log).await?;
        let mut items: Vec<_> = page.items.into_iter().map(entries::access).collect();
        self.name_denials(caller, items.iter_mut().map(|entry| &mut entry.reason))
            .await?;
        Ok(Page {
            items,
            next_cursor: page.next.map(|next| next.0.to_string()),
            total: None,
        })
    }

    /// Sums of the access log from `from` on.
    pub async fn access_totals(
        &self,
        caller: &Caller,
        from: Timestamp,
    ) -> Result<AccessTotals, Fault> {
        caller.may_read()?;
        let totals = self.database.store.access_totals(caller.account(), from);
        let mut totals = self.database.ask("access_totals", totals).await?;
        let reasons = totals.causes.iter_mut().map(|cause| &mut cause.reason);
        self.name_denials(caller, reasons).await?;
        Ok(totals)
    }

    /// The newest first.
    pub async fn flow_log(
        &self,
        caller: &Caller,
        request: &FlowLogRequest,
    ) -> Result<Page<FlowLogEntry>, Fault> {
        caller.may_read()?;
        let limit = page_limit(request.limit)?;
        let before = cursor(request.cursor.as_deref())?.map(FlowSeq);
        let log = self
            .database
            .store
            .flow_log(caller.account(), &request.filter, before, limit);
        let page = self.database.ask("flow_log", log).await?;
        Ok(Page {
            items: page.items.into_iter().map(entries::flow).collect(),
            next_cursor: page.next.map(|next| next.0.to_string()),
            total: None,
        })
    }
}

use super::identity::Call;
use super::problems::Problems;
use super::query::Query;
use culvert_ids::{ActorId, ClientId, GatewayId, ResourceId};
use culvert_portal_base::Fault;
use culvert_portal_service::{AccessLogRequest, ChangeLogRequest, FlowLogRequest, search_text};
use culvert_store::{
    AccessFilter, AccessSeq, ChangeFilter, Decision, EntityId, EntityKind, FlowFilter, FlowSeq, Seq,
};
use culvert_wire::Timestamp;
use culvert_wire::api::{AccessDecision, AccessLogEntry, ChangeLogEntry, FlowLogEntry, Page};
use culvert_wire::messages::FlowEnd;
use serde::Deserialize;

/// A filter of changes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangesQuery {
    /// The start of the page: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of a page, 1 to 200; 50 without.
    limit: Option<u16>,
    /// Only changes to things of this kind, such as `policy`.
    #[param(value_type = Option<String>)]
    entity: Option<EntityKind>,
    /// Only changes to this thing.
    #[param(value_type = Option<String>)]
    entity_id: Option<EntityId>,
    /// Only changes by this actor.
    #[param(value_type = Option<String>)]
    actor: Option<ActorId>,
    /// Only changes from this instant on.
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// Only changes before this instant.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only changes with this in a value before or after, in the name of what was changed or of who
    /// did it, or with this id. At most 200 bytes, taken as they stand, whatever the
    /// case of letters. A page looks at so many entries and no more: it may be short, even empty, and
    /// have a `next_cursor`.
    search: Option<String>,
    /// Only with a larger `seq` than this, in the order of `seq`: for programs that have the rest.
    after: Option<u64>,
}

impl ChangesQuery {
    pub(super) fn filter(&self) -> Result<ChangeFilter, Fault> {
        Ok(ChangeFilter {
            kind: self.entity,
            id: self.entity_id,
            actor: self.actor,
            from: self.from,
            until: self.until,
            after: self.after.map(Seq),
            search: search_text(self.search.as_deref())?,
        })
    }
}

/// Show the change log
///
/// The newest first: who changed what, when, and how it was before.
#[utoipa::path(
    get, path = "/log/changes", tag = "log", operation_id = "list_changes",
    params(ChangesQuery),
    responses((status = 200, description = "A page", body = Page<ChangeLogEntry>), Problems),
    security(("token" = []))
)]
pub(super) async fn changes(
    Call { service, caller }: Call,
    Query(query): Query<ChangesQuery>,
) -> Result<axum::Json<Page<ChangeLogEntry>>, Fault> {
    let request = ChangeLogRequest {
        filter: query.filter()?,
        cursor: query.cursor,
        limit: query.limit,
    };
    let page = service.change_log(&caller, &request).await?;
    Ok(axum::Json(page))
}

/// A filter of decisions.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AccessQuery {
    /// The start of the page: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of a page, 1 to 200; 50 without.
    limit: Option<u16>,
    /// Only of this client.
    #[param(value_type = Option<String>)]
    client: Option<ClientId>,
    /// Only by clients of this actor.
    #[param(value_type = Option<String>)]
    actor: Option<ActorId>,
    /// Only about this resource.
    #[param(value_type = Option<String>)]
    resource: Option<ResourceId>,
    /// Only through this gateway.
    #[param(value_type = Option<String>)]
    gateway: Option<GatewayId>,
    /// Only with this end.
    #[param(inline)]
    decision: Option<AccessDecision>,
    /// Only from this instant on.
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// Only before this instant.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only with this in the reason or in the name of actor, client, resource or gateway, or with this
    /// id. At most 200 bytes, taken as they stand, whatever the
    /// case of letters. A page looks at so many entries and no more: it may be short, even empty, and
    /// have a `next_cursor`.
    search: Option<String>,
    /// Only with a larger `seq` than this, in the order of `seq`: for programs that have the rest.
    after: Option<u64>,
}

impl AccessQuery {
    pub(super) fn filter(&self) -> Result<AccessFilter, Fault> {
        let decision = self.decision.map(|decision| match decision {
            AccessDecision::Granted => Decision::Granted,
            AccessDecision::Denied => Decision::Denied,
            AccessDecision::Revoked => Decision::Revoked,
            AccessDecision::Ended => Decision::Ended,
        });
        Ok(AccessFilter {
            client: self.client,
            actor: self.actor,
            resource: self.resource,
            gateway: self.gateway,
            decision,
            from: self.from,
            until: self.until,
            after: self.after.map(AccessSeq),
            search: search_text(self.search.as_deref())?,
        })
    }
}

/// Show the access log
///
/// The newest first: who was let to what, who was not, and why.
#[utoipa::path(
    get, path = "/log/access", tag = "log", operation_id = "list_access",
    params(AccessQuery),
    responses((status = 200, description = "A page", body = Page<AccessLogEntry>), Problems),
    security(("token" = []))
)]
pub(super) async fn access(
    Call { service, caller }: Call,
    Query(query): Query<AccessQuery>,
) -> Result<axum::Json<Page<AccessLogEntry>>, Fault> {
    let request = AccessLogRequest {
        filter: query.filter()?,
        cursor: query.cursor,
        limit: query.limit,
    };
    let page = service.access_log(&caller, &request).await?;
    Ok(axum::Json(page))
}

/// A filter of flows.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FlowsQuery {
    /// The start of the page: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of a page, 1 to 200; 50 without.
    limit: Option<u16>,
    /// Only of this client.
    #[param(value_type = Option<String>)]
    client: Option<ClientId>,
    /// Only of clients of this actor.
    #[param(value_type = Option<String>)]
    actor: Option<ActorId>,
    /// Only to this resource.
    #[param(value_type = Option<String>)]
    resource: Option<ResourceId>,
    /// Only through this gateway.
    #[param(value_type = Option<String>)]
    gateway: Option<GatewayId>,
    /// Only with this end.
    #[param(inline)]
    end: Option<FlowEnd>,
    /// Only those that ended from this instant on.
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// Only those that ended before this instant.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only with this in the address, the application, or the name of actor, client, resource or gateway,
    /// or with this port or id. At most 200 bytes, taken as they stand, whatever the
    /// case of letters. A page looks at so many entries and no more: it may be short, even empty, and
    /// have a `next_cursor`.
    search: Option<String>,
    /// Only with a larger `seq` than this, in the order of `seq`: for programs that have the rest.
    after: Option<u64>,
}

impl FlowsQuery {
    pub(super) fn filter(&self) -> Result<FlowFilter, Fault> {
        Ok(FlowFilter {
            client: self.client,
            actor: self.actor,
            resource: self.resource,
            gateway: self.gateway,
            end: self.end,
            from: self.from,
            until: self.until,
            after: self.after.map(FlowSeq),
            search: search_text(self.search.as_deref())?,
        })
    }
}

/// Show the flow log
///
/// The newest first: what clients carried to resources and back, once it has ended. It is empty
/// unless `flow_log` of `/retention` is on.
#[utoipa::path(
    get, path = "/log/flows", tag = "log", operation_id = "list_flows",
    params(FlowsQuery),
    responses((status = 200, description = "A page", body = Page<FlowLogEntry>), Problems),
    security(("token" = []))
)]
pub(super) async fn flows(
    Call { service, caller }: Call,
    Query(query): Query<FlowsQuery>,
) -> Result<axum::Json<Page<FlowLogEntry>>, Fault> {
    let request = FlowLogRequest {
        filter: query.filter()?,
        cursor: query.cursor,
        limit: query.limit,
    };
    let page = service.flow_log(&caller, &request).await?;
    Ok(axum::Json(page))
}

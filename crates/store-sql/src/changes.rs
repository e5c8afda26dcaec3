//! The change log of the configuration.

use super::connection::Transaction;
use super::log_query::{LogQuery, Span};
use super::read::last_seq;
use super::value::{Columns, damaged};
use culvert_ids::{AccountId, ActorId, ID_LEN, TokenId};
use culvert_store::{
    Author, Change, ChangeFilter, Entity, EntityId, EntityKind, MAX_CHANGES_READ, Operation, Page,
    PageLimit, Seq, StoreError,
};
use culvert_wire::model::Log;

const CHANGE: &str = "SELECT seq, at_ms, actor_id, token_id, operation, kind, row_id, row_before, \
                      row_after";

pub(super) async fn after(
    connection: &mut Transaction,
    account: AccountId,
    seq: Seq,
    limit: u32,
) -> Result<Vec<Change>, StoreError> {
    last_seq(connection, account).await?;
    let sql =
        format!("{CHANGE} FROM change_log WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?");
    let limit = u64::from(limit.min(MAX_CHANGES_READ));
    let values = vec![account.as_bytes().into(), seq.0.into(), limit.into()];
    let rows = connection.fetch(sql, values).await?;
    rows.iter().map(|row| read_change(account, row)).collect()
}

/// The changes that a filter leaves, for people.
pub(super) fn log_query(
    account: AccountId,
    filter: &ChangeFilter,
    before: Option<Seq>,
) -> LogQuery {
    let conditions = [
        ("kind = ?", filter.kind.map(|kind| kind.as_str().into())),
        ("kind = ?", filter.id.map(|id| id.kind().as_str().into())),
        ("row_id = ?", filter.id.map(Into::into)),
        ("actor_id = ?", filter.actor.map(|id| id.as_bytes().into())),
    ];
    let indexes = [
        ("row_id", "change_log_row"),
        ("actor_id", "change_log_actor"),
        ("kind", "change_log_kind"),
    ];
    let span = Span {
        before: before.map(|seq| seq.0),
        after: filter.after.map(|seq| seq.0),
        from: filter.from,
        until: filter.until,
    };
    LogQuery::new(
        account,
        (Log::Changes, CHANGE),
        span,
        &indexes,
        conditions,
        filter.search,
    )
}

pub(super) async fn query_log(
    connection: &mut Transaction,
    account: AccountId,
    filter: &ChangeFilter,
    before: Option<Seq>,
    limit: PageLimit,
) -> Result<Page<Change, Seq>, StoreError> {
    last_seq(connection, account).await?;
    let query = log_query(account, filter, before);
    let read = |row: Columns<'_>| read_change(account, row);
    let cursor = |change: &Change| change.seq;
    query.page(connection, limit, read, cursor, Seq).await
}

fn read_change(account: AccountId, row: Columns<'_>) -> Result<Change, StoreError> {
    let kind: EntityKind = row.word("kind")?;
    let operation: Operation = row.word("operation")?;
    let entity = |column| -> Result<Option<Entity>, StoreError> {
        let text: Option<&str> = row.get(column)?;
        text.map(|text| Entity::from_json(kind, text).map_err(|error| damaged(column, error)))
            .transpose()
    };
    let actor: Option<[u8; ID_LEN]> = row.optional_bytes("actor_id")?;
    let token: Option<[u8; ID_LEN]> = row.optional_bytes("token_id")?;
    Ok(Change {
        seq: Seq(row.number("seq")?),
        account,
        at: row.time("at_ms")?,
        author: Author {
            actor: actor.map(ActorId::from_bytes),
            token: token.map(TokenId::from_bytes),
            role: None,
        },
        operation,
        id: EntityId::from_bytes(kind, row.bytes("row_id")?),
        before: entity("row_before")?,
        after: entity("row_after")?,
    })
}

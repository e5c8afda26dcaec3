//! The change log of the configuration.

use super::connection::Transaction;
use super::log_query::{LogQuery, Span};
use super::read::last_seq;
use super::value::{Columns, Value, not_read};
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
    let last = last_seq(connection, account).await?;
    if last < seq {
        return Err(StoreError::WentBack {
            known: seq.0,
            last: last.0,
        });
    }
    let known = of_known_kinds();
    let sql = format!(
        "{CHANGE} FROM change_log WHERE account = ? AND seq > ? AND {known} ORDER BY seq LIMIT ?"
    );
    let limit = u64::from(limit.min(MAX_CHANGES_READ));
    let values = vec![account.as_bytes().into(), seq.0.into(), limit.into()];
    let rows = connection.fetch(sql, values).await?;
    let changes = rows.iter().map(|row| read_change(account, row));
    let mut changes = changes.collect::<Result<Vec<_>, _>>()?;
    let mut last = seq;
    for change in &mut changes {
        if change.seq.0 > last.0 + 1 {
            change.skipped = unknown_between(connection, account, (last, change.seq)).await?;
        }
        last = change.seq;
    }
    Ok(changes)
}

/// The condition that leaves out changes of kinds that only a later version of the program knows.
fn of_known_kinds() -> String {
    let kinds = EntityKind::ALL
        .iter()
        .map(|kind| format!("'{}'", kind.as_str()));
    format!("kind IN ({})", kinds.collect::<Vec<_>>().join(", "))
}

/// The number of changes between two that are of kinds which this version does not know.
async fn unknown_between(
    connection: &mut Transaction,
    account: AccountId,
    (after, before): (Seq, Seq),
) -> Result<u64, StoreError> {
    let known = of_known_kinds();
    let sql = format!(
        "SELECT count(*) AS changes FROM change_log WHERE account = ? AND seq > ? AND seq < ? AND NOT ({known})"
    );
    let values: Vec<Value> = vec![account.as_bytes().into(), after.0.into(), before.0.into()];
    let row = connection.fetch_one(sql, values).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
    row.columns().number("changes")
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
    .only(&of_known_kinds())
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
        let read = |text| Entity::from_json(kind, text);
        let entity = text.map(read).transpose();
        entity.map_err(|error| not_read(column, &error))
    };
    let actor: Option<[u8; ID_LEN]> = row.optional_bytes("actor_id")?;
    let token: Option<[u8; ID_LEN]> = row.optional_bytes("token_id")?;
    Ok(Change {
        seq: Seq(row.number("seq")?),
        skipped: 0,
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

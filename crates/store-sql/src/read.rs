//! Reading the configuration.

use super::connection::Transaction;
use super::table;
use super::value::{Value, places};
use culvert_ids::{AccountId, GroupId};
use culvert_store::{
    Account, Actor, Client, Entity, EntityId, EntityKind, Gateway, Group, MAX_BATCH,
    MAX_ROWS_PER_KIND, Membership, Page, PageLimit, Policy, Relay, Resource, Seq, Site, Snapshot,
    StoreError, Token,
};
use culvert_wire::model::Log;
use std::collections::BTreeMap;

/// The last change of an account, which must exist.
pub(super) async fn last_seq(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<Seq, StoreError> {
    let sql = "SELECT last_seq FROM account WHERE account = ?";
    let row = connection
        .fetch_one(sql, vec![account.as_bytes().into()])
        .await?;
    let row = row.ok_or(StoreError::NoAccount)?;
    row.columns().number("last_seq").map(Seq)
}

/// The numbers of the last entries.
pub(super) async fn log_ends(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<BTreeMap<Log, u64>, StoreError> {
    let sql = "SELECT last_seq, last_access, last_flow FROM account WHERE account = ?";
    let rows = connection
        .fetch(sql, vec![account.as_bytes().into()])
        .await?;
    let row = rows.first().ok_or(StoreError::NoAccount)?;
    Ok(BTreeMap::from([
        (Log::Access, row.number("last_access")?),
        (Log::Changes, row.number("last_seq")?),
        (Log::Flows, row.number("last_flow")?),
    ]))
}

pub(super) async fn check_exists(
    connection: &mut Transaction,
    account: AccountId,
    id: EntityId,
) -> Result<(), StoreError> {
    let table = table::table(id.kind());
    let sql = format!("SELECT id FROM {table} WHERE account = ? AND id = ?");
    let values = vec![account.as_bytes().into(), id.into()];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|_| ()).ok_or(StoreError::NotFound(id))
}

pub(super) async fn find(
    connection: &mut Transaction,
    account: AccountId,
    id: EntityId,
) -> Result<Option<Entity>, StoreError> {
    let sql = format!("{} WHERE account = ? AND id = ?", table::select(id.kind()));
    let values = vec![account.as_bytes().into(), id.into()];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|row| table::read(id.kind(), row.columns()))
        .transpose()
}

pub(super) async fn get(
    connection: &mut Transaction,
    account: AccountId,
    id: EntityId,
) -> Result<Entity, StoreError> {
    find(connection, account, id)
        .await?
        .ok_or(StoreError::NotFound(id))
}

/// The names of rows, by one statement for each kind.
pub(super) async fn names(
    connection: &mut Transaction,
    account: AccountId,
    ids: &[EntityId],
) -> Result<BTreeMap<EntityId, String>, StoreError> {
    if ids.len() > MAX_BATCH {
        return Err(StoreError::TooMany {
            what: "names at once",
            limit: MAX_BATCH as u64,
        });
    }
    last_seq(connection, account).await?;
    let mut by_kind: BTreeMap<EntityKind, Vec<Value>> = BTreeMap::new();
    for id in ids {
        by_kind.entry(id.kind()).or_default().push((*id).into());
    }
    let mut names = BTreeMap::new();
    for (kind, mut values) in by_kind {
        if !has_name(kind) {
            continue;
        }
        let wanted = vec!["?"; values.len()].join(", ");
        let table = table::table(kind);
        let sql = format!("SELECT id, name FROM {table} WHERE account = ? AND id IN ({wanted})");
        values.insert(0, account.as_bytes().into());
        for row in connection.fetch(sql, values).await?.iter() {
            let id = EntityId::from_bytes(kind, row.bytes("id")?);
            names.insert(id, row.text("name")?);
        }
    }
    Ok(names)
}

pub(super) async fn member_counts(
    connection: &mut Transaction,
    account: AccountId,
    groups: &[GroupId],
) -> Result<BTreeMap<GroupId, u64>, StoreError> {
    if groups.len() > MAX_BATCH {
        return Err(StoreError::TooMany {
            what: "groups at once",
            limit: MAX_BATCH as u64,
        });
    }
    last_seq(connection, account).await?;
    let mut counts = BTreeMap::new();
    // An empty list in a statement is SQLite's alone.
    if groups.is_empty() {
        return Ok(counts);
    }
    let (sql, values) = member_counts_statement(account, groups);
    for row in connection.fetch(sql, values).await?.iter() {
        let group = GroupId::from_bytes(row.bytes("group_id")?);
        counts.insert(group, row.number("members")?);
    }
    Ok(counts)
}

/// The statement that counts members, and its values.
pub(super) fn member_counts_statement(
    account: AccountId,
    groups: &[GroupId],
) -> (String, Vec<Value>) {
    let wanted = places(groups.len());
    let sql = format!(
        "SELECT group_id, count(*) AS members FROM membership \
         WHERE account = ? AND group_id IN ({wanted}) GROUP BY group_id"
    );
    let groups = groups.iter().map(|group| group.as_bytes().into());
    let values = std::iter::once(account.as_bytes().into()).chain(groups);
    (sql, values.collect())
}

/// True if rows of the kind have a name.
pub(super) const fn has_name(kind: EntityKind) -> bool {
    !matches!(kind, EntityKind::Membership | EntityKind::Identity)
}

pub(super) async fn accounts(
    connection: &mut Transaction,
    after: Option<AccountId>,
    limit: PageLimit,
) -> Result<Page<Account, AccountId>, StoreError> {
    let select = table::select(EntityKind::Account);
    let sql = format!("{select} WHERE account > ? ORDER BY account LIMIT ?");
    let after = after.map_or(Value::BEFORE_ALL_IDS, |id| id.as_bytes().into());
    let rows = connection.fetch(sql, vec![after, one_more(limit)]).await?;
    let rows = rows.iter().map(table::read_as::<Account>);
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Page::cut(rows, limit, |account: &Account| account.id))
}

pub(super) async fn is_set_up(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<bool, StoreError> {
    last_seq(connection, account).await?;
    let sql = "SELECT id FROM actor WHERE account = ? AND kind = 'admin' AND disabled = 0 LIMIT 1";
    let row = connection
        .fetch_one(sql, vec![account.as_bytes().into()])
        .await?;
    Ok(row.is_some())
}

/// One row more than a page takes, which says that there is another page.
pub(super) fn one_more(limit: PageLimit) -> Value {
    (u64::from(limit.rows()) + 1).into()
}

pub(super) async fn snapshot(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<Snapshot, StoreError> {
    let seq = last_seq(connection, account).await?;
    let mut accounts = all::<Account>(connection, account).await?;
    Ok(Snapshot {
        seq,
        account: accounts.pop().ok_or(StoreError::NoAccount)?,
        actors: all::<Actor>(connection, account).await?,
        groups: all::<Group>(connection, account).await?,
        memberships: all::<Membership>(connection, account).await?,
        sites: all::<Site>(connection, account).await?,
        resources: all::<Resource>(connection, account).await?,
        policies: all::<Policy>(connection, account).await?,
        tokens: all::<Token>(connection, account).await?,
        clients: all::<Client>(connection, account).await?,
        gateways: all::<Gateway>(connection, account).await?,
        relays: all::<Relay>(connection, account).await?,
    })
}

async fn all<T: table::Table>(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<Vec<T>, StoreError> {
    let select = table::select(T::KIND);
    let sql = format!("{select} WHERE account = ? ORDER BY id LIMIT ?");
    let limit = u64::from(MAX_ROWS_PER_KIND) + 1;
    let values = vec![account.as_bytes().into(), limit.into()];
    let rows = connection.fetch(sql, values).await?;
    if rows.len() as u64 == limit {
        return Err(StoreError::corrupt(format_args!(
            "more than {MAX_ROWS_PER_KIND} rows of kind {}",
            T::KIND
        )));
    }
    rows.iter().map(table::read_as).collect()
}

pub(super) async fn ping(connection: &mut Transaction) -> Result<(), StoreError> {
    connection
        .fetch_one("SELECT count(*) FROM account", Vec::new())
        .await?;
    Ok(())
}

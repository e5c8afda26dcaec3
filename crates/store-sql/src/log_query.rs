//! A page of a log, the newest first, and what of it holds a text.
//!
//! A search reads the rows one after another. Names and ids lie apart from the log, and a search
//! must find parts of words, so a full-text index would answer another question (docs/adr/0023).
//! Its cost is bounded instead: a page looks at a limited number of rows, and says where the next
//! one goes on.

use super::connection::Transaction;
use super::dialect::Dialect;
use super::read::one_more;
use super::value::{Columns, Value};
use culvert_ids::{AccountId, GrantId};
use culvert_store::rules::lookup_keys;
use culvert_store::{EntityId, Page, PageLimit, SearchText, StoreError};
use culvert_wire::model::Log;

/// Rows of the access log and of the flow log that a page of a search looks at. They take some 200
/// bytes, so a page reads 20 MB: in 55 ms on a machine of 2026, where nothing is found.
pub(super) const SEARCHED_ROWS: u64 = 100_000;

/// The same of the change log, whose rows hold the state before and after in a kilobyte or more. It
/// takes 20 ms, and 130 ms for a text that all rows have as the name of a field.
pub(super) const SEARCHED_CHANGES: u64 = 10_000;

/// Tables of things that have names.
const NAMED: [&str; 9] = [
    "actor",
    "actor_group",
    "site",
    "resource",
    "policy",
    "token",
    "client",
    "gateway",
    "provider",
];

/// Rows of a log that are wanted.
pub(super) struct LogQuery {
    account: AccountId,
    log: Log,
    /// The columns: `SELECT …`
    select: &'static str,
    /// The index of the log that leads to the rows, if one is better than the order of their numbers.
    index: Option<&'static str>,
    conditions: String,
    values: Vec<Value>,
    search: Option<SearchText>,
}

impl LogQuery {
    /// Those that meet all conditions which have a value. `indexes` has columns with an index of the account, the column
    /// and the number: the first that a condition names is taken. The planner may take the primary key instead, whose
    /// order fits, and would read the log until it has found enough.
    pub(super) fn new<const N: usize>(
        account: AccountId,
        log: Log,
        select: &'static str,
        indexes: &[(&str, &'static str)],
        conditions: [(&str, Option<Value>); N],
        search: Option<SearchText>,
    ) -> Self {
        let mut sql = String::new();
        let mut values = vec![account.as_bytes().into()];
        let is_asked = |column: &str| {
            let of_column = |(condition, value): &(&str, Option<Value>)| {
                value.is_some() && condition.strip_suffix(" = ?") == Some(column)
            };
            conditions.iter().any(of_column)
        };
        let index = indexes.iter().find(|(column, _)| is_asked(column));
        let index = index.map(|(_, index)| *index);
        add_conditions(&mut sql, &mut values, conditions);
        Self {
            account,
            log,
            select,
            index,
            conditions: sql,
            values,
            search,
        }
    }

    /// The page, and where the next one begins.
    pub(super) async fn page<T, C>(
        &self,
        connection: &mut Transaction,
        limit: PageLimit,
        read: impl Fn(Columns<'_>) -> Result<T, StoreError>,
        cursor: impl Fn(&T) -> C,
        place: impl Fn(u64) -> C,
    ) -> Result<Page<T, C>, StoreError> {
        let last = match self.search {
            Some(_) => self.last_searched(connection).await?,
            None => None,
        };
        let (sql, values) = self.statement(connection.dialect(), last, limit);
        let rows = connection.fetch(sql, values).await?;
        let rows = rows.iter().map(read);
        let mut page = Page::cut(rows.collect::<Result<_, _>>()?, limit, cursor);
        page.next = page.next.or(last.map(place));
        Ok(page)
    }

    /// The log, its index, and the first condition.
    fn rows(&self, dialect: Dialect) -> String {
        let index = self.index.map(|index| dialect.indexed_by(index));
        let (table, index) = (table(self.log), index.unwrap_or_default());
        format!("{table}{index} WHERE account = ?")
    }

    /// The statement that reads them, and its values.
    pub(super) fn statement(
        &self,
        dialect: Dialect,
        last: Option<u64>,
        limit: PageLimit,
    ) -> (String, Vec<Value>) {
        let mut sql = format!(
            "{} FROM {}{}",
            self.select,
            self.rows(dialect),
            self.conditions
        );
        let mut values = self.values.clone();
        if let Some(last) = last {
            sql.push_str(" AND seq >= ?");
            values.push(last.into());
        }
        if let Some(text) = self.search {
            self.add_search(dialect, &mut sql, &mut values, text.as_str());
        }
        sql.push_str(" ORDER BY seq DESC LIMIT ?");
        values.push(one_more(limit));
        (sql, values)
    }

    /// The last row that this page looks at; none where it comes to the end.
    async fn last_searched(&self, connection: &mut Transaction) -> Result<Option<u64>, StoreError> {
        let (sql, values) = self.last_statement(connection.dialect());
        let rows = connection.fetch(sql, values).await?;
        let last = rows.first().map(|row| row.number("seq"));
        last.transpose()
    }

    pub(super) fn last_statement(&self, dialect: Dialect) -> (String, Vec<Value>) {
        let rows = match self.log {
            Log::Access | Log::Flows => SEARCHED_ROWS,
            Log::Changes => SEARCHED_CHANGES,
        };
        let sql = format!(
            "SELECT seq FROM {}{} ORDER BY seq DESC LIMIT 1 OFFSET ?",
            self.rows(dialect),
            self.conditions
        );
        let mut values = self.values.clone();
        values.push((rows - 1).into());
        (sql, values)
    }

    fn add_search(&self, dialect: Dialect, sql: &mut String, values: &mut Vec<Value>, text: &str) {
        sql.push_str(" AND (");
        // As `lower` of SQLite has it, which knows no other letters.
        let lower = text.to_ascii_lowercase();
        match self.log {
            Log::Access => {
                sql.push_str(&dialect.contains("lower(reason)"));
                values.push(lower.into());
                self.add_parties(dialect, sql, values, text);
                self.add_id(sql, values, text, "policy_id, grant_id, ");
            }
            Log::Flows => {
                let [address, application] =
                    ["address", "application"].map(|of| dialect.contains(of));
                sql.push_str(&format!("{address} OR {application}"));
                values.extend([lower.clone().into(), lower.into()]);
                if let Ok(port) = text.parse::<u16>() {
                    sql.push_str(" OR port = ?");
                    values.push(u64::from(port).into());
                }
                self.add_parties(dialect, sql, values, text);
                self.add_id(sql, values, text, "grant_id, ");
            }
            Log::Changes => {
                self.add_named(dialect, (sql, values), text, "actor_id", &["actor"]);
                sql.push_str(" OR ");
                self.add_named(dialect, (sql, values), text, "row_id", &NAMED);
                for column in ["row_before", "row_after"] {
                    sql.push_str(" OR ");
                    add_in_json(dialect, sql, values, column, &lower);
                }
                if let Some(id) = id_bytes(text) {
                    sql.push_str(" OR ? IN (row_id, actor_id, token_id)");
                    values.push(id);
                }
            }
        }
        sql.push(')');
    }

    /// Those whose client, actor, resource or gateway has the text in its name.
    fn add_parties(&self, dialect: Dialect, sql: &mut String, values: &mut Vec<Value>, text: &str) {
        for (column, table) in [
            ("client_id", "client"),
            ("actor_id", "actor"),
            ("resource_id", "resource"),
            ("gateway_id", "gateway"),
        ] {
            sql.push_str(" OR ");
            self.add_named(dialect, (sql, values), text, column, &[table]);
        }
    }

    fn add_named(
        &self,
        dialect: Dialect,
        (sql, values): (&mut String, &mut Vec<Value>),
        text: &str,
        column: &str,
        tables: &[&str],
    ) {
        let keys = lookup_keys(text);
        let any = vec![dialect.contains("name_key"); keys.len()].join(" OR ");
        let named = |table: &&str| format!("SELECT id FROM {table} WHERE account = ? AND ({any})");
        let named: Vec<_> = tables.iter().map(named).collect();
        sql.push_str(&format!("{column} IN ({})", named.join(" UNION ALL ")));
        for _ in tables {
            values.push(self.account.as_bytes().into());
            values.extend(keys.iter().cloned().map(Value::from));
        }
    }

    fn add_id(&self, sql: &mut String, values: &mut Vec<Value>, text: &str, others: &str) {
        if let Some(id) = id_bytes(text) {
            let parties = "client_id, actor_id, resource_id, gateway_id";
            sql.push_str(&format!(" OR ? IN ({others}{parties})"));
            values.push(id);
        }
    }
}

/// Appends those conditions that have a value.
fn add_conditions<const N: usize>(
    sql: &mut String,
    values: &mut Vec<Value>,
    conditions: [(&str, Option<Value>); N],
) {
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        }
    }
}

const fn table(log: Log) -> &'static str {
    match log {
        Log::Access => "access_log",
        Log::Changes => "change_log",
        Log::Flows => "flow_log",
    }
}

/// A whole id of anything that logs name.
fn id_bytes(text: &str) -> Option<Value> {
    let entity = text.parse::<EntityId>().map(Value::from);
    entity
        .or_else(|_| text.parse::<GrantId>().map(|id| id.as_bytes().into()))
        .ok()
}

/// Those that have the text in a value of the row: the names of fields are the same in all rows, and
/// versions and instants count nothing.
fn add_in_json(
    dialect: Dialect,
    sql: &mut String,
    values: &mut Vec<Value>,
    column: &str,
    lower: &str,
) {
    // As it stands in JSON, without the quotes around it.
    let written = serde_json::Value::from(lower).to_string();
    let written = written[1..written.len() - 1].to_owned();
    sql.push_str(&dialect.json_contains(column, "('version', 'created', 'updated')"));
    values.extend([
        written.into(),
        lower.to_owned().into(),
        lower.to_owned().into(),
    ]);
}

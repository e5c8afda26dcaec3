//! A page of a log, the newest first, and what of it holds a text.
//!
//! The order is that of time, and of numbers where times are equal. Each index of a log has its column, the time and the
//! number: it leads to the entries about a thing before a time, in their order. A page of what came after a number
//! has the order of numbers, which is nearly the same.
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
use culvert_wire::Timestamp;
use culvert_wire::model::Log;

/// Rows of the access log and of the flow log that a page of a search looks at. They take some 200 bytes, so a page reads
/// 10 MB where nothing is found: within the 100 ms that a page may take (`culvert-bench console`).
pub(super) const SEARCHED_ROWS: u64 = 50_000;

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

/// The part of a log that is looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    /// Behind the entry of that number, in the order of the page.
    pub(super) before: Option<u64>,
    /// With a larger number.
    pub(super) after: Option<u64>,
    /// At this time or later.
    pub(super) from: Option<Timestamp>,
    /// Before this time.
    pub(super) until: Option<Timestamp>,
}

/// A place in the order of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) at: Timestamp,
    pub(super) seq: u64,
}

/// Rows of a log that are wanted.
pub(super) struct LogQuery {
    account: AccountId,
    log: Log,
    /// The columns: `SELECT …`
    select: &'static str,
    /// The index of the log that leads to the rows.
    index: &'static str,
    span: Span,
    conditions: String,
    values: Vec<Value>,
    search: Option<SearchText>,
}

impl LogQuery {
    /// Those of the span that meet all conditions which have a value. `indexes` has columns with an index of the
    /// account, the column, the time and the number: the first that a condition names is taken. The planner
    /// may take another whose order fits, and would read the log until it has found enough.
    pub(super) fn new<const N: usize>(
        account: AccountId,
        (log, select): (Log, &'static str),
        span: Span,
        indexes: &[(&str, &'static str)],
        conditions: [(&str, Option<Value>); N],
        search: Option<SearchText>,
    ) -> Self {
        let is_asked = |column: &str| {
            let of_column = |(condition, value): &(&str, Option<Value>)| {
                value.is_some() && condition.strip_suffix(" = ?") == Some(column)
            };
            conditions.iter().any(of_column)
        };
        let index = indexes.iter().find(|(column, _)| is_asked(column));
        let index = index.map_or(by_time(log), |(_, index)| *index);
        let (mut sql, mut values) = (String::new(), Vec::new());
        add_conditions(&mut sql, &mut values, conditions);
        Self {
            account,
            log,
            select,
            index,
            span,
            conditions: sql,
            values,
            search,
        }
    }

    /// Those of them that meet one more condition, of constants alone.
    pub(super) fn only(mut self, condition: &str) -> Self {
        self.conditions.push_str(" AND ");
        self.conditions.push_str(condition);
        self
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
        let before = match self.span.before {
            Some(seq) => Some(self.place_of(connection, seq).await?),
            None => None,
        };
        let last = match self.search {
            Some(_) => self.last_searched(connection, before).await?,
            None => None,
        };
        let (sql, values) = self.statement(connection.dialect(), before, last, limit);
        let rows = connection.fetch(sql, values).await?;
        let rows = rows.iter().map(read);
        let mut page = Page::cut(rows.collect::<Result<_, _>>()?, limit, cursor);
        page.next = page.next.or(last.map(|last| place(last.seq)));
        Ok(page)
    }

    /// The place of an entry, or of the last one before it that is still there.
    async fn place_of(&self, connection: &mut Transaction, seq: u64) -> Result<Place, StoreError> {
        let table = table(self.log);
        let sql = format!(
            "SELECT at_ms FROM {table} WHERE account = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
        );
        let values = vec![self.account.as_bytes().into(), seq.into()];
        let rows = connection.fetch(sql, values).await?;
        let at = rows.first().map(|row| row.time("at_ms")).transpose()?;
        Ok(Place {
            at: at.unwrap_or(Timestamp::from_unix_ms(0)),
            seq,
        })
    }

    /// True if the rows come in the order of their numbers.
    const fn is_by_number(&self) -> bool {
        self.span.after.is_some()
    }

    /// The log, its index, and all conditions but those of the search, with their values.
    fn rows(&self, dialect: Dialect, before: Option<Place>) -> (String, Vec<Value>) {
        let Span {
            after, from, until, ..
        } = self.span;
        let mut values = vec![self.account.as_bytes().into()];
        let index = match self.is_by_number() {
            true => dialect.by_primary_key().to_owned(),
            false => dialect.indexed_by(self.index),
        };
        let mut sql = format!("{}{index} WHERE account = ?", table(self.log));
        sql.push_str(&self.conditions);
        values.extend(self.values.iter().cloned());
        if self.is_by_number() {
            let conditions = [
                ("seq > ?", after.map(Value::from)),
                ("seq < ?", before.map(|place| place.seq.into())),
                ("at_ms < ?", until.map(Value::from)),
            ];
            add_conditions(&mut sql, &mut values, conditions);
        } else {
            // One bound: the database reads from there on, and not from the weaker one of two.
            let end = until.map(|at| Place { at, seq: 0 });
            if let Some(place) = [before, end].into_iter().flatten().min() {
                sql.push_str(" AND (at_ms, seq) < (?, ?)");
                values.extend([place.at.into(), place.seq.into()]);
            }
        }
        add_conditions(
            &mut sql,
            &mut values,
            [("at_ms >= ?", from.map(Value::from))],
        );
        (sql, values)
    }

    const fn order(&self) -> &'static str {
        match self.is_by_number() {
            true => " ORDER BY seq DESC",
            false => " ORDER BY at_ms DESC, seq DESC",
        }
    }

    /// The statement that reads them, and its values.
    pub(super) fn statement(
        &self,
        dialect: Dialect,
        before: Option<Place>,
        last: Option<Place>,
        limit: PageLimit,
    ) -> (String, Vec<Value>) {
        let (rows, mut values) = self.rows(dialect, before);
        let mut sql = format!("{} FROM {rows}", self.select);
        if let Some(last) = last {
            match self.is_by_number() {
                true => sql.push_str(" AND seq >= ?"),
                false => {
                    sql.push_str(" AND (at_ms, seq) >= (?, ?)");
                    values.push(last.at.into());
                }
            }
            values.push(last.seq.into());
        }
        if let Some(text) = self.search {
            self.add_search(dialect, &mut sql, &mut values, text.as_str());
        }
        sql.push_str(self.order());
        sql.push_str(" LIMIT ?");
        values.push(one_more(limit));
        (sql, values)
    }

    /// The last row that this page looks at; none where it comes to the end.
    async fn last_searched(
        &self,
        connection: &mut Transaction,
        before: Option<Place>,
    ) -> Result<Option<Place>, StoreError> {
        let (sql, values) = self.last_statement(connection.dialect(), before);
        let rows = connection.fetch(sql, values).await?;
        let place = |row: Columns<'_>| -> Result<Place, StoreError> {
            Ok(Place {
                at: row.time("at_ms")?,
                seq: row.number("seq")?,
            })
        };
        rows.first().map(place).transpose()
    }

    pub(super) fn last_statement(
        &self,
        dialect: Dialect,
        before: Option<Place>,
    ) -> (String, Vec<Value>) {
        let looked_at = match self.log {
            Log::Access | Log::Flows => SEARCHED_ROWS,
            Log::Changes => SEARCHED_CHANGES,
        };
        let (rows, mut values) = self.rows(dialect, before);
        let order = self.order();
        let sql = format!("SELECT at_ms, seq FROM {rows}{order} LIMIT 1 OFFSET ?");
        values.push((looked_at - 1).into());
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

/// The index of a log of all entries.
const fn by_time(log: Log) -> &'static str {
    match log {
        Log::Access => "access_log_at",
        Log::Changes => "change_log_at",
        Log::Flows => "flow_log_at",
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

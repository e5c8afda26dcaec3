//! Lists of the rows of a kind: filters, orders and places.

use super::connection::Transaction;
use super::dialect::Dialect;
use super::read::{check_exists, has_name, last_seq, one_more};
use super::table::{self, table};
use super::value::{Value, json, places};
use culvert_ids::AccountId;
use culvert_store::rules::{self, lookup_keys};
use culvert_store::{
    Entity, EntityId, EntityKind, Found, ListFilter, Order, OrderBy, Page, PageLimit, Part,
    Position, StoreError,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The statement that lists rows, and its values.
pub(super) fn list_statement(
    dialect: Dialect,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    after: Option<EntityId>,
    limit: PageLimit,
) -> Result<(String, Vec<Value>), StoreError> {
    // The planner takes the primary key, whose order fits, and would read every resource of the account.
    let to_site = |to: &EntityId| to.kind() == EntityKind::Site;
    let index = match &filter.target {
        Some(_) if filter.refers_to.iter().any(to_site) => dialect.indexed_by("resource_target"),
        _ => String::new(),
    };
    let select = table::select(kind);
    let after = after.map_or(Value::BEFORE_ALL_IDS, Value::from);
    let mut question = Question {
        dialect,
        account,
        kind,
        sql: format!("{select}{index} WHERE account = ? AND id > ?"),
        values: vec![account.as_bytes().into(), after],
    };
    question.add(filter)?;
    question.sql.push_str(" ORDER BY id LIMIT ?");
    question.values.push(one_more(limit));
    Ok((question.sql, question.values))
}

/// The statements that count rows and read them in an order of their own, each with its values.
pub(super) fn ordered_statements(
    dialect: Dialect,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    position: Position,
    limit: PageLimit,
) -> Result<[(String, Vec<Value>); 2], StoreError> {
    let index = index(dialect, kind, filter, position.order);
    let mut question = Question {
        dialect,
        account,
        kind,
        sql: format!("{index} WHERE account = ?"),
        values: vec![account.as_bytes().into()],
    };
    question.add(filter)?;
    let order = order(kind, position.order)?;
    let (condition, values) = (question.sql, question.values);
    let count = format!("SELECT count(*) AS total FROM {}{condition}", table(kind));
    let select = table::select(kind);
    let rows = format!("{select}{condition} ORDER BY {order} LIMIT ? OFFSET ?");
    let mut of_rows = values.clone();
    of_rows.push(u64::from(limit.rows()).into());
    of_rows.push(position.skipped.into());
    Ok([(count, values), (rows, of_rows)])
}

/// The index of what the rows belong to. The planner may take the primary key, whose order fits, and would read every
/// row of the account. Rows in the order of their names have an index of that order.
fn index(dialect: Dialect, kind: EntityKind, filter: &ListFilter, order: Order) -> String {
    let column = match (filter.of_actor, &*filter.refers_to) {
        (Some(_), _) => Some("group_id"),
        (None, [to]) if order.by != OrderBy::Name => rules::column_to(kind, to.kind()),
        (None, _) => None,
    };
    match column {
        // Identities of a provider are in the order of their subjects.
        Some("provider_id") | None => String::new(),
        Some(column) => {
            let of = column.trim_end_matches("_id");
            dialect.indexed_by(&format!("{}_{of}", table(kind)))
        }
    }
}

/// The columns behind `ORDER BY`. Rows that were never seen come before all others.
fn order(kind: EntityKind, order: Order) -> Result<String, StoreError> {
    let wrong = |reason: String| StoreError::Invalid {
        kind,
        field: "sort",
        reason,
    };
    let direction = if order.is_descending { "DESC" } else { "ASC" };
    let mut nulls = "";
    let column = match order.by {
        OrderBy::Created => return Ok(format!("id {direction}")),
        OrderBy::Name if has_name(kind) => "name_key".to_owned(),
        OrderBy::Name => return Err(wrong(format!("a {kind} has no name"))),
        OrderBy::Seen => match kind {
            EntityKind::Client | EntityKind::Gateway | EntityKind::Relay => {
                "coalesce(seen_ms, 0)".to_owned()
            }
            EntityKind::Token => "coalesce(last_used_ms, 0)".to_owned(),
            _ => return Err(wrong(format!("a {kind} is never seen"))),
        },
        OrderBy::Holder => {
            let Some((column, holder)) = holder(kind) else {
                return Err(wrong(format!("a {kind} belongs to nothing")));
            };
            let (own, other) = (table(kind), table(holder));
            // Rows that belong to nothing come first, as SQLite has it where nothing is said.
            nulls = if order.is_descending {
                " NULLS LAST"
            } else {
                " NULLS FIRST"
            };
            format!(
                "(SELECT held.name_key FROM {other} held \
                 WHERE held.account = {own}.account AND held.id = {own}.{column})"
            )
        }
    };
    Ok(format!("{column} {direction}{nulls}, id"))
}

/// The column of what a row belongs to, and its kind.
const fn holder(kind: EntityKind) -> Option<(&'static str, EntityKind)> {
    match kind {
        EntityKind::Client | EntityKind::Token | EntityKind::Identity => {
            Some(("actor_id", EntityKind::Actor))
        }
        EntityKind::Resource | EntityKind::Gateway => Some(("site_id", EntityKind::Site)),
        EntityKind::Policy => Some(("resource_id", EntityKind::Resource)),
        EntityKind::Account
        | EntityKind::Actor
        | EntityKind::Group
        | EntityKind::Membership
        | EntityKind::Site
        | EntityKind::Provider
        | EntityKind::Relay => None,
    }
}

/// A statement that becomes longer, with its values.
pub(super) struct Question {
    pub(super) dialect: Dialect,
    pub(super) account: AccountId,
    pub(super) kind: EntityKind,
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Question {
    fn invalid(&self, field: &'static str, reason: String) -> StoreError {
        StoreError::Invalid {
            kind: self.kind,
            field,
            reason,
        }
    }

    pub(super) fn add(&mut self, filter: &ListFilter) -> Result<(), StoreError> {
        if filter.name.is_some() || filter.name_contains.is_some() {
            self.add_names(filter)?;
        }
        if let Some(text) = &filter.text {
            self.add_text(text)?;
        }
        for to in &filter.refers_to {
            let Some(column) = rules::column_to(self.kind, to.kind()) else {
                let reason = format!("a {} refers to no {}", self.kind, to.kind());
                return Err(self.invalid("refers_to", reason));
            };
            self.sql.push_str(&format!(" AND {column} = ?"));
            self.values.push((*to).into());
        }
        if let Some(actor) = &filter.of_actor {
            if self.kind != EntityKind::Policy {
                let reason = format!("a {} is for no actor", self.kind);
                return Err(self.invalid("of_actor", reason));
            }
            let index = self.dialect.indexed_by("membership_actor");
            self.sql.push_str(&format!(
                " AND group_id IN (SELECT group_id FROM membership{index} \
                 WHERE account = ? AND actor_id = ?)",
            ));
            self.values.push(self.account.as_bytes().into());
            self.values.push(actor.as_bytes().into());
        }
        if let Some(target) = &filter.target {
            if self.kind != EntityKind::Resource {
                let reason = format!("a {} has no address", self.kind);
                return Err(self.invalid("target", reason));
            }
            self.sql.push_str(" AND target = ?");
            self.values.push(json(target)?);
        }
        for part in &filter.parts {
            if part.kind() != self.kind {
                let reason = format!("{part:?} are no rows of kind {}", self.kind);
                return Err(self.invalid("part", reason));
            }
            self.sql.push_str(" AND ");
            self.sql.push_str(condition_of(*part));
        }
        self.add_ids(filter)?;
        self.add_software(filter)
    }

    fn add_ids(&mut self, filter: &ListFilter) -> Result<(), StoreError> {
        let Some(ids) = &filter.ids else {
            return Ok(());
        };
        if ids.iter().any(|id| id.kind() != self.kind) {
            let reason = format!("one is not of a {}", self.kind);
            return Err(self.invalid("ids", reason));
        }
        self.add_any_of("id", ids.iter().map(|id| (*id).into()).collect());
        Ok(())
    }

    fn add_software(&mut self, filter: &ListFilter) -> Result<(), StoreError> {
        let Some(versions) = &filter.software else {
            return Ok(());
        };
        let runs_some = matches!(
            self.kind,
            EntityKind::Client | EntityKind::Gateway | EntityKind::Relay
        );
        if !runs_some {
            let reason = format!("a {} runs none", self.kind);
            return Err(self.invalid("software", reason));
        }
        let versions = versions.iter().map(|version| version.as_str().into());
        self.add_any_of("seen_software", versions.collect());
        Ok(())
    }

    fn add_any_of(&mut self, column: &str, values: Vec<Value>) {
        match values.is_empty() {
            true => self.sql.push_str(" AND 1 = 0"),
            false => {
                let wanted = places(values.len());
                self.sql.push_str(&format!(" AND {column} IN ({wanted})"));
            }
        }
        self.values.extend(values);
    }

    fn add_names(&mut self, filter: &ListFilter) -> Result<(), StoreError> {
        if !has_name(self.kind) {
            return Err(self.invalid("name", "it has none".to_owned()));
        }
        if let Some(name) = &filter.name {
            add_name(&mut self.sql, &mut self.values, name);
        }
        if let Some(part) = &filter.name_contains {
            let (sql, values) = contains(self.dialect, "name_key", &lookup_keys(part));
            self.sql.push_str(&format!(" AND ({sql})"));
            self.values.extend(values);
        }
        Ok(())
    }

    /// Rows that have the text in one of the columns that people see.
    fn add_text(&mut self, text: &str) -> Result<(), StoreError> {
        let keys = lookup_keys(text);
        let mut any: Vec<(String, Vec<Value>)> = Vec::new();
        if has_name(self.kind) {
            any.push(contains(self.dialect, "name_key", &keys));
        }
        for column in texts(self.kind) {
            any.push(contains(self.dialect, &format!("lower({column})"), &keys));
        }
        if self.kind == EntityKind::Resource {
            let address = self.dialect.json_text("target", "address");
            any.push(contains(self.dialect, &format!("lower({address})"), &keys));
        }
        for (column, other) in named_by(self.kind) {
            let (condition, values) = contains(self.dialect, "name_key", &keys);
            let other = table(*other);
            let sql =
                format!("{column} IN (SELECT id FROM {other} WHERE account = ? AND ({condition}))");
            let account = Value::from(self.account.as_bytes());
            any.push((sql, std::iter::once(account).chain(values).collect()));
        }
        if matches!(self.kind, EntityKind::Client | EntityKind::Gateway) {
            any.extend(addresses(text));
        }
        if any.is_empty() {
            let reason = format!("a {} has no text to look for", self.kind);
            return Err(self.invalid("search", reason));
        }
        let conditions: Vec<&str> = any.iter().map(|(sql, _)| &**sql).collect();
        self.sql
            .push_str(&format!(" AND ({})", conditions.join(" OR ")));
        self.values
            .extend(any.into_iter().flat_map(|(_, values)| values));
        Ok(())
    }
}

/// The condition that a column has one of the keys in it.
fn contains(dialect: Dialect, column: &str, keys: &[String]) -> (String, Vec<Value>) {
    let each = vec![dialect.contains(column); keys.len()];
    let values = keys.iter().map(|key| key.as_str().into());
    (each.join(" OR "), values.collect())
}

/// Columns of texts besides the name that people know a row by.
const fn texts(kind: EntityKind) -> &'static [&'static str] {
    match kind {
        EntityKind::Client | EntityKind::Gateway => &["seen_address", "seen_software"],
        EntityKind::Relay => &["addresses", "seen_address", "seen_software"],
        EntityKind::Provider => &["issuer"],
        EntityKind::Identity => &["subject"],
        EntityKind::Account
        | EntityKind::Actor
        | EntityKind::Group
        | EntityKind::Membership
        | EntityKind::Site
        | EntityKind::Resource
        | EntityKind::Policy
        | EntityKind::Token => &[],
    }
}

/// Columns of things whose names a list shows, with their kinds.
const fn named_by(kind: EntityKind) -> &'static [(&'static str, EntityKind)] {
    match kind {
        EntityKind::Resource | EntityKind::Gateway => &[("site_id", EntityKind::Site)],
        EntityKind::Policy => &[
            ("group_id", EntityKind::Group),
            ("resource_id", EntityKind::Resource),
        ],
        EntityKind::Token => &[
            ("actor_id", EntityKind::Actor),
            ("site_id", EntityKind::Site),
        ],
        EntityKind::Client | EntityKind::Identity => &[("actor_id", EntityKind::Actor)],
        EntityKind::Membership => &[
            ("group_id", EntityKind::Group),
            ("actor_id", EntityKind::Actor),
        ],
        EntityKind::Account
        | EntityKind::Actor
        | EntityKind::Group
        | EntityKind::Site
        | EntityKind::Provider
        | EntityKind::Relay => &[],
    }
}

/// The condition that an address in the tunnel is this one, or begins with these whole parts.
fn addresses(text: &str) -> Option<(String, Vec<Value>)> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((
            "ipv6 = ?".to_owned(),
            vec![address.octets().as_slice().into()],
        ));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some((
            "ipv4 = ?".to_owned(),
            vec![address.octets().as_slice().into()],
        ));
    }
    let parts: Result<Vec<u8>, _> = text
        .trim_end_matches('.')
        .split('.')
        .map(str::parse)
        .collect();
    let parts = parts.ok().filter(|parts| (2..4).contains(&parts.len()))?;
    let sql = format!("substr(ipv4, 1, {}) = ?", parts.len());
    Some((sql, vec![parts.as_slice().into()]))
}

/// Appends the condition that a row has this name.
pub(super) fn add_name(sql: &mut String, values: &mut Vec<Value>, name: &str) {
    let keys = lookup_keys(name);
    let wanted = vec!["?"; keys.len()].join(", ");
    sql.push_str(&format!(" AND name_key IN ({wanted})"));
    values.extend(keys.into_iter().map(Value::from));
}

/// The condition that rows of a part fulfil.
const fn condition_of(part: Part) -> &'static str {
    match part {
        Part::ServiceAccounts => "kind = 'service_account'",
        Part::MadeTokens => "kind NOT IN ('session', 'setup')",
        Part::Sessions => "kind = 'session'",
        Part::UnverifiedGateways | Part::UnverifiedClients => {
            "verified_ms IS NULL AND revoked_ms IS NULL"
        }
        Part::VerifiedGateways | Part::VerifiedClients => {
            "verified_ms IS NOT NULL AND revoked_ms IS NULL"
        }
        Part::RevokedGateways
        | Part::RevokedClients
        | Part::RevokedTokens
        | Part::RevokedRelays => "revoked_ms IS NOT NULL",
        Part::DrainingGateways => "draining = 1 AND revoked_ms IS NULL",
        Part::DisabledActors | Part::DisabledPolicies => "disabled = 1",
        Part::InvitedActors => "invitation_ends_ms IS NOT NULL AND password_set_ms IS NULL",
        Part::Administrators => "sign_in_role IN ('admin', 'owner')",
        Part::EnabledPolicies => "disabled = 0",
        Part::LiveTokens | Part::LiveGateways | Part::LiveRelays => "revoked_ms IS NULL",
    }
}

pub(super) async fn list(
    connection: &mut Transaction,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    after: Option<EntityId>,
    limit: PageLimit,
) -> Result<Page<Entity, EntityId>, StoreError> {
    let (sql, values) = list_statement(connection.dialect(), account, kind, filter, after, limit)?;
    last_seq(connection, account).await?;
    for to in &filter.refers_to {
        check_exists(connection, account, *to).await?;
    }
    let rows = connection.fetch(sql, values).await?;
    let rows = rows.iter().map(|row| table::read(kind, row));
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Page::cut(rows, limit, Entity::id))
}

pub(super) async fn list_ordered(
    connection: &mut Transaction,
    account: AccountId,
    kind: EntityKind,
    filter: &ListFilter,
    position: Position,
    limit: PageLimit,
) -> Result<Found<Entity>, StoreError> {
    let [(count, counted), (sql, values)] =
        ordered_statements(connection.dialect(), account, kind, filter, position, limit)?;
    last_seq(connection, account).await?;
    for to in &filter.refers_to {
        check_exists(connection, account, *to).await?;
    }
    let total = match connection.fetch_one(count, counted).await? {
        Some(row) => row.columns().number("total")?,
        None => 0,
    };
    let rows = connection.fetch(sql, values).await?;
    let rows = rows.iter().map(|row| table::read(kind, row));
    let items = rows.collect::<Result<_, _>>()?;
    Ok(Found { items, total })
}

//! The tables that are copied, and their columns. A test fails for a table or a column of the schema that is not here.

use crate::dialect::Dialect;

/// A table that both databases have, with its columns by type.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The columns of its primary key, in their order. They are among the columns below.
    key: &'static str,
    numbers: &'static str,
    texts: &'static str,
    bytes: &'static str,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    Bytes,
}

/// Accounts come before everything else, since all rows refer to them.
pub(super) const ACCOUNTS: Table = Table {
    name: "account",
    key: "account",
    numbers: "version created_ms updated_ms last_seq last_access last_flow own_devices",
    texts: "name name_key settings paths",
    bytes: "account id",
};

/// Logs: rows are added with the next number of their account or removed, and never changed.
pub(super) const LOGS: [Table; 3] = [
    Table {
        name: "change_log",
        key: "account seq",
        numbers: "seq at_ms",
        texts: "operation kind row_before row_after",
        bytes: "account actor_id token_id row_id",
    },
    Table {
        name: "access_log",
        key: "account seq",
        numbers: "seq at_ms",
        texts: "decision reason",
        bytes: "account client_id resource_id gateway_id policy_id grant_id actor_id",
    },
    Table {
        name: "flow_log",
        key: "account seq",
        numbers: "seq at_ms started_ms protocol port sent_bytes sent_packets received_bytes received_packets \
                  inbound",
        texts: "address application flow_end path",
        bytes: "account gateway_id client_id actor_id resource_id grant_id relay_id",
    },
];

/// All other tables, each behind those that it refers to.
pub(super) const TABLES: [Table; 30] = [
    Table {
        name: "actor",
        key: "account id",
        numbers: "version created_ms updated_ms disabled password_set_ms second_factor_ms recovery_codes passkeys \
                  invitation_ends_ms",
        texts: "kind name name_key sign_in_role",
        bytes: "account id",
    },
    Table {
        name: "actor_group",
        key: "account id",
        numbers: "version created_ms updated_ms",
        texts: "name name_key",
        bytes: "account id",
    },
    Table {
        name: "membership",
        key: "account id",
        numbers: "version created_ms updated_ms",
        texts: "",
        bytes: "account id group_id actor_id",
    },
    Table {
        name: "site",
        key: "account id",
        numbers: "version created_ms updated_ms",
        texts: "name name_key relays",
        bytes: "account id",
    },
    Table {
        name: "resource",
        key: "account id",
        numbers: "version created_ms updated_ms",
        texts: "name name_key target filters applications within inbound",
        bytes: "account id site_id",
    },
    Table {
        name: "policy",
        key: "account id",
        numbers: "version created_ms updated_ms disabled",
        texts: "name name_key conditions",
        bytes: "account id group_id resource_id",
    },
    Table {
        name: "token",
        key: "account id",
        numbers: "version created_ms updated_ms expires_ms revoked_ms used_ms last_used_ms proven_ms",
        texts: "kind role name name_key uses",
        bytes: "account id actor_id site_id used_client used_gateway used_relay",
    },
    Table {
        name: "token_digest",
        key: "id",
        numbers: "",
        texts: "",
        bytes: "id account digest",
    },
    Table {
        name: "client",
        key: "account id",
        numbers: "version created_ms updated_ms verified_ms revoked_ms seen_ms name_shares",
        texts: "machine name name_key gateways seen_address seen_software",
        bytes: "account id actor_id public_key ipv4 ipv6",
    },
    Table {
        name: "gateway",
        key: "account id",
        numbers: "version created_ms updated_ms draining revoked_ms seen_ms verified_ms",
        texts: "machine name name_key seen_address seen_software",
        bytes: "account id site_id public_key ipv4 ipv6 token_id",
    },
    Table {
        name: "relay",
        key: "account id",
        numbers: "version created_ms updated_ms draining revoked_ms seen_ms",
        texts: "machine name name_key addresses seen_address seen_software",
        bytes: "account id",
    },
    Table {
        name: "machine_address",
        key: "account address",
        numbers: "released_ms",
        texts: "",
        bytes: "account address",
    },
    Table {
        name: "access_grant",
        key: "account id",
        numbers: "issued_ms expires_ms",
        texts: "cipher",
        bytes: "account id client_id gateway_id resource_id policy_id",
    },
    Table {
        name: "secret",
        key: "account name",
        numbers: "",
        texts: "name",
        bytes: "account value",
    },
    Table {
        name: "password",
        key: "account actor_id",
        numbers: "",
        texts: "",
        bytes: "account actor_id verifier",
    },
    Table {
        name: "totp",
        key: "account actor_id",
        numbers: "last_step",
        texts: "",
        bytes: "account actor_id secret",
    },
    Table {
        name: "recovery_code",
        key: "account actor_id digest",
        numbers: "",
        texts: "",
        bytes: "account actor_id digest",
    },
    Table {
        name: "passkey",
        key: "account credential",
        numbers: "uses created_ms last_used_ms",
        texts: "name",
        bytes: "account credential actor_id public_key",
    },
    Table {
        name: "invitation",
        key: "account actor_id",
        numbers: "",
        texts: "",
        bytes: "account actor_id digest",
    },
    Table {
        name: "provider",
        key: "account id",
        numbers: "version created_ms updated_ms secret_set_ms disabled",
        texts: "name name_key issuer client_id settings",
        bytes: "account id",
    },
    Table {
        name: "provider_secret",
        key: "account provider_id",
        numbers: "",
        texts: "",
        bytes: "account provider_id secret",
    },
    Table {
        name: "identity",
        key: "account id",
        numbers: "version created_ms updated_ms",
        texts: "subject memberships",
        bytes: "account id provider_id actor_id",
    },
    Table {
        name: "flow_source",
        key: "account gateway_id",
        numbers: "run batch lost",
        texts: "",
        bytes: "account gateway_id",
    },
    Table {
        name: "activity",
        key: "account at_ms",
        numbers: "at_ms bytes granted denied",
        texts: "",
        bytes: "account",
    },
    Table {
        name: "sink_position",
        key: "account sink log",
        numbers: "seq",
        texts: "sink log",
        bytes: "account",
    },
    Table {
        name: "sink_secret",
        key: "account sink",
        numbers: "",
        texts: "sink",
        bytes: "account value",
    },
    Table {
        name: "pending",
        key: "account key",
        numbers: "version since_us expires_us",
        texts: "kind",
        bytes: "account key subscriber value",
    },
    Table {
        name: "attempt",
        key: "account key",
        numbers: "until_us",
        texts: "",
        bytes: "account key",
    },
    Table {
        name: SECRETS_KEY,
        key: "key_id",
        numbers: "",
        texts: "",
        bytes: "key_id",
    },
    Table {
        name: STATE_SECRET,
        key: "name",
        numbers: "",
        texts: "name",
        bytes: "value",
    },
];

/// The table of the key that encrypts secrets.
pub(super) const SECRETS_KEY: &str = "secrets_key";

/// The table of secrets of the state directory.
pub(super) const STATE_SECRET: &str = "state_secret";

impl Table {
    /// All columns that are copied, in the order in which rows have them.
    pub(super) fn columns(&self) -> Vec<(&'static str, Kind)> {
        let of = |names: &'static str, kind| names.split_whitespace().map(move |name| (name, kind));
        of(self.numbers, Kind::Number)
            .chain(of(self.texts, Kind::Text))
            .chain(of(self.bytes, Kind::Bytes))
            .collect()
    }

    /// The columns of the primary key.
    pub(super) fn key(&self) -> Vec<&'static str> {
        self.key.split(' ').collect()
    }

    /// The places of the primary key among [`Self::columns`].
    pub(super) fn key_places(&self) -> Vec<usize> {
        let columns = self.columns();
        let place = |key: &&str| columns.iter().position(|(name, _)| name == key);
        self.key().iter().filter_map(place).collect()
    }

    /// The columns that one database has for itself. A copy has 1 there: it is the only row, and a file that is
    /// written anew holds nothing of before (`is_clean`).
    pub(super) fn constants(&self, dialect: Dialect) -> &'static [&'static str] {
        match (self.name, dialect) {
            (SECRETS_KEY, Dialect::Sqlite) => &["only", "is_clean"],
            (SECRETS_KEY, Dialect::Postgres) => &["id"],
            _ => &[],
        }
    }
}

impl Kind {
    /// The type of PostgreSQL.
    pub(crate) const fn postgres(self) -> &'static str {
        match self {
            Self::Number => "bigint",
            Self::Text => "text",
            Self::Bytes => "bytea",
        }
    }
}

/// The columns of a table, each with its type.
pub(crate) fn columns_of(table: &str) -> Vec<(&'static str, Kind)> {
    let table = all().find(|all| all.name == table);
    table.map(Table::columns).unwrap_or_default()
}

/// Every table that is copied.
pub(super) fn all() -> impl Iterator<Item = &'static Table> {
    std::iter::once(&ACCOUNTS).chain(&TABLES).chain(&LOGS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlStore, SqliteOptions};
    use std::collections::BTreeSet;

    /// `table.column TYPE` of everything that is copied.
    pub(crate) fn named(dialect: Dialect) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        for table in all() {
            for (column, kind) in table.columns() {
                let kind = match (dialect, kind) {
                    (Dialect::Sqlite, Kind::Number) => "INTEGER",
                    (Dialect::Sqlite, Kind::Text) => "TEXT",
                    (Dialect::Sqlite, Kind::Bytes) => "BLOB",
                    (Dialect::Postgres, kind) => kind.postgres(),
                };
                let is_new = named.insert(format!("{}.{column} {kind}", table.name));
                assert!(is_new, "{}.{column} is listed twice", table.name);
            }
            for column in table.constants(dialect) {
                let kind = match dialect {
                    Dialect::Sqlite => "INTEGER",
                    Dialect::Postgres => "bigint",
                };
                named.insert(format!("{}.{column} {kind}", table.name));
            }
        }
        named
    }

    #[tokio::test]
    async fn every_column_of_the_schema_is_copied_with_its_type() {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let mut reading = store.reading().await.unwrap();
        // The numbers of the schema are each database's own.
        let sql = "SELECT t.name || '.' || c.name || ' ' || c.type AS name FROM sqlite_schema AS t, \
                   pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name <> 'culvert_schema'";
        let rows = reading.fetch(sql, Vec::new()).await.unwrap();
        let found: BTreeSet<String> = rows.iter().map(|row| row.text("name").unwrap()).collect();
        let named = named(Dialect::Sqlite);
        let missing: Vec<_> = found.difference(&named).collect();
        assert!(missing.is_empty(), "name them in this file: {missing:?}");
        let gone: Vec<_> = named.difference(&found).collect();
        assert!(gone.is_empty(), "no longer in the schema: {gone:?}");
    }

    #[tokio::test]
    async fn rows_are_read_in_the_order_of_the_primary_key() {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let mut reading = store.reading().await.unwrap();
        for table in all().filter(|table| table.name != SECRETS_KEY) {
            assert_eq!(
                table.key_places().len(),
                table.key().len(),
                "{}",
                table.name
            );
            let sql = format!(
                "SELECT name FROM pragma_table_info('{}') WHERE pk > 0 ORDER BY pk",
                table.name
            );
            let rows = reading.fetch(sql, Vec::new()).await.unwrap();
            let found: Vec<String> = rows.iter().map(|row| row.text("name").unwrap()).collect();
            assert_eq!(found, table.key(), "{}", table.name);
        }
    }

    #[tokio::test]
    async fn a_table_comes_behind_those_that_it_refers_to() {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let mut reading = store.reading().await.unwrap();
        let mut before = BTreeSet::new();
        for table in all() {
            before.insert(table.name.to_owned());
            let sql = format!(
                "SELECT DISTINCT \"table\" AS name FROM pragma_foreign_key_list('{}')",
                table.name
            );
            let rows = reading.fetch(sql, Vec::new()).await.unwrap();
            for row in rows.iter() {
                let name = row.text("name").unwrap();
                assert!(before.contains(&name), "{} refers to {name}", table.name);
            }
        }
    }
}

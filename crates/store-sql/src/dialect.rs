//! All places where the statements of the two databases differ.
//!
//! Statements have `?` for their values, or `?1`, `?2`… where one is needed twice. PostgreSQL has other signs for
//! them, and [`numbered`] writes these. Everything else that differs is a method of [`Dialect`].

/// The statements that show that writing is possible. SQLite's write more than a page, so that they need a free one,
/// and delete that again.
const SQLITE_PROBE: &[&str] = &[
    "INSERT INTO secret (account, name, value) SELECT account, 'probe', zeroblob(8192) FROM account \
     WHERE true ON CONFLICT (account, name) DO NOTHING",
    "DELETE FROM secret WHERE name = 'probe'",
];

/// A commit of PostgreSQL is on the server's disk.
const POSTGRES_PROBE: &[&str] = &["UPDATE culvert_schema SET probes = probes + 1"];

/// A row finds room in the pages that a table has although no file can grow any more. 64 KiB that are not compressed need
/// pages of their own.
const POSTGRES_PROBE_OF_SPACE: &[&str] = &[
    "INSERT INTO secret (account, name, value) SELECT account, 'probe', \
     (SELECT string_agg(decode(md5(CAST(random() AS text)), 'hex'), CAST('' AS bytea)) FROM generate_series(1, 4096)) \
     FROM account ON CONFLICT (account, name) DO NOTHING",
    "DELETE FROM secret WHERE name = 'probe'",
];

/// The database whose SQL a statement is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// True if the portal's own secrets are in the database even where no key encrypts it: several portals share them,
    /// and none has them in a file that may be lost. SQLite's file is beside these files.
    pub(super) const fn keeps_state(self) -> bool {
        matches!(self, Self::Postgres)
    }

    /// Names the index to read a table by, behind the table's name. PostgreSQL plans by its statistics and knows no
    /// such hint.
    pub(super) fn indexed_by(self, index: &str) -> String {
        match self {
            Self::Sqlite => format!(" INDEXED BY {index}"),
            Self::Postgres => String::new(),
        }
    }

    /// Has a table read in the order of its primary key, behind the table's name.
    pub(super) const fn by_primary_key(self) -> &'static str {
        match self {
            Self::Sqlite => " NOT INDEXED",
            Self::Postgres => "",
        }
    }

    /// The condition that a text has the next value in it.
    pub(super) fn contains(self, text: &str) -> String {
        match self {
            Self::Sqlite => format!("instr({text}, ?) > 0"),
            Self::Postgres => format!("strpos({text}, ?) > 0"),
        }
    }

    /// The text of a field of a column with JSON. As all texts, it is compared byte by byte.
    pub(super) fn json_text(self, column: &str, field: &str) -> String {
        match self {
            Self::Sqlite => format!("json_extract({column}, '$.{field}')"),
            Self::Postgres => {
                format!("(CAST({column} AS json) ->> '{field}') COLLATE \"C\"")
            }
        }
    }

    /// The condition that a column with JSON has a text or a number in a value whose key is none of `keys`, a list in
    /// parentheses. Its values are the text as JSON has it, without quotes around it, and twice the text, all in lower
    /// case. Looking for the text anywhere in the JSON comes first, which is cheap and seldom true.
    pub(super) fn json_contains(self, column: &str, keys: &str) -> String {
        match self {
            Self::Sqlite => format!(
                "(instr(lower({column}), ?) > 0 AND EXISTS (SELECT 1 FROM json_tree({column}) \
                 WHERE coalesce(key, '') NOT IN {keys} \
                 AND CASE type WHEN 'text' THEN instr(lower(atom), ?) > 0 \
                 WHEN 'integer' THEN CAST(atom AS TEXT) = ? ELSE 0 END))"
            ),
            // `\u0000` is no character of a text, so that reading a value with one would be an error.
            Self::Postgres => format!(
                "(CASE WHEN strpos(lower({column}), ?) > 0 THEN EXISTS (\
                 WITH RECURSIVE tree (key, value) AS (SELECT CAST('' AS text), CAST({column} AS json) UNION ALL \
                 SELECT child.key, child.value FROM tree CROSS JOIN LATERAL (\
                 SELECT key, value FROM json_each(CASE json_typeof(tree.value) WHEN 'object' THEN tree.value ELSE '{{}}' END) \
                 UNION ALL SELECT '', value FROM json_array_elements(\
                 CASE json_typeof(tree.value) WHEN 'array' THEN tree.value ELSE '[]' END)) AS child) \
                 SELECT 1 FROM tree WHERE key NOT IN {keys} AND CASE \
                 WHEN CAST(value AS text) LIKE '%\\\\u0000%' THEN false \
                 WHEN json_typeof(value) = 'string' THEN strpos(lower((value #>> '{{}}') COLLATE \"C\"), ?) > 0 \
                 WHEN json_typeof(value) = 'number' THEN value #>> '{{}}' = ? ELSE false END) ELSE false END)"
            ),
        }
    }

    /// The statements of a probe, in their order. `was_full` if there was no room at the last write.
    pub(super) const fn probe(self, was_full: bool) -> &'static [&'static str] {
        match (self, was_full) {
            (Self::Sqlite, _) => SQLITE_PROBE,
            (Self::Postgres, false) => POSTGRES_PROBE,
            (Self::Postgres, true) => POSTGRES_PROBE_OF_SPACE,
        }
    }

    /// Behind a `SELECT` of a row that the transaction writes over later by what it has read. SQLite's has the writer.
    pub(super) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR NO KEY UPDATE",
        }
    }

    /// The database's clock: microseconds of Unix time, the same within a statement.
    pub(super) const fn now_us(self) -> &'static str {
        match self {
            Self::Sqlite => "(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)",
            Self::Postgres => "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)",
        }
    }

    /// Behind a `SELECT` of rows that the transaction deletes: those that others have are left to them.
    pub(super) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// A truth value as a number, 1 or 0: SQLite has no other, and PostgreSQL tells the two apart.
    pub(super) fn truth(self, condition: &str) -> String {
        match self {
            Self::Sqlite => condition.to_owned(),
            Self::Postgres => format!("CAST(CAST({condition} AS integer) AS bigint)"),
        }
    }

    /// The sum of two columns, at most the largest number.
    pub(super) fn sum_of_two(self, [one, other]: [&str; 2]) -> String {
        match self {
            // `total` has no overflow.
            Self::Sqlite => format!("CAST(total({one} + {other}) AS INTEGER)"),
            Self::Postgres => format!(
                "CAST(least(coalesce(sum(CAST({one} AS numeric) + {other}), 0), {}) AS bigint)",
                i64::MAX
            ),
        }
    }

    /// The column of the row with the largest `seq` in a group, as a column of that name, beside `max(seq)`.
    pub(super) fn of_last(self, column: &str) -> String {
        match self {
            // Columns beside the only `max` are those of its row (https://sqlite.org/lang_select.html#bareagg).
            Self::Sqlite => column.to_owned(),
            Self::Postgres => format!("(array_agg({column} ORDER BY seq DESC))[1] AS {column}"),
        }
    }
}

/// A statement with PostgreSQL's signs for its values: `$1`, `$2`… No statement has a question mark for anything
/// else.
pub(super) fn numbered(sql: &str) -> String {
    let mut numbered = String::with_capacity(sql.len() + 16);
    let mut last = 0;
    let mut parts = sql.split('?');
    numbered.push_str(parts.next().unwrap_or_default());
    for part in parts {
        numbered.push('$');
        // A sign with a number of its own keeps it, as in SQLite.
        if !part.starts_with(|letter: char| letter.is_ascii_digit()) {
            last += 1;
            numbered.push_str(&last.to_string());
        }
        numbered.push_str(part);
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_their_order_and_keep_numbers_that_they_have() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("? AND a = ?"), "$1 AND a = $2");
        assert_eq!(numbered("(?1, ?2) = ?1"), "($1, $2) = $1");
        assert_eq!(numbered("IN (?, ?, ?)"), "IN ($1, $2, $3)");
    }
}

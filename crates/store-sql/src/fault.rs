//! The databases' errors in the store's words.

use culvert_store::StoreError;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

/// Primary result codes, <https://www.sqlite.org/rescode.html>.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READONLY: u32 = 8;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const NOTADB: u32 = 26;
/// No room for the index of the write-ahead log, an extended code of `SQLITE_IOERR`.
const IOERR_SHMSIZE: u32 = 4_874;

const WRITABLE: &str = "check the owner and mode of the file and its directory, and that the file system is not \
                        mounted read-only";

/// Sorts an error. Every unknown error is [`StoreError::Unavailable`], from which nobody may
/// conclude anything.
pub(super) fn fault(error: sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    match error {
        E::Database(error) if error.try_downcast_ref::<PgDatabaseError>().is_some() => {
            of_postgres(error)
        }
        E::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<u32>().ok());
            let detail = error.message().to_owned();
            let Some(code) = code else {
                return StoreError::Unavailable(Box::new(error));
            };
            match (code, code & 0xff) {
                (IOERR_SHMSIZE, _) | (_, FULL) => StoreError::Full { detail },
                (_, BUSY | LOCKED) => StoreError::Locked { detail },
                (_, READONLY) => StoreError::ReadOnly {
                    detail: format!("{detail}; {WRITABLE}"),
                },
                (_, CORRUPT | NOTADB) => StoreError::Corrupt { detail },
                _ => StoreError::Unavailable(Box::new(error)),
            }
        }
        error @ (E::ColumnDecode { .. } | E::Decode(_)) => StoreError::corrupt(error),
        error => StoreError::Unavailable(Box::new(error)),
    }
}

/// Codes of PostgreSQL, <https://www.postgresql.org/docs/current/errcodes-appendix.html>. Its messages name no values.
fn of_postgres(error: Box<dyn DatabaseError>) -> StoreError {
    let detail = error.message().to_owned();
    let code = error.code().unwrap_or_default().into_owned();
    match (code.as_str(), code.get(..2).unwrap_or_default()) {
        // A deadlock, a lock or a statement that took too long, and a state that others have changed.
        ("40001" | "40P01" | "55P03" | "57014", _) => StoreError::Busy { detail },
        ("53100", _) => StoreError::Full { detail },
        ("25006", _) => StoreError::ReadOnly {
            detail: format!("{detail}; name the primary server in the URL"),
        },
        ("42501", _) => StoreError::Unusable {
            detail: format!(
                "{detail}; make the user of the URL the owner of the database (ALTER DATABASE … OWNER TO …)"
            ),
        },
        (_, "XX") if code != "XX000" => StoreError::Corrupt { detail },
        _ => StoreError::Unavailable(error.into_error()),
    }
}

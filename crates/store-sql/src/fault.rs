//! SQLite's errors in the store's words.

use culvert_store::StoreError;

/// Primary result codes, <https://www.sqlite.org/rescode.html>.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READONLY: u32 = 8;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const NOTADB: u32 = 26;
/// No room for the index of the write-ahead log, an extended code of `SQLITE_IOERR`.
const IOERR_SHMSIZE: u32 = 4_874;

/// Sorts an error. Every unknown error is [`StoreError::Unavailable`], from which nobody may
/// conclude anything.
pub(super) fn fault(error: sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    match error {
        E::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<u32>().ok());
            let detail = error.message().to_owned();
            let Some(code) = code else {
                return StoreError::Unavailable(Box::new(error));
            };
            match (code, code & 0xff) {
                (IOERR_SHMSIZE, _) | (_, FULL) => StoreError::Full { detail },
                (_, BUSY | LOCKED) => StoreError::Locked { detail },
                (_, READONLY) => StoreError::ReadOnly { detail },
                (_, CORRUPT | NOTADB) => StoreError::Corrupt { detail },
                _ => StoreError::Unavailable(Box::new(error)),
            }
        }
        error @ (E::ColumnDecode { .. } | E::Decode(_)) => StoreError::corrupt(error),
        error => StoreError::Unavailable(Box::new(error)),
    }
}

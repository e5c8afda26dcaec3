//! SQLite conforms, in memory and in a file.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod conformance;

use conformance::Fixture;
use culvert_secrets::SecretsKey;
use culvert_store_sql::{Sealer, SecretsAccess, SqlStore, SqliteOptions};
use std::sync::Arc;

async fn in_memory() -> Fixture {
    let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
    Fixture::new(Arc::new(store), ())
}

async fn in_a_file() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("portal/culvert.db"));
    let store = SqlStore::open(&options).await.unwrap();
    Fixture::new(Arc::new(store), directory)
}

/// The store's rules hold with encrypted secrets too.
async fn encrypted() -> Fixture {
    let key = SecretsKey::from_bytes(&[7; 32]);
    let sealer = Sealer::new(key, |nonce| {
        nonce.fill(1);
        Ok(())
    });
    let options = SqliteOptions::memory().secrets(SecretsAccess::Key(sealer));
    let store = SqlStore::open(&options).await.unwrap();
    Fixture::new(Arc::new(store), ())
}

conformance!(memory, super::in_memory);
conformance!(file, super::in_a_file);
conformance!(with_a_key, super::encrypted);

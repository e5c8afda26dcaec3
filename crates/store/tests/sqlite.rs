//! SQLite conforms, in memory and in a file.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod conformance;

use conformance::Fixture;
use culvert_store::{SqliteOptions, SqliteStore};
use std::sync::Arc;

async fn in_memory() -> Fixture {
    let store = SqliteStore::open(&SqliteOptions::memory()).await.unwrap();
    Fixture::new(Arc::new(store), ())
}

async fn in_a_file() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("portal/culvert.db"));
    let store = SqliteStore::open(&options).await.unwrap();
    Fixture::new(Arc::new(store), directory)
}

conformance!(memory, super::in_memory);
conformance!(file, super::in_a_file);

//! The task of one sink.

use crate::backoff::Backoff;
use crate::error::SinkError;
use crate::line;
use crate::sinks::Sinks;
use culvert_portal_base::now;
use culvert_wire::model::{Log, Sink};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Entries that are sent together: some 200 KiB, and at 2 KiB a change a megabyte.
const BATCH: u32 = 500;

/// The pause of a sink that has everything: its smallest lag.
const REST: Duration = Duration::from_secs(1);

/// Sends what comes, for as long as the task lives.
pub(super) async fn work(sinks: Arc<Sinks>, sink: Sink) {
    if sink.paused {
        return;
    }
    let mut backoff = Backoff::default();
    loop {
        match turn(&sinks, &sink).await {
            Ok(sent) => {
                backoff.reset();
                sinks.note(&sink.name, |progress| progress.error = None);
                if sent == 0 {
                    sleep(REST).await;
                }
            }
            Err(error) => {
                let text = error.to_string();
                let before = sinks.progress(&sink.name).error;
                if before.as_ref() != Some(&text) {
                    tracing::warn!(sink = sink.name, %error, "a log sink takes nothing");
                }
                sinks.note(&sink.name, |progress| progress.error = Some(text));
                // Without random bytes it just comes back with others.
                let random = getrandom::u64().unwrap_or(0);
                sleep(backoff.next(random)).await;
            }
        }
    }
}

/// Sends a batch of each log; returns how many entries that were.
async fn turn(sinks: &Sinks, sink: &Sink) -> Result<u64, SinkError> {
    let (store, account) = (&sinks.store, sinks.account);
    let places = store.sink_positions(account, &sink.name).await;
    let mut places = places.map_err(SinkError::new)?;
    if sink.logs.iter().any(|log| !places.contains_key(log)) {
        // A log that is new to the sink begins with its next entry.
        let ends = store.log_ends(account).await.map_err(SinkError::new)?;
        for log in &sink.logs {
            let end = ends.get(log).copied().unwrap_or(0);
            places.entry(*log).or_insert(end);
        }
        let noted = store.note_sink_positions(account, &sink.name, &places);
        noted.await.map_err(SinkError::new)?;
    }
    let mut sent = 0;
    for log in &sink.logs {
        let place = places.get(log).copied().unwrap_or(0);
        sent += send(sinks, sink, *log, place).await?;
    }
    Ok(sent)
}

async fn send(sinks: &Sinks, sink: &Sink, log: Log, place: u64) -> Result<u64, SinkError> {
    let (store, account) = (&sinks.store, sinks.account);
    let entries = store.log_after(account, log, place, BATCH).await;
    let Some(lines) = line::of(entries.map_err(SinkError::new)?)? else {
        return Ok(0);
    };
    let missed = lines.first.saturating_sub(place + 1);
    let (count, last) = (lines.count, lines.last);
    sinks.deliver(sink, lines.text).await?;
    // The collector may have taken half a minute.
    sinks.check_current(sink).await?;
    let place = BTreeMap::from([(log, last)]);
    let noted = store.note_sink_positions(account, &sink.name, &place).await;
    sinks.note(&sink.name, |progress| {
        progress.delivered += count;
        progress.missed += missed;
        progress.delivered_at = Some(now());
    });
    if missed > 0 {
        let name = &sink.name;
        tracing::warn!(sink = name, %log, missed, "entries were forgotten before the sink took them");
    }
    noted.map_err(SinkError::new)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::AccountId;
    use culvert_store::{
        Account, AccountSettings, Author, Logs as _, Mutation, SecretBytes, Stamp, Store as _,
        StoreExt as _,
    };
    use culvert_store_sql::{SqlStore, SqliteOptions};
    use culvert_wire::Timestamp;
    use culvert_wire::model::SinkTarget;
    use std::io::ErrorKind;
    use std::net::TcpListener;

    const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
    const NOW: Timestamp = Timestamp::from_unix_ms(1);

    fn sink(url: String) -> Sink {
        Sink {
            name: "collector".to_owned(),
            logs: [Log::Changes].into(),
            target: SinkTarget::Http { url },
            paused: false,
        }
    }

    /// Puts the sink in the place of the one that has its name, as the portal does.
    async fn put(store: &SqlStore, sink: &Sink) {
        let mut row: Account = store.get_as(ACCOUNT, ACCOUNT).await.unwrap();
        row.settings.logs.sinks = vec![sink.clone()];
        let name = sink.name.clone();
        let mutations = vec![
            Mutation::ForgetSink { sink: name.clone() },
            Mutation::BeginSink {
                sink: name,
                secret: Some(SecretBytes::new(b"token".to_vec())),
            },
            Mutation::Update {
                entity: row.into(),
                expected_version: None,
            },
        ];
        let written = store.write(ACCOUNT, Author::PORTAL, NOW, mutations).await;
        written.unwrap();
    }

    #[tokio::test]
    async fn a_sink_that_was_replaced_gets_no_token_of_the_new_one_and_moves_no_place() {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let store = Arc::new(store);
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let made = store.create_account(account, Author::PORTAL, NOW).await;
        made.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let old = sink(url);
        put(&store, &old).await;
        let new = sink("http://127.0.0.1:1/".to_owned());
        put(&store, &new).await;
        let dir = tempfile::tempdir().unwrap();
        let sinks = Sinks::new(Arc::clone(&store) as _, ACCOUNT, dir.path().to_owned());
        let before = store.sink_positions(ACCOUNT, &new.name).await.unwrap();
        let error = turn(&sinks, &old).await.unwrap_err().to_string();
        assert!(error.starts_with("another sink has the name"), "{error}");
        assert!(sinks.check_current(&new).await.is_ok());
        let after = store.sink_positions(ACCOUNT, &new.name).await.unwrap();
        assert_eq!(after, before);
        let asked = listener.accept().map(drop).unwrap_err();
        assert_eq!(asked.kind(), ErrorKind::WouldBlock);
        // No state of a sink is told by a portal that does not deliver.
        sinks.note(&old.name, |progress| progress.error = Some(error));
        let sinks = Arc::new(sinks);
        let (_stop, stopped) = tokio::sync::watch::channel(true);
        Arc::clone(&sinks).run(stopped).await;
        assert_eq!(sinks.progress(&old.name).error, None);
    }
}

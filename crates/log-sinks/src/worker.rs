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

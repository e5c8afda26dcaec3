//! A log as it grows.

use super::super::api::{Api, MAX_LIST_LEN, Query};
use super::super::http::RequestError;
use super::super::output::note;
use super::super::shell::Shell;
use super::rows::{Entry, LogNames};
use crate::exit::{Failure, Status, print};
use crate::json;
use crate::visible::visible;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Interval between two requests to the portal. It serves fifty requests a second of one address,
/// and people look at what comes no more often.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between attempts to reach a portal that does not answer.
const MAX_PAUSE: Duration = Duration::from_secs(8);

/// Prints the last entries, the oldest of them first, then what comes, until a signal.
pub(super) async fn run<T: Entry>(
    shell: &mut Shell,
    query: &Query,
    most: usize,
    is_json: bool,
) -> Result<(), Failure> {
    let watch = |kind| signal(kind).map_err(|error| Failure::io("watching for signals", &error));
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut terminate = watch(SignalKind::terminate())?;
    let api = &mut shell.api;
    let follow = async {
        let mut seen = last_seq::<T>(api).await?;
        let entries: Vec<T> = api.list_of(T::PATH, query, most).await?;
        seen = show(api, entries, is_json).await?.unwrap_or(0).max(seen);
        let mut pause = PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            match step::<T>(api, query, seen, is_json).await {
                Ok(last) => {
                    if pause > PAUSE {
                        note("the portal answers again");
                    }
                    (seen, pause) = (last, PAUSE);
                }
                Err(refusal) if is_passing(&refusal) => {
                    if pause == PAUSE {
                        let failure = Failure::from(refusal);
                        note(format_args!("{failure}; going on once it answers"));
                    }
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    };
    tokio::select! {
        ended = follow => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Prints the entries since `seen`, and returns the last one now. The filter is asked only if there are
/// new entries, even if it leaves none of them.
async fn step<T: Entry>(
    api: &mut Api,
    query: &Query,
    seen: u64,
    is_json: bool,
) -> Result<u64, RequestError> {
    let last = last_seq::<T>(api).await?;
    if last <= seen {
        return Ok(seen);
    }
    let query = query.clone().with("after", seen);
    let entries: Vec<T> = api.list_of(T::PATH, &query, MAX_LIST_LEN).await?;
    let shown = show(api, entries, is_json).await?;
    Ok(shown.unwrap_or(0).max(last))
}

/// The number of the last entry of the log, whatever it says; 0 before the first.
async fn last_seq<T: Entry>(api: &mut Api) -> Result<u64, RequestError> {
    // By time, the newest may not be the last that was written: with `after` they come by number.
    let by_number = Query::default().with("after", 0);
    let newest: Vec<T> = api.list_of(T::PATH, &by_number, 1).await?;
    Ok(newest.first().map_or(0, Entry::seq))
}

/// Prints entries, which come the newest first, in their order; returns the largest number.
async fn show<T: Entry>(
    api: &mut Api,
    mut entries: Vec<T>,
    is_json: bool,
) -> Result<Option<u64>, Failure> {
    entries.reverse();
    let last = entries.iter().map(Entry::seq).max();
    if last.is_none() {
        return Ok(None);
    }
    let mut text = String::new();
    if is_json {
        for entry in &entries {
            text.push_str(&json::line(entry)?);
        }
    } else {
        let names = LogNames::of(api).await?;
        for entry in &entries {
            let row: Vec<_> = entry.row(&names).iter().map(|cell| visible(cell)).collect();
            text.push_str(&row.join("  "));
            text.push('\n');
        }
    }
    print(text.as_bytes())?;
    Ok(last)
}

/// True if a later try may succeed: the portal restarts, or is overloaded.
const fn is_passing(refusal: &RequestError) -> bool {
    match refusal {
        RequestError::Failure(failure) => matches!(failure.status, Status::PortalUnreachable),
        RequestError::Problem(problem) => problem.status == 429 || problem.status >= 500,
    }
}

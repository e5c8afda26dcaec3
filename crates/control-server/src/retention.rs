//! Deletes ended things, and entries of logs beyond the age or number that the account keeps.

use culvert_ids::AccountId;
use culvert_portal_base::now;
use culvert_store::{Account, MAX_PRUNE_ROWS, Store, StoreError, StoreExt};
use culvert_wire::Timestamp;
use culvert_wire::model::{Keep, Log};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The interval between two turns of deletion.
const EVERY: Duration = Duration::from_secs(60);

/// The pause for other writers between two steps. A step is [`MAX_PRUNE_ROWS`] rows of one log,
/// some tens of milliseconds of the writer, so that deletion takes at most a tenth of its time.
const REST: Duration = Duration::from_millis(250);

/// Steps of one log in a turn: 1,000,000 rows. If a log was cut to much less, the rest goes in the
/// turns that follow.
const MAX_STEPS: u32 = 100;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The age up to which the traffic and the denials of each minute are kept: a chart shows a week.
const ACTIVITY_RETENTION_MS: u64 = 8 * DAY_MS;

/// Forgets for as long as the portal runs.
pub(super) async fn keep_within(store: Arc<dyn Store>, account: AccountId) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = forget(store.as_ref(), account, now()).await {
            tracing::warn!(%error, "forgetting what is over");
        }
    }
}

/// One turn.
pub(super) async fn forget(
    store: &dyn Store,
    account: AccountId,
    now: Timestamp,
) -> Result<(), StoreError> {
    store.prune_grants(account, now).await?;
    store
        .prune_activity(account, ago(now, ACTIVITY_RETENTION_MS))
        .await?;
    let settings = store.get_as::<Account>(account, account).await?.settings;
    let change_days = settings.logs.change_days;
    let stored = [
        (Log::Access, Some(settings.logs.access)),
        (Log::Flows, Some(settings.logs.flows)),
        (
            Log::Changes,
            change_days.map(|days| Keep {
                days,
                entries: u64::MAX,
            }),
        ),
    ];
    for (log, keep) in stored {
        let Some(keep) = keep else { continue };
        let oldest = ago(now, u64::from(keep.days) * DAY_MS);
        for _ in 0..MAX_STEPS {
            let gone = store.prune_log(account, log, oldest, keep.entries).await?;
            if gone < u64::from(MAX_PRUNE_ROWS) {
                break;
            }
            sleep(REST).await;
        }
    }
    Ok(())
}

const fn ago(now: Timestamp, ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(now.unix_ms().saturating_sub(ms))
}

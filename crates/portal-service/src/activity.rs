//! Traffic, and granted and denied requests, over time.

use super::{Caller, Service};
use culvert_portal_base::{Fault, now};
use culvert_store as store;
use culvert_wire::Timestamp;
use culvert_wire::api::{Activity, ActivitySpan, ActivityStep};
use std::time::Duration;

impl Service {
    /// The last hour, day or week in steps that a chart can show; the last step is under way.
    pub async fn activity(&self, caller: &Caller, span: ActivitySpan) -> Result<Activity, Fault> {
        caller.may_read()?;
        let (step_ms, count) = steps(span);
        let now_ms = now().unix_ms();
        let last_ms = now_ms - now_ms % step_ms;
        let first_ms = last_ms.saturating_sub((count - 1) * step_ms);
        let (from, until) = (
            Timestamp::from_unix_ms(first_ms),
            Timestamp::from_unix_ms(last_ms + step_ms),
        );
        let step = Duration::from_millis(step_ms);
        let found = self
            .database
            .store
            .activity(caller.account(), from, until, step);
        let found = self.database.ask("activity", found).await?;
        let mut found = found.into_iter().peekable();
        let steps = (0..count).map(|number| {
            let at = Timestamp::from_unix_ms(first_ms + number * step_ms);
            let step = found.next_if(|step| step.at == at);
            let step = step.unwrap_or(store::Activity {
                at,
                ..store::Activity::default()
            });
            ActivityStep {
                at,
                bytes: step.bytes,
                granted: step.granted,
                denied: step.denied,
            }
        });
        Ok(Activity {
            span,
            step_s: u32::try_from(step_ms / 1_000).unwrap_or(u32::MAX),
            steps: steps.collect(),
        })
    }
}

/// The length of a step in milliseconds, and the number of steps: about as many as a chart on a
/// phone has room for.
const fn steps(span: ActivitySpan) -> (u64, u64) {
    const MINUTE_MS: u64 = 60_000;
    match span {
        ActivitySpan::Hour => (MINUTE_MS, 60),
        ActivitySpan::Day => (15 * MINUTE_MS, 96),
        ActivitySpan::Week => (120 * MINUTE_MS, 84),
    }
}

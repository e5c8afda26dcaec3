//! Telling the log and the service manager how the gateway stands.

use super::base::Base;
use culvert_host::{notify_ready, notify_status};

/// The state of what was told: each thing is told once, and the summary when it changes.
#[derive(Default)]
pub(super) struct Announcer {
    /// The service manager knows that the gateway has started.
    is_announced: bool,
    was_connected: bool,
    /// The log says that the gateway waits to be verified.
    was_awaiting: bool,
    summary: String,
}

impl Announcer {
    /// Tells what has changed. `portal` is the URL of the session, and `summary` the core's.
    pub(super) fn tell(
        &mut self,
        base: &Base,
        portal: &str,
        summary: String,
        is_connected: bool,
        awaits_verification: bool,
    ) {
        if is_connected && !self.was_connected {
            tracing::info!(portal, "connected to the portal");
        }
        self.was_connected = is_connected;
        self.tell_verification(base, awaits_verification);
        // A machine that starts must not wait for a portal, and a service manager must not give up one
        // that is awaited, unless that is asked for.
        let is_started = is_connected || !base.settings.exit_when_unreachable;
        if is_started && !self.is_announced {
            self.is_announced = true;
            notify_ready(&summary);
        } else if summary != self.summary {
            notify_status(&summary);
        }
        self.summary = summary;
    }

    /// One line whenever it begins or ends to wait.
    fn tell_verification(&mut self, base: &Base, awaits: bool) {
        if awaits == self.was_awaiting {
            return;
        }
        self.was_awaiting = awaits;
        if awaits {
            tracing::warn!(
                fingerprint = base.public_key.fingerprint(),
                "waits for verification by an administrator, who compares this fingerprint and runs \
                 `culvert admin gateway verify {}`",
                base.settings.name
            );
        } else {
            tracing::info!("verified: an administrator let it have grants, or need not any more");
        }
    }
}

//! Telling whoever started the client how it stands.

/// The state of what was told: each thing is told once, and the summary when it changes.
pub(super) struct Announcer<'a> {
    ready: &'a mut (dyn FnMut(&str) + Send),
    /// A service manager waits until the client is ready, since it ends if the portal can't be reached.
    waits_for_ready: bool,
    is_ready: bool,
    /// The service manager knows that the client has started.
    is_announced: bool,
    was_connected: bool,
    summary: String,
}

impl<'a> Announcer<'a> {
    pub(super) fn new(
        ready: &'a mut (dyn FnMut(&str) + Send),
        waits_for_ready: bool,
        is_announced: bool,
    ) -> Self {
        Self {
            ready,
            waits_for_ready,
            is_ready: false,
            is_announced,
            was_connected: false,
            summary: String::new(),
        }
    }

    /// True once the client was ready.
    pub(super) const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The portal answers and the client goes on, connected or not: a service manager need not wait for more.
    pub(super) const fn wait_no_longer(&mut self) {
        self.waits_for_ready = false;
    }

    /// Tells what has changed. `summary` is the core's, `not_ready` the reason why packets don't get there.
    pub(super) fn tell(
        &mut self,
        mut summary: String,
        is_connected: bool,
        not_ready: Option<&str>,
    ) {
        if is_connected && let Some(why) = not_ready {
            summary = format!("{summary}; {why}");
        }
        if !self.is_ready && is_connected && not_ready.is_none() {
            self.is_ready = true;
            (self.ready)(&summary);
        } else if self.is_ready && is_connected && !self.was_connected {
            tracing::info!("{summary}");
        }
        self.was_connected = is_connected;
        // A machine that starts must not wait for a portal, and a service manager must not give up one
        // that is awaited, unless that is asked for.
        if !self.is_announced && (self.is_ready || !self.waits_for_ready) {
            self.is_announced = true;
            culvert_host::notify_ready(&summary);
        } else if summary != self.summary {
            culvert_host::notify_status(&summary);
        }
        self.summary = summary;
    }
}

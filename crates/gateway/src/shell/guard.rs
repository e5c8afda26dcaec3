//! The kernel's table that guards the gateway: installed, watched, and put back where another program changed it.

use crate::GatewayError;
use crate::status::{FirewallState, FirewallStatus};
use culvert_base::{BootTime, whole_millis};
use culvert_host::{
    Firewall, FirewallWatch, GatewayRules, HostError, InterfaceName, RepairPace, TableState,
};
use std::time::Instant;

/// The guard of the gateway.
pub(super) struct Guard {
    interface: InterfaceName,
    firewall: Option<Firewall>,
    /// The time of the last look at the guard.
    checked: Option<BootTime>,
    /// The number of times that the guard was put back.
    restored: u64,
    /// Tells of changes of the guard, if the kernel does.
    watch: Option<FirewallWatch>,
    pace: RepairPace,
    /// The reason why the guard is not put back at the moment.
    unguarded: Option<String>,
}

impl Guard {
    pub(super) fn new(interface: InterfaceName) -> Self {
        Self {
            watch: listen(&interface),
            interface,
            firewall: None,
            checked: None,
            restored: 0,
            pace: RepairPace::default(),
            unguarded: None,
        }
    }

    /// Installs it, or puts other rules in its place.
    pub(super) async fn set(&mut self, rules: GatewayRules) -> Result<(), GatewayError> {
        match &mut self.firewall {
            Some(firewall) => firewall.replace(rules).await?,
            None => self.firewall = Some(Firewall::install(rules).await?),
        }
        self.checked = Some(culvert_engine::boot_time());
        Ok(())
    }

    /// True once it was installed.
    pub(super) const fn is_installed(&self) -> bool {
        self.firewall.is_some()
    }

    pub(super) fn status(&self, now: BootTime) -> FirewallStatus {
        FirewallStatus {
            table: Firewall::table_of(&self.interface),
            state: match (&self.firewall, &self.unguarded) {
                (Some(_), None) => FirewallState::Intact,
                (Some(_), Some(_)) => FirewallState::Lost,
                (None, _) => FirewallState::Absent,
            },
            checked_ms_ago: self
                .checked
                .map(|at| whole_millis(now.saturating_since(at))),
            restored: self.restored,
        }
    }

    /// The reason why it is not put back at the moment.
    pub(super) fn unguarded(&self) -> Option<&str> {
        self.unguarded.as_deref()
    }

    /// The parts of it that the kernel can't do.
    pub(super) fn shortcomings(&self) -> impl Iterator<Item = String> {
        let firewall = self.firewall.iter();
        firewall.flat_map(Firewall::shortcomings)
    }

    /// Waits until the guard may have been changed; returns by which program, where that is known.
    pub(super) async fn heard(&mut self) -> Option<String> {
        // While it is not put back, there is nothing to be looked at between two looks.
        let Some(watch) = self.watch.as_mut().filter(|_| self.unguarded.is_none()) else {
            return std::future::pending().await;
        };
        match watch.changed().await {
            Ok(by) => by,
            Err(error) => {
                tracing::warn!(%error, "changes of the firewall are not told any more");
                self.watch = None;
                None
            }
        }
    }

    /// True if the guard is as it should be; `by` is the program that may have changed it. If this
    /// can't be found out, the gateway ends: without its guard it forwards nothing.
    pub(super) async fn is_guarded(&mut self, by: Option<&str>) -> Result<bool, GatewayError> {
        let Some(firewall) = &self.firewall else {
            return Ok(true);
        };
        let state = firewall.check().await?;
        self.checked = Some(culvert_engine::boot_time());
        if state == TableState::Intact {
            self.unguarded = None;
        } else if self.unguarded.is_none() {
            let by = by.map(|name| format!(" ({name})")).unwrap_or_default();
            let what = format!("another program{by} changed the gateway's firewall table");
            tracing::warn!("{what}; nothing is forwarded until it is put back");
            self.unguarded = Some(what);
        }
        Ok(state == TableState::Intact)
    }

    /// Puts the guard back, and says whether it did: not where that is taken away again and again.
    /// If it fails, the gateway ends.
    pub(super) async fn put_back(&mut self) -> Result<bool, GatewayError> {
        let Some(firewall) = &mut self.firewall else {
            return Ok(true);
        };
        if let Err(wait) = self.pace.take(Instant::now()) {
            let remedy = " again and again, and nothing is forwarded for a minute at most: keep it from \
                          flushing tables that are not its own (`nft monitor` shows what it does)";
            if let Some(what) = self.unguarded.as_mut().filter(|it| !it.ends_with(remedy)) {
                what.push_str(remedy);
                tracing::error!(seconds = wait.as_secs(), "{what}");
            }
            return Ok(false);
        }
        match firewall.reinstall().await {
            Ok(()) => {}
            // The next look tries again.
            Err(HostError::FirewallFlushed) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.unguarded = None;
        self.restored += 1;
        Ok(true)
    }

    pub(super) async fn remove(&mut self) {
        if let Some(firewall) = self.firewall.take()
            && let Err(error) = firewall.remove().await
        {
            tracing::warn!(%error, "the firewall table stays behind");
        }
    }
}

/// Begins to hear of changes of the guard. Without it they are found by looking.
fn listen(interface: &InterfaceName) -> Option<FirewallWatch> {
    let opened = FirewallWatch::open(interface);
    opened
        .inspect_err(|error| tracing::debug!(%error, "changes of the firewall are not told"))
        .ok()
}

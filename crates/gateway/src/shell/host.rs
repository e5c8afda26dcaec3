//! The gateway's needs at its host: addresses, routes to clients, and the kernel's guard.

use crate::GatewayError;
use crate::settings::Settings;
use crate::status::{FirewallState, FirewallStatus};
use culvert_base::{BootTime, whole_millis};
use culvert_host::{
    Family, Firewall, FirewallWatch, Forwarding, GatewayRules, HostError, Network, RepairPace,
    TableState, Wanted, enable_forwarding, forward_conflicts, forwarding, require_forwarding,
};
use culvert_wire::messages::SITE_DNS_PORT;
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Instant;

const NO_IPV6: &str = "IPv6 is not forwarded: resources with IPv6 addresses are unreachable until \
                       `sysctl -w net.ipv6.conf.all.forwarding=1`";

const HIDDEN_SWITCHES: &str = "whether this machine forwards packets can't be seen, as /proc/sys is hidden: if clients reach \
                               nothing, run `sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1` on the host";

/// The set-up of this host.
pub(crate) struct Host {
    settings: Settings,
    network: Network,
    firewall: Option<Firewall>,
    wanted: Option<Wanted>,
    /// The time of the last look at the guard.
    checked: Option<BootTime>,
    /// The number of times that the guard was put back.
    restored: u64,
    /// Tells of changes of the guard, if the kernel does.
    watch: Option<FirewallWatch>,
    pace: RepairPace,
    /// The reason why the guard is not put back at the moment.
    unguarded: Option<String>,
    /// The rules of others that forbid forwarding to the gateway.
    conflicts: Vec<String>,
    /// The parts that could not be set up.
    notes: Vec<String>,
}

/// Forwarding must be on for IPv4; where it is off for IPv6 alone, IPv6 resources stay unreachable.
pub(crate) fn check_forwarding(may_enable: bool) -> Result<(), GatewayError> {
    if may_enable {
        for family in [Family::V4, Family::V6] {
            match enable_forwarding(family) {
                Ok(true) => tracing::info!(?family, "forwarding was off and is on now"),
                Ok(false) => {}
                Err(error) if family == Family::V6 => {
                    tracing::warn!(%error, "IPv6 is not forwarded");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    require_forwarding(Family::V4)?;
    if let Some(problem) = forwarding_problem() {
        tracing::warn!("{problem}");
    }
    Ok(())
}

/// The problem with forwarding while the gateway runs, if there is one.
fn forwarding_problem() -> Option<&'static str> {
    // One switch that can't be read is no reason to say that it is off.
    match forwarding(Family::V6) {
        Ok(Forwarding::Off) => Some(NO_IPV6),
        Ok(Forwarding::Hidden) => Some(HIDDEN_SWITCHES),
        Ok(Forwarding::On) | Err(_) => None,
    }
}

impl Host {
    pub(crate) fn new(settings: &Settings) -> Result<Self, GatewayError> {
        Ok(Self {
            settings: settings.clone(),
            network: Network::open()?,
            firewall: None,
            wanted: None,
            checked: None,
            restored: 0,
            watch: listen(settings),
            pace: RepairPace::default(),
            unguarded: None,
            conflicts: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Installs the guard, then the addresses and the routes to clients: nothing is forwarded unguarded.
    pub(crate) async fn set_up(
        &mut self,
        addresses: [IpAddr; 2],
        client_ranges: &[IpNet],
    ) -> Result<(), GatewayError> {
        let rules = GatewayRules {
            interface: self.settings.interface.clone(),
            addresses: addresses.to_vec(),
            client_ranges: client_ranges.to_vec(),
            source: self.settings.source,
            dns_port: SITE_DNS_PORT,
            host_access: self.settings.host_access,
        };
        match &mut self.firewall {
            Some(firewall) => firewall.replace(rules).await?,
            None => self.firewall = Some(Firewall::install(rules).await?),
        }
        self.checked = Some(culvert_engine::boot_time());
        let wanted = Wanted {
            interface: self.settings.interface.clone(),
            mtu_bytes: self.settings.mtu.into(),
            addresses: addresses.to_vec(),
            prefixes: client_ranges.to_vec(),
            // No client is at an address of the ranges that lead into the tunnel.
            exemptions: Vec::new(),
            routing: self.settings.routing,
        };
        self.apply(&wanted).await?;
        self.wanted = Some(wanted);
        match forward_conflicts(&self.settings.interface).await {
            Ok(conflicts) => {
                self.conflicts = conflicts.iter().map(ToString::to_string).collect();
                for conflict in &self.conflicts {
                    tracing::warn!("{conflict}");
                }
            }
            Err(error) => tracing::debug!(%error, "other firewall tables can't be looked at"),
        }
        Ok(())
    }

    async fn apply(&mut self, wanted: &Wanted) -> Result<(), GatewayError> {
        let applied = self.network.apply(wanted).await?;
        for change in applied.changes {
            tracing::debug!("{change}");
        }
        let notes: Vec<String> = applied.notes.iter().map(ToString::to_string).collect();
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.notes = notes;
        Ok(())
    }

    /// True if the guard and the routes are in place.
    pub(crate) fn is_set_up(&self) -> bool {
        self.firewall.is_some() && self.wanted.is_some()
    }

    pub(crate) fn firewall_status(&self, now: BootTime) -> FirewallStatus {
        FirewallStatus {
            table: Firewall::table_of(&self.settings.interface),
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

    /// The problems of the host at the moment, each with its fix.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.conflicts.clone();
        problems.extend(self.unguarded.clone());
        problems.extend(self.notes.iter().cloned());
        problems.extend(self.firewall.as_ref().and_then(Firewall::shortcoming));
        problems.extend(forwarding_problem().map(str::to_owned));
        problems
    }

    /// The network changed: rules that somebody removed are put back.
    pub(crate) async fn restore(&mut self) -> Result<(), GatewayError> {
        match self.wanted.clone() {
            Some(wanted) => self.apply(&wanted).await,
            None => Ok(()),
        }
    }

    /// Waits until the guard may have been changed; returns by which program, where that is known.
    pub(crate) async fn heard(&mut self) -> Option<String> {
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
    pub(crate) async fn is_guarded(&mut self, by: Option<&str>) -> Result<bool, GatewayError> {
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
    pub(crate) async fn guard(&mut self) -> Result<bool, GatewayError> {
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

    pub(crate) async fn remove(&mut self) {
        if let Some(wanted) = self.wanted.take()
            && let Err(error) = self.network.remove(&wanted).await
        {
            tracing::warn!(%error, "routes stay behind");
        }
        if let Some(firewall) = self.firewall.take()
            && let Err(error) = firewall.remove().await
        {
            tracing::warn!(%error, "the firewall table stays behind");
        }
    }
}

/// Begins to hear of changes of the guard. Without it they are found by looking.
fn listen(settings: &Settings) -> Option<FirewallWatch> {
    let opened = FirewallWatch::open(&settings.interface);
    opened
        .inspect_err(|error| tracing::debug!(%error, "changes of the firewall are not told"))
        .ok()
}

//! The gateway's needs at its host: addresses, routes to clients, and the kernel's guard.

use super::guard::Guard;
use crate::GatewayError;
use crate::settings::Settings;
use culvert_host::{
    Family, Forwarding, GatewayRules, Network, Wanted, enable_forwarding, forward_conflicts,
    forwarding, require_forwarding,
};
use culvert_policy::Prefix;
use culvert_wire::messages::{PLAIN_DNS_PORT, SITE_DNS_PORT};
use ipnet::IpNet;
use std::net::IpAddr;

const NO_IPV6: &str = "IPv6 is not forwarded: resources with IPv6 addresses are unreachable until \
                       `sysctl -w net.ipv6.conf.all.forwarding=1`";

const HIDDEN_SWITCHES: &str = "whether this machine forwards packets can't be seen, as /proc/sys is hidden: if clients reach \
                               nothing, run `sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1` on the host";

/// The set-up of this host.
pub(crate) struct Host {
    settings: Settings,
    network: Network,
    pub(super) guard: Guard,
    wanted: Option<Wanted>,
    /// The rules of the guard; none before it is set up.
    rules: Option<GatewayRules>,
    /// The ranges that may begin flows at clients.
    inbound: Vec<IpNet>,
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
            guard: Guard::new(settings.interface.clone()),
            wanted: None,
            rules: None,
            inbound: Vec::new(),
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
            plain_dns_port: PLAIN_DNS_PORT,
            host_access: self.settings.host_access,
            inbound: self.inbound.clone(),
        };
        self.guard.set(rules.clone()).await?;
        self.rules = Some(rules);
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

    /// Lets these ranges begin flows at clients, and no others.
    pub(crate) async fn set_inbound(
        &mut self,
        ranges: impl IntoIterator<Item = Prefix>,
    ) -> Result<(), GatewayError> {
        let ranges = ranges.into_iter();
        let ranges = ranges.filter_map(|range| IpNet::new(range.address(), range.len()).ok());
        self.inbound = ranges.collect();
        if let Some(rules) = &mut self.rules {
            rules.inbound.clone_from(&self.inbound);
            self.guard.set(rules.clone()).await?;
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
        self.guard.is_installed() && self.wanted.is_some()
    }

    /// The problems of the host at the moment, each with its fix.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.conflicts.clone();
        problems.extend(self.guard.unguarded().map(str::to_owned));
        problems.extend(self.notes.iter().cloned());
        problems.extend(self.guard.shortcomings());
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

    pub(crate) async fn remove(&mut self) {
        if let Some(wanted) = self.wanted.take()
            && let Err(error) = self.network.remove(&wanted).await
        {
            tracing::warn!(%error, "routes stay behind");
        }
        self.guard.remove().await;
    }
}

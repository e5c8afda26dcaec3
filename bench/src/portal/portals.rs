//! The portals of a measurement, and the database server that several of them share.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use culvert_lab::measure::Usage;
use nix::sys::signal::Signal;
use serde::Serialize;

use super::dialer::Addresses;
use super::process::Process;
use crate::postgres::Server;

/// Portals that run. The first is the one that tokens name.
pub(super) struct Portals {
    // Before the server: they end while their database is there.
    all: Vec<Process>,
    server: Option<Server>,
}

impl Portals {
    /// One portal has its own database; several share one on PostgreSQL.
    pub(super) async fn start(count: u8) -> Result<Self> {
        let server = match count {
            1 => None,
            _ => Some(Server::start()?),
        };
        let database = server.as_ref().map(|server| server.create("culvert"));
        let address = |number| IpAddr::V4(Ipv4Addr::new(127, 0, 0, number));
        let first = Process::start_on(address(1), database.transpose()?).await?;
        let mut portals = Self {
            all: vec![first],
            server,
        };
        for number in 2..=count {
            let another = portals.first().start_another(address(number)).await?;
            portals.all.push(another);
        }
        Ok(portals)
    }

    /// The one that answers the administrator.
    pub(super) fn first(&self) -> &Process {
        &self.all[0]
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.all.iter().map(Process::listen).collect()
    }

    /// Ends all of them at once, and starts them again; returns once all are ready.
    pub(super) async fn restart(&mut self, signal: Signal) -> Result<()> {
        for portal in &self.all {
            portal.signal(signal)?;
        }
        for portal in &mut self.all {
            portal.ended().await?;
        }
        for portal in &mut self.all {
            portal.spawn_again()?;
        }
        for (number, portal) in self.all.iter_mut().enumerate() {
            let ready = portal.become_ready().await;
            ready.with_context(|| format!("portal {}", number + 1))?;
        }
        Ok(())
    }

    /// The processor time and memory that everybody has used until now.
    pub(super) fn spent(&self) -> Result<Spent> {
        let portals: Result<Vec<Usage>> = self.all.iter().map(Process::usage).collect();
        let portals = portals?;
        let database = self.server.as_ref().map(Server::cpu).transpose()?;
        Ok(Spent {
            cpu_s: portals.iter().map(|used| used.cpu.as_secs_f64()).collect(),
            peak_rss_bytes: portals.iter().map(|used| used.peak_rss_bytes).collect(),
            database_cpu_s: database.as_ref().map(Duration::as_secs_f64),
            own_cpu_s: Usage::of(std::process::id())?.cpu.as_secs_f64(),
        })
    }
}

/// Processor time in seconds, and memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Spent {
    /// Of each portal, since its start.
    pub(super) cpu_s: Vec<f64>,
    pub(super) peak_rss_bytes: Vec<u64>,
    /// Of a PostgreSQL server.
    pub(super) database_cpu_s: Option<f64>,
    /// Of this program: all clients and gateways.
    pub(super) own_cpu_s: f64,
}

impl Spent {
    /// The same since then, of portals that ran at that time.
    pub(super) fn since(self, then: &Self) -> Self {
        let cpu_s = self.cpu_s.iter().zip(&then.cpu_s);
        let cpu_s = cpu_s.map(|(now, then)| now - then).collect();
        Self {
            cpu_s,
            ..self.of_others_since(then)
        }
    }

    /// The same since then, of portals that began after it.
    pub(super) fn of_others_since(self, then: &Self) -> Self {
        let database = self.database_cpu_s.zip(then.database_cpu_s);
        Self {
            database_cpu_s: database.map(|(now, then)| now - then),
            own_cpu_s: self.own_cpu_s - then.own_cpu_s,
            ..self
        }
    }

    /// Of all portals.
    pub(super) fn portals_cpu_s(&self) -> f64 {
        self.cpu_s.iter().sum()
    }
}

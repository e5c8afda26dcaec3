//! Several portals on one PostgreSQL server, each on a machine of its own, and HAProxy in front of them.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Product;
use super::networks::NAT_NET;
use super::portal::Portal;
use super::private_files::private_dir;
use super::soon::SOON;
use crate::link::Subnet;
use crate::postgres::Postgres;
use crate::{documented, peer_program, wait_until};
use culvert_base::Family;

const DATABASE_NET: Subnet = Subnet(60);

const BALANCER_NET: Subnet = Subnet(61);

/// Portal `n`, from 1, is on the internet by network 61 + n.
const FELLOW_NETS: u8 = 61;

/// The document with the configuration of HAProxy, and the addresses and the port that it gives to two portals there.
const DOCUMENT: &str = "docs/portal.md";
const DOCUMENTED_PORTALS: [&str; 2] = ["192.0.2.11:8443", "192.0.2.12:8443"];

/// The way of machines to several portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Each portal has a URL of its own, and machines know all of them.
    Urls,
    /// HAProxy passes TLS through to two of them, as the documents configure it.
    Balancer,
}

impl Product {
    /// Puts the portal on a PostgreSQL server, and makes so many portals in all, of which none runs.
    ///
    /// # Errors
    /// When the server does not start, or `ip` refuses.
    pub fn with_portals(&mut self, count: u8, front: Front) -> Result<()> {
        let machine = self.on_the_internet(DATABASE_NET)?;
        self.have_portals(count, front, Postgres::start(&machine)?)
    }

    /// A single portal, whose database is on a small disk of a server.
    ///
    /// # Errors
    /// As [`Self::with_portals`].
    pub fn with_small_server(&mut self, disk_bytes: u64) -> Result<()> {
        let machine = self.on_the_internet(DATABASE_NET)?;
        let server = Postgres::start_on_small_disk(&machine, disk_bytes)?;
        self.have_portals(1, Front::Urls, server)
    }

    fn have_portals(&mut self, count: u8, front: Front, server: Postgres) -> Result<()> {
        self.database = Some(server);
        for number in 1..count {
            let net = Subnet(FELLOW_NETS + number);
            let dir = private_dir(&self.dir, &format!("portal-{}", number + 1))?;
            let fellow = Portal::new(self.on_the_internet(net)?, net, dir);
            self.fellows.push(fellow);
        }
        let mut also = String::new();
        let url = match front {
            Front::Balancer => format!("https://{}", BALANCER_NET.host(Family::V4, 2)),
            Front::Urls => {
                let urls = self
                    .fellows
                    .iter()
                    .map(|it| format!(" --also-url {}", it.own_url()));
                also = urls.collect();
                self.portal.own_url()
            }
        };
        let database = self.database_address();
        for portal in self.portals_mut() {
            portal.front = Some(url.clone());
            fs::create_dir_all(portal.home())?;
            let file = portal.home().join("database-url");
            // Both ends are on this machine.
            let database_url = format!("postgres://culvert@{database}/culvert?sslmode=disable");
            fs::write(&file, database_url)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            portal.arguments = format!("--database-file {}{also}", file.display());
        }
        if front == Front::Balancer {
            self.start_balancer(&url)?;
        }
        Ok(())
    }

    /// Runs HAProxy for all portals. It answers nothing as long as none of them is ready.
    fn start_balancer(&mut self, url: &str) -> Result<()> {
        let mut configuration = documented(DOCUMENT, "haproxy")?;
        for (portal, documented) in self.portals().zip(DOCUMENTED_PORTALS) {
            configuration = configuration.replace(documented, &portal.address().to_string());
        }
        let file = self.dir.join("haproxy.cfg");
        fs::write(&file, configuration)?;
        let machine = self.on_the_internet(BALANCER_NET)?;
        let haproxy = peer_program("haproxy")?;
        let line = format!("{} -db -f {}", haproxy.display(), file.display());
        let balancer = self.balancer.insert(machine.spawn(&line)?);
        let at = format!("curl -ks -o /dev/null -m 4 {url}/healthz");
        // A port that refuses (7) is none that was accepted and closed again.
        wait_until("HAProxy to listen", SOON, || {
            let outcome = machine.outcome(&at);
            outcome.is_ok_and(|outcome| outcome.status.code() != Some(7))
        })
        .with_context(|| balancer.output())
    }

    /// Waits until a portal that is ready answers at the URL of all.
    ///
    /// # Errors
    /// When none does within `deadline`.
    pub fn is_reached_within(&self, deadline: Duration) -> Result<()> {
        let line = format!("curl -kfsS -o /dev/null -m 4 {}/readyz", self.portal.url());
        wait_until("a portal at its URL", deadline, || {
            let outcome = self.portal.namespace.outcome(&line);
            outcome.is_ok_and(|outcome| outcome.status.success())
        })
        .with_context(|| format!("{}{}", self.portal.output(), self.balancer_output()))
    }

    /// The log of HAProxy.
    #[must_use]
    pub fn balancer_output(&self) -> String {
        let balancer = self.balancer.as_ref();
        balancer.map_or_else(String::new, crate::Process::output)
    }

    /// The address of the PostgreSQL server.
    #[must_use]
    pub fn database_address(&self) -> IpAddr {
        DATABASE_NET.host(Family::V4, 2)
    }

    /// The address of the client's router on the lab's internet.
    #[must_use]
    pub fn nat_address(&self) -> IpAddr {
        NAT_NET.host(Family::V4, 2)
    }

    /// All portals, the first one first.
    pub fn portals(&self) -> impl Iterator<Item = &Portal> {
        std::iter::once(&self.portal).chain(&self.fellows)
    }

    /// The same, to change them.
    pub fn portals_mut(&mut self) -> impl Iterator<Item = &mut Portal> {
        std::iter::once(&mut self.portal).chain(&mut self.fellows)
    }

    /// Portal `number`, from 0.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn portal_mut(&mut self, number: usize) -> Result<&mut Portal> {
        let mut portals = self.portals_mut();
        portals
            .nth(number)
            .with_context(|| format!("there is no portal {number}"))
    }

    /// The number of the portal whose lease holds, from 0, by the database alone; none if no lease does.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn leader(&self) -> Result<Option<usize>> {
        const LEADER: &str = "SELECT p.address FROM portal p JOIN portal_lead l ON l.portal = p.id \
             WHERE l.until_ms > extract(epoch FROM clock_timestamp()) * 1000";
        let address = self.database()?.query(LEADER)?;
        let mut portals = self.portals();
        Ok(portals.position(|portal| portal.address().to_string() == address))
    }

    /// The number of changes of the leader.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn epoch(&self) -> Result<u64> {
        let epoch = self.database()?.query("SELECT epoch FROM portal_lead")?;
        Ok(epoch.parse()?)
    }

    fn database(&self) -> Result<&Postgres> {
        self.database
            .as_ref()
            .context("the portal has no server of its database")
    }
}

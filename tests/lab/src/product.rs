//! The whole product in namespaces: a portal, gateways before a private network, clients behind NAT.
//!
//! ```text
//!  client ── nat ── internet ── gateway 1 ─┐
//!                    │    └──── gateway 2 ─┴─ private (10.50.0.10, fd50::10: web server, database)
//!                  portal
//! ```
//!
//! Or several portals on a PostgreSQL server, with or without HAProxy in front of them.

mod behind_nats;
mod captive;
mod client;
mod crowd;
mod disk;
mod first_uses;
mod gateway;
mod http_proxy;
mod leader_killed;
mod names;
mod networks;
mod numbered;
mod person;
mod portal;
mod private_files;
mod relay;
mod servers;
mod several_portals;
mod soon;
mod uplink;

pub use behind_nats::BehindNats;
pub use captive::{CAPTIVE_TCP_PORT, CaptiveNetwork};
pub use client::Client;
pub use disk::SmallDisk;
pub use first_uses::{FirstUse, FirstUses};
pub use gateway::Gateway;
pub use http_proxy::HttpProxy;
pub use leader_killed::LeaderKilled;
pub use names::{Answer, Names, RecordKind, ask_at};
pub use networks::{PRIVATE_NAME, PRIVATE_NET, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6};
pub use numbered::{Echo, NumberedStream, Tally};
pub use person::{PASSWORD, form_token};
pub use portal::Portal;
pub use relay::Relay;
pub use servers::{Download, Server};
pub use several_portals::Front;
pub use uplink::Uplink;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use crate::link::Subnet;
use crate::namespace::Namespace;
use crate::postgres::Postgres;
use crate::process::Process;
use networks::{
    CLIENT_NET, NAT_NET, OTHER_CLIENT_NET, PORTAL_NET, PRIVATE_DNS_V4, default_route, forward, join,
};
use private_files::private_dir;

/// The product, running.
#[derive(Debug)]
pub struct Product {
    /// The portal, the first of several.
    pub portal: Portal,
    /// The others on its database.
    pub fellows: Vec<Portal>,
    balancer: Option<Process>,
    /// The server of the database, if it is none in the portal's state directory.
    pub database: Option<Postgres>,
    /// The gateways of the one site.
    pub gateways: Vec<Gateway>,
    /// The client's machine.
    pub client: Client,
    /// Behind the gateways.
    pub private: Namespace,
    /// The private network's DNS, which the gateways ask. It knows [`PRIVATE_NAME`].
    pub names: Names,
    /// The network that joins them.
    pub internet: Namespace,
    /// The client's router.
    pub nat: Namespace,
    dir: PathBuf,
}

impl Product {
    /// Builds the networks and starts everything: afterwards an administrator has declared the access
    /// that `access_toml` says, and both gateways and the client are connected.
    ///
    /// # Errors
    /// When a step fails; the message holds what the program said.
    pub fn start(gateways: u8, access_toml: &str) -> Result<Self> {
        let mut product = Self::networks(gateways)?;
        product.begin(access_toml)?;
        Ok(product)
    }

    /// Does the same in networks that are there already.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn begin(&mut self, access_toml: &str) -> Result<()> {
        self.declare(access_toml)?;
        self.enrol()
    }

    /// Starts the portal alone and declares access: nobody has a token yet.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn declare(&mut self, access_toml: &str) -> Result<()> {
        self.portal.start()?;
        self.portal.set_up()?;
        self.portal.apply(access_toml).map(drop)
    }

    /// Makes tokens for the gateways and the client, and starts them with these.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn enrol(&mut self) -> Result<()> {
        for gateway in &mut self.gateways {
            let token = gateway.token_file();
            self.portal.token("gateway --site lab", &token)?;
            gateway.start()?;
        }
        let token = self.client.token_file();
        self.portal.token("client --actor laptop", &token)?;
        self.client.start()
    }

    /// The networks alone, nothing running but the private network's servers.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub fn networks(gateways: u8) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = crate::reaper::process_dir()?.join(format!("product-{number}"));
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        let [internet, portal, nat, client, private] = [(); 5].map(|()| Namespace::new());
        let (internet, portal, nat, client, private) =
            (internet?, portal?, nat?, client?, private?);
        for router in [&internet, &nat] {
            forward(router)?;
        }
        join(&internet, &portal, PORTAL_NET)?;
        join(&internet, &nat, NAT_NET)?;
        join(&nat, &client, CLIENT_NET)?;
        for (namespace, net) in [
            (&portal, PORTAL_NET),
            (&nat, NAT_NET),
            (&client, CLIENT_NET),
        ] {
            default_route(namespace, net)?;
        }
        nat.shell(&format!(
            "nft 'add table inet nat; add chain inet nat post {{ type nat hook postrouting priority \
             srcnat; }}; add rule inet nat post oifname veth{} masquerade'",
            NAT_NET.0
        ))?;
        for address in [PRIVATE_V4, PRIVATE_OTHER_V4, PRIVATE_V6, PRIVATE_DNS_V4] {
            private.run(&format!("ip address add {address} dev lo"))?;
        }
        let names = Names::start(&private, PRIVATE_DNS_V4.parse()?)?;
        names.set(PRIVATE_NAME, &[PRIVATE_V4.parse()?, PRIVATE_V6.parse()?]);
        let mut made = Vec::new();
        for number in 0..gateways {
            made.push(Gateway::new(number, &internet, &private, &dir)?);
        }
        Ok(Self {
            portal: Portal::new(portal, PORTAL_NET, private_dir(&dir, "portal")?),
            fellows: Vec::new(),
            balancer: None,
            database: None,
            gateways: made,
            client: Client::new(client, private_dir(&dir, "client")?),
            private,
            names,
            internet,
            nat,
            dir,
        })
    }

    /// One more machine behind the client's router, without a token.
    ///
    /// # Errors
    /// When `ip` refuses, or there is one already.
    pub fn other_client(&self) -> Result<Client> {
        let namespace = Namespace::new()?;
        join(&self.nat, &namespace, OTHER_CLIENT_NET)?;
        default_route(&namespace, OTHER_CLIENT_NET)?;
        Ok(Client::new(
            namespace,
            private_dir(&self.dir, "other-client")?,
        ))
    }

    /// One more machine on the internet, at host 2 of `net`, which nothing else of the product uses.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn on_the_internet(&self, net: Subnet) -> Result<Namespace> {
        let namespace = Namespace::new()?;
        join(&self.internet, &namespace, net)?;
        default_route(&namespace, net)?;
        Ok(namespace)
    }

    /// A directory for the test's own files; it goes away with the process.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

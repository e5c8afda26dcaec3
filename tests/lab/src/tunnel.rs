//! Two ends that know each other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::link::{Link, LinkShape, Subnet};
use crate::namespace::Namespace;
use crate::wait::wait_until;
use crate::wireguard::{Implementation, WireGuardEnd};
use culvert_base::Family;

/// Addresses on the link.
const OUTER: Subnet = Subnet(1);

/// Addresses inside the tunnel.
const INNER: Subnet = Subnet(100);

/// The MTU that WireGuard gives an interface: 1500 less 40 of IPv6, 8 of UDP and 32 of its own.
const DEFAULT_MTU_BYTES: u32 = 1420;

/// The port of the left end; that of the right end is one higher.
const LEFT_PORT: u16 = 51820;

/// One lost initiation is repeated after 5 s (WireGuard paper, §6.1), so two may be lost.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(15);

/// The plan of a tunnel. Start from [`TunnelPlan::between`] and change fields.
#[derive(Clone, Debug)]
pub struct TunnelPlan {
    /// Runs the left end, which knows where the right one is and so starts the handshake.
    pub left: Implementation,
    /// Runs the right end, which learns the left one's endpoint from it.
    pub right: Implementation,
    /// The family that carries the tunnel.
    pub outer: Family,
    /// True if the ends have a preshared key.
    pub preshared_key: bool,
    /// The MTU of both tunnel interfaces in bytes.
    pub mtu_bytes: u32,
    /// The link underneath.
    pub link: LinkShape,
}

impl TunnelPlan {
    /// A plain tunnel over IPv4.
    #[must_use]
    pub fn between(left: &Implementation, right: &Implementation) -> Self {
        Self {
            left: left.clone(),
            right: right.clone(),
            outer: Family::V4,
            preshared_key: false,
            mtu_bytes: DEFAULT_MTU_BYTES,
            link: LinkShape::default(),
        }
    }

    /// Makes the tunnel on a fresh link between two fresh namespaces. No packet has passed yet.
    ///
    /// # Errors
    /// When an end does not start or a tool refuses.
    pub fn build(&self) -> Result<Tunnel> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        let link = Link::new(&left, &right, OUTER, self.link)?;
        self.build_over(link)
    }

    /// As [`TunnelPlan::build`], over a link that is there already.
    ///
    /// # Errors
    /// As [`TunnelPlan::build`].
    pub fn build_over(&self, link: Link) -> Result<Tunnel> {
        let right_endpoint = SocketAddr::new(link.subnet.host(self.outer, 2), LEFT_PORT + 1);
        self.build_between(
            &link.left.clone(),
            &link.right.clone(),
            link,
            right_endpoint,
        )
    }

    /// The port on which the right end will listen.
    #[must_use]
    pub const fn right_port(&self) -> u16 {
        LEFT_PORT + 1
    }

    /// Makes the ends in any two namespaces; the left one sends to `right_endpoint`, which need not
    /// be the right one itself. `link` is what [`Tunnel::link`] then holds.
    ///
    /// # Errors
    /// As [`TunnelPlan::build`].
    pub fn build_between(
        &self,
        left: &Namespace,
        right: &Namespace,
        link: Link,
        right_endpoint: SocketAddr,
    ) -> Result<Tunnel> {
        let preshared_key = match self.preshared_key {
            true => Some(crate::run("wg genpsk")?.trim().to_owned()),
            false => None,
        };
        let tunnel = Tunnel {
            left: WireGuardEnd::start(&self.left, left)?,
            right: WireGuardEnd::start(&self.right, right)?,
            link,
            plan: self.clone(),
            right_endpoint,
            preshared_key,
        };
        tunnel.configure_left()?;
        tunnel.configure_right()?;
        Ok(tunnel)
    }
}

/// Two ends over a link.
#[derive(Debug)]
pub struct Tunnel {
    /// The end that starts the handshake: host 1 inside and outside.
    pub left: WireGuardEnd,
    /// The other: host 2.
    pub right: WireGuardEnd,
    /// The link underneath.
    pub link: Link,
    plan: TunnelPlan,
    right_endpoint: SocketAddr,
    preshared_key: Option<String>,
}

impl Tunnel {
    /// The inner address of the left end.
    #[must_use]
    pub fn left_address(&self, family: Family) -> IpAddr {
        INNER.host(family, 1)
    }

    /// The inner address of the right end.
    #[must_use]
    pub fn right_address(&self, family: Family) -> IpAddr {
        INNER.host(family, 2)
    }

    /// The port on which the left end listens.
    #[must_use]
    pub fn left_port(&self) -> u16 {
        LEFT_PORT
    }

    /// The port on which the right end listens.
    #[must_use]
    pub fn right_port(&self) -> u16 {
        LEFT_PORT + 1
    }

    /// Gives the left end its keys, addresses and peer, as after a restart of it.
    ///
    /// # Errors
    /// When `wg` or `ip` refuses.
    pub fn configure_left(&self) -> Result<()> {
        self.left.configure(
            LEFT_PORT,
            &INNER.interface_addresses(1),
            self.plan.mtu_bytes,
        )?;
        self.left.set_peer(
            &self.right.keys.public_key,
            Some(self.right_endpoint),
            &allowed_ips(2),
            self.preshared_key.as_deref(),
        )
    }

    /// Gives the right end its keys, addresses and peer, as after a restart of it.
    ///
    /// # Errors
    /// When `wg` or `ip` refuses.
    pub fn configure_right(&self) -> Result<()> {
        self.right.configure(
            LEFT_PORT + 1,
            &INNER.interface_addresses(2),
            self.plan.mtu_bytes,
        )?;
        // Tailscale's fork leaves it to its caller to follow a peer, so it must be told.
        let left_endpoint = (self.plan.right == Implementation::Tailscale)
            .then(|| SocketAddr::new(self.link.subnet.host(self.plan.outer, 1), LEFT_PORT));
        self.right.set_peer(
            &self.left.keys.public_key,
            left_endpoint,
            &allowed_ips(1),
            self.preshared_key.as_deref(),
        )
    }

    /// Waits until a ping from left to right comes back.
    ///
    /// # Errors
    /// When none does in time.
    pub fn wait_until_up(&self) -> Result<()> {
        self.wait_until_reachable(&self.left.namespace, self.right_address(Family::V4))
            .with_context(|| {
                let (left, right) = (self.left.process.output(), self.right.process.output());
                format!("the left end said: {left}\nthe right end said: {right}")
            })
    }

    /// Waits until a ping from `namespace` to `address` comes back.
    ///
    /// # Errors
    /// When none does in time.
    pub fn wait_until_reachable(&self, namespace: &Namespace, address: IpAddr) -> Result<()> {
        let line = format!("ping -c 1 -W 0.5 {address}");
        wait_until(&format!("an answer to {line}"), HANDSHAKE_DEADLINE, || {
            namespace.run(&line).is_ok()
        })
    }
}

/// The inner addresses of one host, as `wg` writes them.
fn allowed_ips(host: u8) -> String {
    format!(
        "{}/32,{}/128",
        INNER.host(Family::V4, host),
        INNER.host(Family::V6, host)
    )
}

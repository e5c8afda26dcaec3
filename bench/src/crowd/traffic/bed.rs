//! An end with thousands of peers, and one client of it that has traffic.

use super::super::company::{Company, configuration, hex, own_key};
use super::super::program::{PORT, Program};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_lab::{
    Family, Implementation, Link, LinkShape, Namespace, Subnet, WireGuardEnd, wait_until,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Between both ends.
const OUTER: Subnet = Subnet(1);

/// Inside the tunnel: no peer of the company has these.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);

const CLIENT_PORT: u16 = 51_821;
const MTU_BYTES: u32 = 1420;

/// Two lost initiations are repeated within this time (WireGuard paper, section 6.1).
const SOON: Duration = Duration::from_secs(15);

/// One program at both ends of a link. It has all processors.
pub(super) struct Bed {
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    pub(super) program: Program,
    pub(super) company: Company,
    _end: WireGuardEnd,
    _link: Link,
}

impl Bed {
    pub(super) fn new(implementation: &Implementation, peers: u32) -> Result<Self> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let link = Link::new(&client, &server, OUTER, LinkShape::default())?;
        let program = Program::start_anywhere(implementation, &server)?;
        let company = Company::of(peers);
        program.set(&configuration(&company, None))?;
        let end = WireGuardEnd::start(implementation, &client)?;
        let key = STANDARD.decode(&end.keys.public_key)?;
        program.set(&format!(
            "set=1\npublic_key={}\nallowed_ip={CLIENT}/32\n\n",
            hex(&key)
        ))?;
        let interface = program.interface();
        server.run(&format!("ip address add {SERVER}/24 dev {interface}"))?;
        server.run(&format!("ip link set {interface} mtu {MTU_BYTES}"))?;
        end.configure(CLIENT_PORT, &[format!("{CLIENT}/24")], MTU_BYTES)?;
        let public_key = STANDARD.encode(own_key().public_key().as_bytes());
        let endpoint = SocketAddr::new(OUTER.host(Family::V4, 2), PORT);
        end.set_peer(&public_key, Some(endpoint), &format!("{SERVER}/32"), None)?;
        let line = format!("ping -c 1 -W 0.5 {SERVER}");
        wait_until(&format!("an answer to {line}"), SOON, || {
            client.run(&line).is_ok()
        })
        .with_context(|| end.process.output())?;
        Ok(Self {
            client,
            server,
            program,
            company,
            _end: end,
            _link: link,
        })
    }

    /// The address of the server inside the tunnel.
    pub(super) fn address(&self) -> IpAddr {
        SERVER.into()
    }
}

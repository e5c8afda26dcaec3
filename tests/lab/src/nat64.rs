//! A network that has IPv6 alone, behind a NAT64 (RFC 6146): tayga, and a resolver that tells its prefix (RFC 7050).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::link::{Link, LinkShape, Subnet};
use crate::namespace::Namespace;
use crate::peer_program;
use crate::process::Process;
use crate::product::Names;
use crate::wait_until;
use culvert_base::Family;

/// The prefix of the translator. The well-known one may not stand for the private addresses of a lab (RFC 6052 §3.1).
pub const PREFIX: &str = "fd64::/96";

/// The translator's IPv4 addresses, which the router translates once more.
const POOL: &str = "192.168.255.0/24";
const POOL_ADDRESS: &str = "192.168.255.1";

/// The time that the translator may take to begin.
const STARTED_WITHIN: Duration = Duration::from_secs(20);

/// The IPv4 addresses that the name of RFC 7050 has, and what a resolver behind the NAT64 adds to them.
const IPV4_ONLY_NAME: &str = "ipv4only.arpa";
const IPV4_ONLY: [&str; 4] = [
    "192.0.0.170",
    "192.0.0.171",
    "fd64::c000:aa",
    "fd64::c000:ab",
];

/// The router, with its translator and its resolver.
#[derive(Debug)]
pub struct Nat64 {
    /// The router.
    pub router: Namespace,
    /// The machine behind it.
    pub inside: Namespace,
    /// Its `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    _translator: Process,
    _names: Names,
}

impl Nat64 {
    /// Joins a router to `internet`, and a machine with IPv6 alone to the router. Files lie in `dir`.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses, or tayga is missing.
    pub fn new(internet: &Namespace, nets: [Subnet; 2], dir: &Path) -> Result<Self> {
        let [outside, inside_net] = nets;
        let (router, inside) = (Namespace::new()?, Namespace::new()?);
        let uplink = Link::new(internet, &router, outside, LinkShape::default())?;
        let link = Link::new(&router, &inside, inside_net, LinkShape::default())?;
        let via = outside.host(Family::V4, 1);
        router.run(&format!("ip route add default via {via}"))?;
        for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            router.run(&format!("sysctl -q -w {setting}=1"))?;
        }
        inside.run(&format!("ip -4 address flush dev {}", link.interface))?;
        let gateway = inside_net.host(Family::V6, 1);
        inside.run(&format!("ip route add default via {gateway}"))?;

        let translator = translate(&router, &uplink.interface, dir)?;
        let names = Names::start(&router, gateway)?;
        let addresses: Result<Vec<_>, _> = IPV4_ONLY.into_iter().map(str::parse).collect();
        names.set(IPV4_ONLY_NAME, &addresses?);
        let resolv_conf = dir.join("nat64-resolv.conf");
        fs::write(&resolv_conf, format!("nameserver {gateway}\n"))?;
        Ok(Self {
            router,
            inside,
            resolv_conf,
            _translator: translator,
            _names: names,
        })
    }
}

/// Starts the translator of a router whose interface on the internet is `uplink`.
fn translate(router: &Namespace, uplink: &str, dir: &Path) -> Result<Process> {
    let program = peer_program("tayga")?;
    let (data, file) = (dir.join("tayga"), dir.join("tayga.conf"));
    fs::create_dir_all(&data)?;
    let configuration = format!(
        "tun-device nat64\nipv4-addr {POOL_ADDRESS}\nprefix {PREFIX}\ndynamic-pool {POOL}\ndata-dir {}\n",
        data.display()
    );
    fs::write(&file, configuration)?;
    let (program, file) = (program.display(), file.display());
    router.run(&format!("{program} --mktun -c {file}"))?;
    router.run("ip link set nat64 up")?;
    router.run(&format!("ip route add {POOL} dev nat64"))?;
    router.run(&format!("ip route add {PREFIX} dev nat64"))?;
    router.shell(&format!(
        "nft 'add table ip nat; add chain ip nat after {{ type nat hook postrouting priority srcnat; }}; \
         add rule ip nat after oifname {uplink} masquerade'"
    ))?;
    let process = router.spawn(&format!("{program} -d -c {file}"))?;
    wait_until("the translator", STARTED_WITHIN, || {
        router
            .run("ip -o link show nat64")
            .is_ok_and(|link| link.contains("LOWER_UP"))
    })
    .context(process.output())?;
    Ok(process)
}

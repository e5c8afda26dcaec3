//! A device without Culvert, with a file that the portal made: what `wg-quick` does with it is done by `ip` and `wg`.

use crate::common::{SOON, WEB_PORT};
use anyhow::{Context, Result, ensure};
use culvert_lab::product::{Download, Gateway, Names, PRIVATE_V4, Product};
use culvert_lab::{Family, Implementation, Namespace, Subnet, WireGuardEnd, wait_until};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first device's network on the lab's internet; the others follow.
pub(crate) const FIRST_NET: u8 = 41;

/// The port of gateways, unless they are told another.
pub(crate) const GATEWAY_PORT: u16 = 51_820;

/// The resolver of the network that a device is in.
const PROVIDER_DNS: &str = "127.0.0.1";

/// The programs that use the files.
pub(crate) const PROGRAMS: [(&str, Implementation); 3] = [
    ("wireguard-go", Implementation::WireguardGo),
    ("boringtun", Implementation::Boringtun),
    ("gotatun", Implementation::Gotatun),
];

/// A device, whose tunnel is up.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    pub(crate) end: WireGuardEnd,
    pub(crate) file: PathBuf,
    /// The resolver of the network that it is in, which knows the gateways' names.
    _provider: Names,
}

impl Device {
    /// A device with a file that is there.
    pub(crate) fn start(
        product: &Product,
        number: u8,
        name: &str,
        program: &Implementation,
        file: &Path,
    ) -> Result<Self> {
        let namespace = product.on_the_internet(Subnet(FIRST_NET + number))?;
        let end = WireGuardEnd::start(program, &namespace)?;
        let provider = Names::start(&namespace, PROVIDER_DNS.parse()?)?;
        for gateway in &product.gateways {
            let address = gateway.public_address(Family::V4);
            provider.set(&host_name(gateway), &[address]);
        }
        let device = Self {
            name: name.to_owned(),
            namespace,
            end,
            file: file.to_owned(),
            _provider: provider,
        };
        device.use_file()?;
        Ok(device)
    }

    /// The values of a key of its file.
    pub(crate) fn values(&self, key: &str) -> Result<Vec<String>> {
        let text = fs::read_to_string(&self.file)?;
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        let values = lines.filter(|(name, _)| *name == key);
        let values = values.flat_map(|(_, value)| value.split(", "));
        Ok(values.map(str::to_owned).collect())
    }

    /// Does as `wg-quick` does with the file: the addresses and routes are the system's, the rest is `wg setconf`'s.
    fn use_file(&self) -> Result<()> {
        let text = fs::read_to_string(&self.file)?;
        ensure!(self.values("Address")?.len() == 2, "{text}");
        let of_system = ["Address", "DNS"];
        let stripped = text.lines();
        let stripped = stripped.filter(|line| !of_system.iter().any(|key| line.starts_with(key)));
        let stripped: Vec<_> = stripped.collect();
        let interface = &self.end.interface;
        let config = self.file.with_extension(interface);
        fs::write(&config, stripped.join("\n") + "\n")?;
        // It looks the names of endpoints up before the tunnel is there.
        let set = format!("wg setconf {interface} {}", config.display());
        self.run_with_dns(PROVIDER_DNS.parse()?, &set)?;
        for address in self.values("Address")? {
            let line = format!("ip address add {address} dev {interface}");
            self.namespace.run(&line)?;
        }
        let line = format!("ip link set {interface} mtu 1420 up");
        self.namespace.run(&line)?;
        for network in self.values("AllowedIPs")? {
            let line = format!("ip route add {network} dev {interface}");
            self.namespace.run(&line)?;
        }
        Ok(())
    }

    /// The answer of a web server; none where nobody answers in a moment.
    pub(crate) fn answer(&self, address: &str, port: u16) -> Option<String> {
        let line = format!("curl -gfsS -m 4 http://{address}:{port}/");
        let outcome = self.namespace.outcome(&line).ok()?;
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        outcome.status.success().then_some(text)
    }

    pub(crate) fn comes_to_reach(&self, address: &str, within: Duration) -> Result<()> {
        let what = format!("an answer of {address} to {}", self.name);
        wait_until(&what, within, || self.answer(address, WEB_PORT).is_some())
    }

    /// Waits until the address answers, and checks by which gateway.
    pub(crate) fn reaches_by(&self, address: &str, gateway: &Gateway) -> Result<()> {
        self.comes_to_reach(address, SOON)?;
        let answer = self.answer(address, WEB_PORT).context("no answer")?;
        let through = gateway.private_address(Family::V4);
        let expected = format!("you come from {through} ");
        ensure!(answer.starts_with(&expected), "{}: {answer}", self.name);
        Ok(())
    }

    pub(crate) fn download(&self) -> Result<Download> {
        Download::start(&self.namespace, PRIVATE_V4.parse()?, WEB_PORT)
    }

    /// Runs a program that asks this DNS server and no other.
    pub(crate) fn run_with_dns(&self, server: IpAddr, line: &str) -> Result<String> {
        let resolvers = self
            .file
            .with_extension(format!("{}.resolv", self.end.interface));
        fs::write(&resolvers, format!("nameserver {server}\n"))?;
        self.namespace.shell(&format!(
            "mount --bind {} /etc/resolv.conf && exec {line}",
            resolvers.display()
        ))
    }
}

/// The name at which devices find a gateway.
pub(crate) fn host_name(gateway: &Gateway) -> String {
    format!("{}.vpn.example", gateway.name)
}

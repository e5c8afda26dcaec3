//! A portal and relays on the internet, and gateways and clients each behind a router of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use super::captive::CaptiveNetwork;
use super::client::Client;
use super::gateway::Gateway;
use super::http_proxy::HttpProxy;
use super::networks::{GATEWAY_NETS, PORTAL_NET, default_route, forward, join};
use super::portal::Portal;
use super::private_files::private_dir;
use super::relay::Relay;
use super::servers::{Download, Server};
use super::uplink::Uplink;
use crate::link::Subnet;
use crate::namespace::Namespace;
use crate::nat::{NatKind, RouterNets, Routers};
use crate::nat64::Nat64;
use culvert_base::Family;

/// Relay `n` is on the internet by network 60 + n.
const RELAY_NETS: u8 = 60;

/// The routers of gateway `n` are on the internet by network 100 + n, and those of client `n` by 140 + n.
const GATEWAY_ROUTERS: u8 = 100;
const CLIENT_ROUTERS: u8 = 140;

/// The network between two routers is the one on the internet and this.
const BETWEEN: u8 = 20;

/// Client `n` is in network 180 + n.
const CLIENT_NETS: u8 = 180;

/// The network in which client `n` is captive.
const CAPTIVE_NETS: u8 = 220;

/// The network of the HTTP proxy.
const PROXY_NET: Subnet = Subnet(90);

/// The port of the HTTP proxy.
const PROXY_PORT: u16 = 3128;

/// The routers of the second uplink of client `n` are on the internet by network 200 + n. Further networks of it come after
/// all of these.
const UPLINK_ROUTERS: u8 = 200;
const UPLINKS: u8 = 10;

/// The port of the resources.
const WEB_PORT: u16 = 80;

/// The scene. Gateway `n` serves a site with one web server, which every client may use.
#[derive(Debug)]
pub struct BehindNats {
    /// The portal.
    pub portal: Portal,
    /// The relays.
    pub relays: Vec<Relay>,
    /// The gateways.
    pub gateways: Vec<Gateway>,
    /// The routers of each.
    pub gateway_routers: Vec<Routers>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The routers of each.
    pub client_routers: Vec<Routers>,
    /// The network that joins them.
    pub internet: Namespace,
    /// Behind the gateways.
    pub private: Namespace,
    /// TCP and UDP ports of each resource that clients may use.
    pub ports: Vec<u16>,
    _servers: Vec<Server>,
    dir: PathBuf,
}

impl BehindNats {
    /// Builds the networks: a gateway behind a router of each of `gateways`, a client behind one of each of `clients`.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub fn new(relays: u8, gateways: &[NatKind], clients: &[NatKind]) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = crate::reaper::process_dir()?.join(format!("nats-{number}"));
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        let [internet, portal, private] = [(); 3].map(|()| Namespace::new());
        let (internet, portal, private) = (internet?, portal?, private?);
        forward(&internet)?;
        join(&internet, &portal, PORTAL_NET)?;
        default_route(&portal, PORTAL_NET)?;
        let mut scene = Self {
            portal: Portal::new(portal, PORTAL_NET, private_dir(&dir, "portal")?),
            relays: Vec::new(),
            gateways: Vec::new(),
            gateway_routers: Vec::new(),
            clients: Vec::new(),
            client_routers: Vec::new(),
            internet,
            private: private.clone(),
            ports: vec![WEB_PORT],
            _servers: Vec::new(),
            dir,
        };
        for number in 0..relays {
            scene.add_relay(number)?;
        }
        for (number, kind) in (0..).zip(gateways) {
            scene.add_gateway(number, *kind, &private)?;
        }
        for (number, kind) in (0..).zip(clients) {
            scene.add_client(number, *kind)?;
        }
        Ok(scene)
    }

    fn add_relay(&mut self, number: u8) -> Result<()> {
        let namespace = Namespace::new()?;
        let net = Subnet(RELAY_NETS + number);
        join(&self.internet, &namespace, net)?;
        default_route(&namespace, net)?;
        let name = format!("relay-{number}");
        let mut relay = Relay::new(namespace, &name, private_dir(&self.dir, &name)?);
        relay.arguments = format!("--address {}", net.host(Family::V4, 2));
        self.relays.push(relay);
        Ok(())
    }

    fn add_gateway(&mut self, number: u8, kind: NatKind, private: &Namespace) -> Result<()> {
        let nets = RouterNets {
            outside: Subnet(GATEWAY_ROUTERS + number),
            between: Subnet(GATEWAY_ROUTERS + BETWEEN + number),
            inside: Subnet(GATEWAY_NETS + number),
        };
        let routers = Routers::new(&self.internet, kind, nets)?;
        let gateway = Gateway::new(number, &routers.inner, private, &self.dir)?;
        private.run(&format!("ip address add {} dev lo", web_address(number)))?;
        let server = Server::start(private, web_address(number), WEB_PORT)?;
        self._servers.push(server);
        self.gateways.push(gateway);
        self.gateway_routers.push(routers);
        Ok(())
    }

    fn add_client(&mut self, number: u8, kind: NatKind) -> Result<()> {
        let nets = RouterNets {
            outside: Subnet(CLIENT_ROUTERS + number),
            between: Subnet(CLIENT_ROUTERS + BETWEEN + number),
            inside: Subnet(CLIENT_NETS + number),
        };
        let routers = Routers::new(&self.internet, kind, nets)?;
        let namespace = Namespace::new()?;
        join(&routers.inner, &namespace, nets.inside)?;
        default_route(&namespace, nets.inside)?;
        let name = format!("client-{number}");
        let mut client = Client::new(namespace, private_dir(&self.dir, &name)?);
        client.name = name;
        self.clients.push(client);
        self.client_routers.push(routers);
        Ok(())
    }

    /// A second uplink of a client, behind routers of its own. It is not used before [`Uplink::take`].
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub fn add_uplink(&self, client: u8, kind: NatKind) -> Result<Uplink> {
        let nets = RouterNets {
            outside: Subnet(UPLINK_ROUTERS + client),
            between: Subnet(UPLINK_ROUTERS + UPLINKS + client),
            inside: Subnet(UPLINK_ROUTERS + 2 * UPLINKS + client),
        };
        let routers = Routers::new(&self.internet, kind, nets)?;
        let namespace = self.clients[usize::from(client)].namespace.clone();
        join(&routers.inner, &namespace, nets.inside)?;
        let first = Subnet(CLIENT_NETS + client);
        Ok(Uplink::new(namespace, [first, nets.inside], routers))
    }

    /// Adds a client on a network that has IPv6 alone, behind a NAT64. Its routers are not among the others.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses, or tayga is missing.
    pub fn add_client_with_ipv6_alone(&mut self) -> Result<Nat64> {
        let number = u8::try_from(self.clients.len())?;
        let name = format!("client-{number}");
        let dir = private_dir(&self.dir, &name)?;
        let nets = [CLIENT_ROUTERS + number, CLIENT_NETS + number].map(Subnet);
        let nat64 = Nat64::new(&self.internet, nets, &dir)?;
        let mut client = Client::new(nat64.inside.clone(), dir);
        client.name = name;
        client.machine = format!(
            "mount --bind {} /etc/resolv.conf",
            nat64.resolv_conf.display()
        );
        self.clients.push(client);
        Ok(nat64)
    }

    /// Starts everything: afterwards all machines are connected to the portal.
    ///
    /// # Errors
    /// When a step fails; the message holds what the program said.
    pub fn start(&mut self) -> Result<()> {
        self.portal.start()?;
        self.portal.set_up()?;
        self.portal.apply(&self.access())?;
        for relay in &mut self.relays {
            self.portal.token("relay", &relay.token_file())?;
            relay.start()?;
        }
        for (number, gateway) in (0..).zip(&mut self.gateways) {
            let of = format!("gateway --site {}", site(number));
            self.portal.token(&of, &gateway.token_file())?;
            gateway.start()?;
        }
        for client in &mut self.clients {
            let of = format!("client --actor {}", client.name);
            self.portal.token(&of, &client.token_file())?;
            client.start()?;
        }
        Ok(())
    }

    /// Access of every client to the web server behind each gateway.
    #[must_use]
    pub fn access(&self) -> String {
        let mut text = String::new();
        let mut members = Vec::new();
        for client in &self.clients {
            let name = &client.name;
            let _ = write!(
                text,
                "[[actor]]\nname = \"{name}\"\nkind = \"service_account\"\n"
            );
            members.push(format!("\"{name}\""));
        }
        let members = members.join(", ");
        let _ = write!(text, "[[group]]\nname = \"all\"\nmembers = [{members}]\n");
        let by_port = |protocol| {
            let ports = &self.ports;
            format!("{{ protocol = \"{protocol}\", ports = {ports:?} }}")
        };
        let (tcp, udp) = (by_port("tcp"), by_port("udp"));
        let filters = format!("{tcp}, {udp}, {{ protocol = \"icmp\" }}");
        for number in (0..).take(self.gateways.len()) {
            let (site, address) = (site(number), web_address(number));
            let _ = write!(
                text,
                "[[site]]\nname = \"{site}\"\n\
                 [[resource]]\nname = \"{site}\"\nsite = \"{site}\"\nkind = \"address\"\naddress = \"{address}\"\n\
                 filters = [{filters}]\n\
                 [[policy]]\nname = \"{site}\"\ngroup = \"all\"\nresource = \"{site}\"\n"
            );
        }
        text
    }

    /// The address of the resource behind a gateway.
    #[must_use]
    pub const fn resource(gateway: u8) -> IpAddr {
        web_address(gateway)
    }

    /// True if a client reaches the web server behind a gateway.
    #[must_use]
    pub fn reaches(&self, client: usize, gateway: u8) -> bool {
        let line = format!("curl -fsS -m 5 http://{}/", web_address(gateway));
        self.clients[client].namespace.run(&line).is_ok()
    }

    /// A download of a client from the web server behind a gateway.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn download(&self, client: usize, gateway: u8) -> Result<Download> {
        let address = web_address(gateway);
        Download::start(&self.clients[client].namespace, address, WEB_PORT)
    }

    /// Drops every datagram between the networks of a client and a gateway, so that only relays join them.
    ///
    /// # Errors
    /// When `nft` refuses.
    pub fn cut(&self, client: u8, gateway: u8) -> Result<()> {
        let [client, gateway] = [CLIENT_ROUTERS + client, GATEWAY_ROUTERS + gateway].map(Subnet);
        let [client, gateway] = [client, gateway].map(|net| net.network(Family::V4));
        self.internet
            .shell(&format!(
                "nft 'add table ip cut; add chain ip cut forward {{ type filter hook forward priority filter; }}; \
                 add rule ip cut forward ip saddr {client} ip daddr {gateway} drop; \
                 add rule ip cut forward ip saddr {gateway} ip daddr {client} drop'"
            ))
            .map(drop)
    }

    /// Ends what [`Self::cut`] began.
    ///
    /// # Errors
    /// When nothing was cut.
    pub fn heal(&self) -> Result<()> {
        self.internet.run("nft delete table ip cut").map(drop)
    }

    /// An HTTP proxy on the internet, and its address.
    ///
    /// # Errors
    /// When it can't listen.
    pub fn proxy(&self) -> Result<(HttpProxy, SocketAddr)> {
        let namespace = Namespace::new()?;
        join(&self.internet, &namespace, PROXY_NET)?;
        default_route(&namespace, PROXY_NET)?;
        let address = PROXY_NET.host(Family::V4, 2);
        let proxy = HttpProxy::start(&namespace, address, PROXY_PORT)?;
        Ok((proxy, SocketAddr::new(address, PROXY_PORT)))
    }

    /// Writes a file that belongs to its owner alone, and returns its path.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn private_file(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path)
    }

    /// Moves a client to a network that answers everything itself.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub fn make_captive(&self, client: u8) -> Result<CaptiveNetwork> {
        let machine = &self.clients[usize::from(client)].namespace;
        let captive = CaptiveNetwork::new(machine, Subnet(CAPTIVE_NETS + client))?;
        machine.run(&format!("ip route replace default via {}", captive.via()))?;
        Ok(captive)
    }

    /// Moves a client back from it.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn release(&self, client: u8) -> Result<()> {
        let machine = &self.clients[usize::from(client)].namespace;
        let home = Subnet(CLIENT_NETS + client).host(Family::V4, 1);
        let interface = format!("veth{}", CAPTIVE_NETS + client);
        machine.run(&format!("ip route replace default via {home}"))?;
        machine
            .run(&format!("ip link delete {interface}"))
            .map(drop)
    }

    /// The name of the relay between a client and a gateway, if there is one.
    #[must_use]
    pub fn relay_between(&self, client: usize, gateway: usize) -> Option<String> {
        let name = self.gateway_status(client, gateway)["relay_name"].take();
        name.as_str().map(str::to_owned)
    }

    /// The path of a client to a gateway, as its status has it: `direct`, `relayed` or `none`; `TLS` if one of the two
    /// reaches the relay by TLS only.
    #[must_use]
    pub fn path(&self, client: usize, gateway: usize) -> String {
        let status = self.gateway_status(client, gateway);
        let path = status["path"].as_str().unwrap_or("none");
        let by_tls = status["by_tls"] == true || self.is_gateway_by_tls(gateway);
        match path {
            "relayed" if by_tls => "TLS".to_owned(),
            path => path.to_owned(),
        }
    }

    /// True if a client reaches the relay to a gateway by TLS, since UDP gets no answer.
    #[must_use]
    pub fn is_client_by_tls(&self, client: usize, gateway: usize) -> bool {
        self.gateway_status(client, gateway)["by_tls"] == true
    }

    /// True if a gateway reaches its relays by TLS, since UDP gets no answer.
    #[must_use]
    pub fn is_gateway_by_tls(&self, gateway: usize) -> bool {
        let status = self.gateways[gateway].status().unwrap_or_default();
        let mut relays = status["relays"].as_array().into_iter().flatten();
        relays.any(|relay| relay["by_tls"] == true)
    }

    /// The part of a client's status about a gateway; empty without one.
    #[must_use]
    pub fn gateway_status(&self, client: usize, gateway: usize) -> serde_json::Value {
        let status = self.clients[client].status().unwrap_or_default();
        let name = self.gateways[gateway].name.as_str();
        let mut gateways = status["gateways"].as_array().into_iter().flatten();
        gateways
            .find(|it| it["name"] == name)
            .cloned()
            .unwrap_or_default()
    }
}

fn site(gateway: u8) -> String {
    format!("site-{gateway}")
}

/// The address of the web server behind a gateway.
const fn web_address(gateway: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 50, 0, 100 + gateway))
}

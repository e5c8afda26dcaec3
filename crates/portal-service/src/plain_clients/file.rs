//! The contents of a plain WireGuard device's file, and all that can't work with it.

use crate::plain_names::NamesOfDevice;
use culvert_base::quoted;
use culvert_ids::SiteId;
use culvert_policy::Prefix;
use culvert_store::Gateway;
use culvert_wire::api::{Client, PRIVATE_KEY_PLACEHOLDER, PlainClientFile, PlainClientPeer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The time between keepalives, in seconds. NATs forget a UDP flow after 30 s or more; 25 s is WireGuard's own advice.
const PERSISTENT_KEEPALIVE_S: u16 = 25;

/// Networks of several sites that the limits name: enough to see which resources to change.
const MAX_OVERLAPS_NAMED: usize = 8;

/// The same for every device.
const LIMITS: [&str; 6] = [
    "The device uses the gateways of its file alone. When one is away, the device has no access to its site until the \
     gateway is back or the device has a file with another one.",
    "The networks in the file are those of now. Resources by address that are added later need a new file. Access that ends does so \
     at once.",
    "Rules about applications can't be enforced on the device, so resources with such a rule are refused.",
    "Conditions about the operating system deny, because nobody reports it of the device.",
    "Conditions about the public address or country are judged by the address at which the gateway hears the device. It \
     counts for 3 minutes after a handshake.",
    "Anyone with the private key is the device. Of two devices with one file, the one that sent last gets the answers.",
];

/// A gateway of the device.
pub(super) struct SiteGateway {
    pub(super) row: Gateway,
    /// Host and port; none where nobody knows one.
    pub(super) endpoint: Option<String>,
}

/// The networks of the resources that the device can use.
#[derive(Default)]
pub(super) struct Networks {
    of_site: BTreeMap<SiteId, BTreeSet<Prefix>>,
    /// The sites of the resources.
    sites: BTreeSet<SiteId>,
    /// The number of resources beyond those that a device gets.
    left_out: usize,
    names: NamesOfDevice,
}

impl Networks {
    /// The networks of the first resources, as many as `limit`. Resources by name have none.
    pub(super) fn first(of_sites: Vec<(SiteId, Option<Prefix>)>, limit: usize) -> Self {
        let left_out = of_sites.len().saturating_sub(limit);
        let mut of_site: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (site, network) in of_sites.into_iter().take(limit) {
            of_site.entry(site).or_default().extend(network);
        }
        let names = NamesOfDevice::default();
        Self {
            sites: of_site.keys().copied().collect(),
            of_site,
            left_out,
            names,
        }
    }

    /// The same, and those by which the device finds names.
    pub(super) fn with_names(mut self, names: NamesOfDevice) -> Self {
        for (site, networks) in &names.networks {
            self.of_site.entry(*site).or_default().extend(networks);
        }
        self.names = names;
        self
    }

    fn has_resource(&self, site: SiteId) -> bool {
        self.sites.contains(&site)
    }
}

/// A network and the gateway that the file sends it to.
type Route<'a> = (Prefix, &'a Gateway);

/// The file of a device with these gateways.
pub(super) fn contents(
    client: Client,
    gateways: &[SiteGateway],
    networks: &Networks,
) -> PlainClientFile {
    let mut limits: Vec<String> = LIMITS.map(str::to_owned).to_vec();
    limits.extend(networks.names.limits.iter().cloned());
    if gateways.len() < client.gateways.len() {
        limits.push(
            "A gateway of the device does not exist any more: give the device others.".to_owned(),
        );
    }
    let mut peers = Vec::new();
    let mut routes: BTreeMap<Prefix, &Gateway> = BTreeMap::new();
    let mut overlaps = Vec::new();
    for gateway in gateways {
        let row = &gateway.row;
        if row.revoked.is_some() {
            let name = quoted(&row.name);
            limits.push(format!(
                "The gateway {name} is revoked: give the device another one."
            ));
            continue;
        }
        let mut own = Vec::new();
        for network in networks.of_site.get(&row.site).into_iter().flatten() {
            match routes.get(network) {
                Some(first) => overlaps.push(same_network(*network, first, row)),
                None => {
                    routes.insert(*network, row);
                    own.push(*network);
                }
            }
        }
        peers.push(peer(gateway, &own));
        let has_resource = networks.has_resource(row.site);
        limits.extend(limits_of(gateway, &own, has_resource));
    }
    let routes: Vec<Route<'_>> = routes.into_iter().collect();
    overlaps.extend(nested(&routes));
    limits.extend(some_of(overlaps));
    if networks.left_out > 0 {
        let text = "resources more are permitted than a device gets. The oldest are in the file.";
        limits.push(format!("{} {text}", networks.left_out));
    }
    let mut file = PlainClientFile {
        addresses: vec![
            format!("{}/32", client.ipv4),
            format!("{}/128", client.ipv6),
        ],
        client,
        peers,
        dns: networks.names.dns.clone(),
        persistent_keepalive_s: PERSISTENT_KEEPALIVE_S,
        file: String::new(),
        limits,
    };
    file.file = text_of(&file);
    file
}

fn peer(gateway: &SiteGateway, networks: &[Prefix]) -> PlainClientPeer {
    PlainClientPeer {
        gateway: gateway.row.id,
        gateway_name: gateway.row.name.clone(),
        gateway_key: gateway.row.public_key,
        endpoint: gateway.endpoint.clone(),
        allowed_ips: networks.iter().map(ToString::to_string).collect(),
    }
}

/// All that can't work with one gateway.
fn limits_of(gateway: &SiteGateway, networks: &[Prefix], has_resource: bool) -> Vec<String> {
    let name = quoted(&gateway.row.name);
    let mut limits = Vec::new();
    if gateway.endpoint.is_none() {
        limits.push(format!(
            "The gateway {name} is not connected, so its address is not known: write a line `Endpoint = HOST:PORT` into \
             its section."
        ));
    }
    let text = format!(
        "No policy gives the owner a resource at the site of {name} that the device can use"
    );
    if networks.is_empty() {
        limits.push(format!("{text}: its section leads nowhere."));
    } else if !has_resource {
        limits.push(format!("{text} now."));
    }
    limits
}

/// A WireGuard device sends a network to one peer.
fn same_network(network: Prefix, first: &Gateway, second: &Gateway) -> String {
    let (first, second) = (quoted(&first.name), quoted(&second.name));
    format!(
        "{network} is at the sites of {first} and {second}. The device sends it to {first}, and does not reach it through {second}."
    )
}

/// Networks within wider ones of other gateways. Of networks that contain an address, the device takes the narrowest.
fn nested<'a>(routes: &'a [Route<'a>]) -> impl Iterator<Item = String> + 'a {
    routes.iter().flat_map(move |(wide, through)| {
        let within = routes.iter().filter(move |(narrow, other)| {
            other.id != through.id && wide.len() < narrow.len() && wide.contains(narrow.address())
        });
        within.map(move |(narrow, other)| {
            let (other, through) = (quoted(&other.name), quoted(&through.name));
            format!("{narrow} is within {wide} of {through}. The device sends it to {other} alone.")
        })
    })
}

/// As many of the overlaps as anyone reads, and the number of the others.
fn some_of(mut overlaps: Vec<String>) -> Vec<String> {
    let more = overlaps.len().saturating_sub(MAX_OVERLAPS_NAMED);
    overlaps.truncate(MAX_OVERLAPS_NAMED);
    if more > 0 {
        overlaps.push(format!(
            "{more} more networks overlap with those of other gateways."
        ));
    }
    overlaps
}

/// The file, in the format of `wg-quick`.
fn text_of(file: &PlainClientFile) -> String {
    let mut text = format!(
        "[Interface]\nPrivateKey = {PRIVATE_KEY_PLACEHOLDER}\nAddress = {}\n",
        file.addresses.join(", "),
    );
    // Writing to a text does not fail.
    if !file.dns.is_empty() {
        let servers: Vec<_> = file.dns.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "DNS = {}", servers.join(", "));
    }
    for peer in &file.peers {
        let _ = write!(text, "\n[Peer]\nPublicKey = {}\n", peer.gateway_key);
        if !peer.allowed_ips.is_empty() {
            let _ = writeln!(text, "AllowedIPs = {}", peer.allowed_ips.join(", "));
        }
        if let Some(endpoint) = &peer.endpoint {
            let _ = writeln!(text, "Endpoint = {endpoint}");
        }
        let keepalive_s = file.persistent_keepalive_s;
        let _ = writeln!(text, "PersistentKeepalive = {keepalive_s}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::{ActorId, ClientId, GatewayId};
    use culvert_store::Stamp;
    use culvert_wire::{PublicKey, Timestamp};
    use std::net::IpAddr;

    /// Gateway `number` of site `number`.
    fn gateway(number: u8) -> SiteGateway {
        SiteGateway {
            row: Gateway {
                id: GatewayId::from_bytes([number; 16]),
                site: SiteId::from_bytes([number; 16]),
                machine: format!("machine {number}"),
                name: format!("gw{number}"),
                public_key: PublicKey::from_bytes([number; 32]),
                ipv4: [100, 64, 0, number].into(),
                ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
                verified: None,
                enrolled_with: None,
                draining: false,
                revoked: None,
                seen: None,
                stamp: Stamp::default(),
            },
            endpoint: Some(format!("192.0.2.{number}:51820")),
        }
    }

    fn client(gateways: &[SiteGateway]) -> Client {
        Client {
            id: ClientId::from_bytes([9; 16]),
            actor: ActorId::from_bytes([9; 16]),
            name: "phone".to_owned(),
            public_key: PublicKey::from_bytes([9; 32]),
            ipv4: [100, 64, 0, 9].into(),
            ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 9].into(),
            gateways: gateways.iter().map(|gateway| gateway.row.id).collect(),
            verified: None,
            revoked: None,
            software: None,
            last_seen: None,
            last_address: None,
            version: 1,
            created: Timestamp::from_unix_ms(0),
            updated: Timestamp::from_unix_ms(0),
        }
    }

    fn file(gateways: &[SiteGateway], networks: &[(u8, &str)], limit: usize) -> PlainClientFile {
        let networks = networks.iter().map(|(site, network)| {
            (
                SiteId::from_bytes([*site; 16]),
                Some(network.parse().unwrap()),
            )
        });
        let networks = Networks::first(networks.collect(), limit);
        contents(client(gateways), gateways, &networks)
    }

    /// The limits that are not those of every device.
    fn own_limits(file: &PlainClientFile) -> &[String] {
        &file.limits[LIMITS.len()..]
    }

    #[test]
    fn each_gateway_has_a_section_with_the_networks_of_its_site() {
        let gateways = [gateway(1), gateway(2)];
        let networks = [(1, "10.1.0.0/16"), (2, "10.2.0.0/16"), (1, "192.0.2.7/32")];
        let file = file(&gateways, &networks, 64);
        let key = |number| PublicKey::from_bytes([number; 32]);
        let expected = format!(
            "[Interface]\nPrivateKey = REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE\nAddress = 100.64.0.9/32, fd00::9/128\n\
             \n[Peer]\nPublicKey = {}\nAllowedIPs = 10.1.0.0/16, 192.0.2.7/32\nEndpoint = 192.0.2.1:51820\nPersistentKeepalive = 25\n\
             \n[Peer]\nPublicKey = {}\nAllowedIPs = 10.2.0.0/16\nEndpoint = 192.0.2.2:51820\nPersistentKeepalive = 25\n",
            key(1),
            key(2),
        );
        assert_eq!(file.file, expected);
        assert_eq!(own_limits(&file), [""; 0]);
    }

    #[test]
    fn the_first_gateway_answers_for_names_where_it_can() {
        let gateways = [gateway(1), gateway(2)];
        let site = SiteId::from_bytes([1; 16]);
        let of_sites = vec![(site, None), (SiteId::from_bytes([2; 16]), None)];
        let networks = Networks::first(of_sites, 64).with_names(NamesOfDevice {
            networks: [
                (1, ["100.64.0.1/32", "100.96.0.0/14"].as_slice()),
                (2, &["100.100.0.0/14"]),
            ]
            .map(|(site, networks)| {
                let networks = networks.iter().map(|text| text.parse().unwrap());
                (SiteId::from_bytes([site; 16]), networks.collect())
            })
            .into(),
            dns: vec![IpAddr::from([100, 64, 0, 1])],
            limits: vec!["The device asks the gateway.".to_owned()],
        });
        let file = contents(client(&gateways), &gateways, &networks);
        assert!(file.file.contains("\nDNS = 100.64.0.1\n"), "{}", file.file);
        assert_eq!(
            file.peers[0].allowed_ips,
            ["100.64.0.1/32", "100.96.0.0/14"]
        );
        assert_eq!(file.peers[1].allowed_ips, ["100.100.0.0/14"]);
        let limits = own_limits(&file).join("\n");
        assert!(limits.contains("asks the gateway"), "{limits}");
        assert!(!limits.contains(r#"the site of "gw1""#), "{limits}");
    }

    #[test]
    fn a_file_with_names_at_eight_sites_fits_a_qr_code() {
        let gateways: Vec<_> = (1..=8).map(gateway).collect();
        let ranges = culvert_store::AccountSettings::default().ranges;
        // 64 resources: one by name at each site, and as many as are left with networks.
        let of_networks = (0..56_u8).map(|number| {
            let network = format!("203.113.100.1{number:02}/32").parse().unwrap();
            (SiteId::from_bytes([number % 8 + 1; 16]), Some(network))
        });
        let by_name = (1..=8_u8).map(|site| (SiteId::from_bytes([site; 16]), None));
        let all = of_networks.chain(by_name).collect();
        let mut networks: BTreeMap<_, Vec<Prefix>> = BTreeMap::new();
        for place in 0..8_u8 {
            let share = ranges.name_share(place).unwrap();
            networks.insert(SiteId::from_bytes([place + 1; 16]), share.into());
        }
        let server = IpAddr::from([100, 95, 255, 254]);
        let of_first = networks.first_entry().unwrap();
        of_first.into_mut().push(Prefix::host(server));
        let names = NamesOfDevice {
            networks,
            dns: vec![server],
            limits: Vec::new(),
        };
        let networks = Networks::first(all, 64).with_names(names);
        let file = contents(client(&gateways), &gateways, &networks);
        let len = file.file.len();
        assert!((2_600..=2_953).contains(&len), "{len}");
        assert!(file.peers.iter().all(|peer| peer.allowed_ips.len() >= 9));
    }

    #[test]
    fn a_network_of_two_sites_is_sent_to_the_first_gateway_and_the_file_says_so() {
        let gateways = [gateway(2), gateway(1)];
        let file = file(&gateways, &[(1, "10.0.0.0/8"), (2, "10.0.0.0/8")], 64);
        assert_eq!(file.peers[0].gateway, gateways[0].row.id);
        assert_eq!(file.peers[0].allowed_ips, ["10.0.0.0/8"]);
        assert!(file.peers[1].allowed_ips.is_empty());
        let limits = own_limits(&file).join("\n");
        assert!(
            limits.contains(r#"The device sends it to "gw2""#),
            "{limits}"
        );
        assert!(limits.contains(r#"the site of "gw1""#), "{limits}");
    }

    #[test]
    fn a_network_within_one_of_another_gateway_is_named() {
        let gateways = [gateway(1), gateway(2)];
        let networks = [
            (1, "10.0.0.0/8"),
            (2, "10.2.0.0/16"),
            (1, "10.1.0.0/16"),
            (2, "fd00::/8"),
        ];
        let file = file(&gateways, &networks, 64);
        assert_eq!(file.peers[0].allowed_ips, ["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!(file.peers[1].allowed_ips, ["10.2.0.0/16", "fd00::/8"]);
        let limit =
            r#"10.2.0.0/16 is within 10.0.0.0/8 of "gw1". The device sends it to "gw2" alone."#;
        assert_eq!(own_limits(&file), [limit]);
    }

    #[test]
    fn the_limits_are_bounded_and_say_what_is_left_out() {
        let gateways = [gateway(1), gateway(2)];
        let networks: Vec<_> = (0..20_u8)
            .map(|number| format!("10.{number}.0.0/16"))
            .collect();
        let of_sites = networks.iter().flat_map(|it| [(1, &**it), (2, &**it)]);
        let file = file(&gateways, &of_sites.collect::<Vec<_>>(), 38);
        let limits = own_limits(&file).join("\n");
        assert!(limits.contains("2 resources more"), "{limits}");
        assert!(limits.contains("11 more networks overlap"), "{limits}");
        assert_eq!(
            limits.matches("is at the sites of").count(),
            MAX_OVERLAPS_NAMED
        );
    }

    #[test]
    fn a_revoked_gateway_and_a_deleted_one_have_no_section() {
        let mut gateways = [gateway(1), gateway(2)];
        gateways[1].row.revoked = Some(Timestamp::from_unix_ms(1));
        gateways[0].endpoint = None;
        let mut device = client(&gateways);
        device.gateways.push(GatewayId::from_bytes([3; 16]));
        let file = contents(device, &gateways, &Networks::default());
        assert_eq!(file.peers.len(), 1);
        let limits = own_limits(&file).join("\n");
        for words in [
            r#""gw2" is revoked"#,
            "does not exist any more",
            r#""gw1" is not connected"#,
            "leads nowhere",
        ] {
            assert!(limits.contains(words), "{words}: {limits}");
        }
        assert!(!file.file.contains("Endpoint"), "{}", file.file);
    }
}

//! Plain WireGuard devices: phones with the official app, routers, servers with the kernel's WireGuard. Somebody adds one
//! with its public key, and gets all that its file needs but the private key.

use super::write::at_reference;
use super::{Caller, Service, names, show};
use culvert_base::quoted;
use culvert_hub::limits::{MAX_RESOURCES_PER_CLIENT, MAX_STANDING_GRANTS};
use culvert_ids::{ActorId, ClientId, GatewayId};
use culvert_policy::Prefix;
use culvert_portal_base::{Fault, birth, now};
use culvert_store::{self as store, ListFilter, Part, Role};
use culvert_wire::api::{NewPlainClient, PlainClientFile, PlainClientRekey};
use culvert_wire::model::TargetKind;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// The time between keepalives, in seconds. NATs forget a UDP flow after 30 s or more; 25 s is WireGuard's own advice.
const PERSISTENT_KEEPALIVE_S: u16 = 25;

/// Gateways that a message names: enough to choose from.
const MAX_GATEWAYS_NAMED: usize = 10;

/// Bytes of an endpoint: a host name has 253 at most, and a port 6 with its colon.
const MAX_ENDPOINT_LEN: usize = 259;

/// The same for every device.
const LIMITS: [&str; 6] = [
    "The device uses this gateway alone. When it is away, the device has no access until the gateway is back or the \
     device has a file for another one.",
    "The networks in the file are those of now. Resources that are added later need a new file. Access that ends does so at once.",
    "Rules about applications can't be enforced on the device, so resources with such a rule are refused.",
    "Conditions about the operating system or the public address deny, because nobody reports these of the device.",
    "Resources by name are refused: the device asks its own DNS server, and uses addresses.",
    "Anyone with the private key is the device. Of two devices with one file, the one that sent last gets the answers.",
];

impl Service {
    /// Adds a device: an administrator for anybody, and people for themselves where the account lets them.
    pub async fn add_plain_client(
        &self,
        caller: &Caller,
        new: NewPlainClient,
    ) -> Result<PlainClientFile, Fault> {
        let actor = match new.actor {
            Some(actor) => actor,
            None => caller.actor()?,
        };
        self.may_have_devices(caller, actor).await?;
        let endpoint = checked_endpoint(new.endpoint)?;
        let (born, random) = birth()?;
        let id = ClientId::new(born, random);
        let gateway = self.gateway_of_device(caller, new.gateway).await?;
        let row = store::NewPlainClient {
            id,
            actor,
            gateway: gateway.id,
            name: names::name("name", &new.name)?,
            public_key: new.public_key,
        };
        let add =
            self.database
                .store
                .add_plain_client(caller.account(), caller.author(), row, now());
        let added = self.database.ask("add_plain_client", add).await;
        let added = added.map_err(|error| at_reference(error, id.into()))?;
        self.file_of(caller, added, gateway, endpoint).await
    }

    /// The contents of the device's file, as of now.
    pub async fn plain_client_file(
        &self,
        caller: &Caller,
        id: ClientId,
    ) -> Result<PlainClientFile, Fault> {
        let row = self.visible_client(caller, id).await?;
        let gateway = self.get(caller.account(), plain(&row)?).await?;
        self.file_of(caller, row, gateway, None).await
    }

    /// Gives a device another key, and perhaps another gateway. Its access by the earlier key ends at once.
    pub async fn rekey_plain_client(
        &self,
        caller: &Caller,
        id: ClientId,
        expected_version: Option<u64>,
        rekey: PlainClientRekey,
    ) -> Result<PlainClientFile, Fault> {
        let row = self.visible_client(caller, id).await?;
        self.may_have_devices(caller, row.actor).await?;
        let before = plain(&row)?;
        let endpoint = checked_endpoint(rekey.endpoint)?;
        let wanted = rekey.gateway.unwrap_or(before);
        let gateway = self.gateway_of_device(caller, Some(wanted)).await?;
        let rekey = store::PlainClientRekey {
            id,
            expected_version,
            public_key: rekey.public_key,
            gateway: gateway.id,
        };
        let change =
            self.database
                .store
                .rekey_plain_client(caller.account(), caller.author(), rekey, now());
        let changed = self.database.ask("rekey_plain_client", change).await;
        let changed = changed.map_err(|error| at_reference(error, id.into()))?;
        self.file_of(caller, changed, gateway, endpoint).await
    }

    /// The client, if it is a plain device of a caller who sees their own clients alone. They may rename and delete it.
    pub(super) async fn own_plain_client(
        &self,
        caller: &Caller,
        id: ClientId,
    ) -> Result<Option<store::Client>, Fault> {
        let Some(own) = caller.sees_clients_of()? else {
            return Ok(None);
        };
        match self.get::<store::Client>(caller.account(), id).await {
            Ok(row) => Ok(Some(row).filter(|row| row.actor == own && row.gateway.is_some())),
            Err(Fault::NotFound(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn may_have_devices(&self, caller: &Caller, actor: ActorId) -> Result<(), Fault> {
        if caller.role() != Role::User {
            return caller.may_change();
        }
        caller.has_enrolled()?;
        if actor != caller.actor()? {
            let text = "the role `user` adds devices of its own, and of nobody else";
            return Err(Fault::Forbidden(text.to_owned()));
        }
        let account: store::Account = self.get(caller.account(), caller.account()).await?;
        match account.settings.own_devices {
            true => Ok(()),
            false => Err(Fault::Forbidden(
                "administrators add WireGuard devices here: ask one, or have them set `own_devices` of the account"
                    .to_owned(),
            )),
        }
    }

    /// The gateway that was asked for; else the only one that there is.
    async fn gateway_of_device(
        &self,
        caller: &Caller,
        wanted: Option<GatewayId>,
    ) -> Result<store::Gateway, Fault> {
        let account = caller.account();
        if let Some(id) = wanted {
            let found = self.get::<store::Gateway>(account, id).await;
            let gateway = found.map_err(|fault| match fault {
                Fault::NotFound(_) => {
                    Fault::invalid("gateway", format_args!("{id} does not exist"))
                }
                fault => fault,
            })?;
            return match gateway.revoked {
                None => Ok(gateway),
                Some(_) => Err(Fault::invalid("gateway", "it is revoked: name another one")),
            };
        }
        let live = ListFilter {
            parts: vec![Part::LiveGateways],
            ..ListFilter::default()
        };
        let mut gateways: Vec<store::Gateway> = self.all(account, &live).await?;
        match (gateways.len(), gateways.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(Fault::invalid("gateway", "no gateway has enrolled yet")),
            (_, Some(last)) => Err(Fault::invalid("gateway", several(gateways, last))),
        }
    }

    async fn file_of(
        &self,
        caller: &Caller,
        row: store::Client,
        gateway: store::Gateway,
        endpoint: Option<String>,
    ) -> Result<PlainClientFile, Fault> {
        let endpoint = match endpoint {
            Some(endpoint) => Some(endpoint),
            None => self.reported_endpoint(caller, gateway.id).await,
        };
        let allowed_ips = self.networks_of(caller, row.actor, &gateway).await?;
        let mut limits: Vec<String> = LIMITS.map(str::to_owned).to_vec();
        if endpoint.is_none() {
            limits.push(
                "The gateway is not connected, so its address is not known: write a line `Endpoint = HOST:PORT`."
                    .to_owned(),
            );
        }
        if allowed_ips.is_empty() {
            limits.push(
                "No policy gives the owner a resource at this site that the device can use: the file leads nowhere."
                    .to_owned(),
            );
        }
        let addresses = vec![format!("{}/32", row.ipv4), format!("{}/128", row.ipv6)];
        let mut file = PlainClientFile {
            client: show::client(row),
            addresses,
            gateway_name: gateway.name,
            gateway_key: gateway.public_key,
            endpoint,
            allowed_ips,
            persistent_keepalive_s: PERSISTENT_KEEPALIVE_S,
            file: String::new(),
            limits,
        };
        file.file = text_of(&file);
        Ok(file)
    }

    /// An address that the gateway reports, a public one before others; none while it is not connected.
    async fn reported_endpoint(&self, caller: &Caller, gateway: GatewayId) -> Option<String> {
        let sessions = self.served.gateways(caller.account()).await.ok()?;
        let session = sessions.into_iter().find(|it| it.gateway == gateway)?;
        let best = session.candidates.into_iter().min_by_key(nearness)?;
        Some(best.to_string())
    }

    /// The networks of the first [`MAX_STANDING_GRANTS`] resources that the device can use, as the hub takes them.
    async fn networks_of(
        &self,
        caller: &Caller,
        actor: ActorId,
        gateway: &store::Gateway,
    ) -> Result<Vec<String>, Fault> {
        let account = caller.account();
        let settings: store::Account = self.get(account, account).await?;
        if !settings.settings.applications.is_any() {
            return Ok(Vec::new());
        }
        let limit = MAX_RESOURCES_PER_CLIENT;
        let shown = self.resources_of_groups(account, actor, limit).await?;
        let shown: BTreeSet<_> = shown.into_iter().collect();
        let of_site = ListFilter {
            refers_to: vec![gateway.site.into()],
            ..ListFilter::default()
        };
        let mut rows: Vec<store::Resource> = self.all(account, &of_site).await?;
        rows.retain(|row| shown.contains(&row.id) && row.applications.is_any());
        rows.sort_by_key(|row| row.id);
        let networks = rows.iter().filter_map(network);
        let networks: BTreeSet<Prefix> = networks.take(MAX_STANDING_GRANTS).collect();
        Ok(networks.iter().map(ToString::to_string).collect())
    }
}

/// The gateway of a plain device.
fn plain(row: &store::Client) -> Result<GatewayId, Fault> {
    row.gateway.ok_or_else(|| {
        let text = "it is no plain WireGuard device: Culvert runs on it, and it needs no file";
        Fault::Conflict(text.to_owned())
    })
}

fn several(others: Vec<store::Gateway>, last: store::Gateway) -> String {
    let total = others.len() + 1;
    let named = others.into_iter().chain([last]).take(MAX_GATEWAYS_NAMED);
    let named: Vec<_> = named
        .map(|row| format!("{} ({})", quoted(&row.name), row.id))
        .collect();
    let more = match total > named.len() {
        true => format!(" and {} more", total - named.len()),
        false => String::new(),
    };
    format!("there are several: name one of {}{more}", named.join(", "))
}

/// The network of a resource; none of names.
fn network(row: &store::Resource) -> Option<Prefix> {
    match row.target.kind {
        TargetKind::Dns => None,
        _ => {
            let host = row.target.address.parse::<IpAddr>().map(Prefix::host);
            host.ok().or_else(|| row.target.address.parse().ok())
        }
    }
}

/// Public IPv4 addresses first, then public IPv6 addresses, then those of a private network.
fn nearness(candidate: &SocketAddr) -> u8 {
    match candidate.ip() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let is_shared = a == 100 && b & 0xc0 == 64;
            let is_local = ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared;
            if is_local { 2 } else { 0 }
        }
        IpAddr::V6(ip) if ip.segments()[0] & 0xe000 == 0x2000 => 1,
        IpAddr::V6(_) => 3,
    }
}

/// The endpoint, if it is host and port: no other text gets into the file.
fn checked_endpoint(endpoint: Option<String>) -> Result<Option<String>, Fault> {
    let Some(endpoint) = endpoint else {
        return Ok(None);
    };
    let wrong = || {
        let text = "expected HOST:PORT, such as vpn.example.com:51820 or [2001:db8::1]:51820";
        Fault::invalid("endpoint", text)
    };
    let (host, port) = endpoint.rsplit_once(':').ok_or_else(wrong)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+');
    let is_host_char = |char: char| char.is_ascii_alphanumeric() || "-.".contains(char);
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_host_char),
    };
    match is_port && is_host && endpoint.len() <= MAX_ENDPOINT_LEN {
        true => Ok(Some(endpoint)),
        false => Err(wrong()),
    }
}

/// The file, in the format of `wg-quick`.
fn text_of(file: &PlainClientFile) -> String {
    let mut text = format!(
        "[Interface]\nPrivateKey = REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE\nAddress = {}\n\n[Peer]\nPublicKey = {}\n",
        file.addresses.join(", "),
        file.gateway_key,
    );
    // Writing to a text does not fail.
    if !file.allowed_ips.is_empty() {
        let _ = writeln!(text, "AllowedIPs = {}", file.allowed_ips.join(", "));
    }
    if let Some(endpoint) = &file.endpoint {
        let _ = writeln!(text, "Endpoint = {endpoint}");
    }
    let _ = writeln!(
        text,
        "PersistentKeepalive = {}",
        file.persistent_keepalive_s
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_host_and_port_and_nothing_else() {
        for good in [
            "vpn.example.com:51820",
            "192.0.2.1:1",
            "[2001:db8::1]:65535",
        ] {
            let checked = checked_endpoint(Some(good.to_owned()));
            assert_eq!(checked, Ok(Some(good.to_owned())));
        }
        assert_eq!(checked_endpoint(None), Ok(None));
        let long = format!("{}:51820", "a".repeat(MAX_ENDPOINT_LEN));
        for wrong in [
            "",
            "vpn.example.com",
            "vpn.example.com:0",
            "vpn.example.com:65536",
            "vpn.example.com:+1",
            ":51820",
            "2001:db8::1:51820",
            "[vpn.example.com]:51820",
            "a b:51820",
            "vpn.example.com\nPostUp = reboot:51820",
            "vpn.example.com:51820\n",
            &long,
        ] {
            assert!(checked_endpoint(Some(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_address_of_the_gateway_comes_before_others() {
        let best = |candidates: &[&str]| {
            let parsed = candidates
                .iter()
                .map(|text| text.parse::<SocketAddr>().unwrap());
            parsed.min_by_key(nearness).unwrap().to_string()
        };
        let all = [
            "[fe80::1]:1",
            "10.0.0.1:1",
            "100.64.0.1:1",
            "[2001:db8::1]:1",
            "192.0.2.1:1",
        ];
        assert_eq!(best(&all), "192.0.2.1:1");
        assert_eq!(best(&all[..4]), "[2001:db8::1]:1");
        assert_eq!(best(&all[..3]), "10.0.0.1:1");
        assert_eq!(best(&all[..1]), "[fe80::1]:1");
    }
}

//! Plain WireGuard devices: phones with the official app, routers, servers with the kernel's WireGuard. Somebody adds one
//! with its public key, and gets all that its file needs but the private key.

mod endpoint;
mod file;

use super::write::at_reference;
use super::{Caller, Service, names, show};
use culvert_base::quoted;
use culvert_hub::limits::{
    DEVICE_SEEN_EVERY_MS, ENDPOINT_FRESH_MS, MAX_RESOURCES_PER_CLIENT, MAX_STANDING_GRANTS,
};
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, SiteId};
use culvert_policy::Prefix;
use culvert_portal_base::{Fault, birth, now};
use culvert_store::{self as store, EntityId, ListFilter, MAX_PLAIN_CLIENT_GATEWAYS, Part, Role};
use culvert_wire::api::{NewPlainClient, PlainClientEndpoint, PlainClientFile, PlainClientRekey};
use culvert_wire::model::TargetKind;
use endpoint::{checked_endpoints, nearness};
use file::{Networks, SiteGateway};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A plain WireGuard device was heard lately if its row says so for this time, in milliseconds: as long as an address
/// counts, and the interval at which the row is written.
pub const DEVICE_HEARD_MS: u64 = ENDPOINT_FRESH_MS + DEVICE_SEEN_EVERY_MS;

/// Gateways that a message names: enough to choose from.
const MAX_GATEWAYS_NAMED: usize = 10;

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
        let name = names::name("name", &new.name)?;
        let gateways = self.gateways_of_device(caller, &new.gateways).await?;
        let endpoints = checked_endpoints(new.endpoints, &gateways)?;
        let (born, random) = birth()?;
        let id = ClientId::new(born, random);
        let row = store::NewPlainClient {
            id,
            actor,
            gateways: gateways.iter().map(|row| row.id).collect(),
            name_shares: self.has_name_shares(caller, &gateways).await,
            name,
            public_key: new.public_key,
        };
        let add =
            self.database
                .store
                .add_plain_client(caller.account(), caller.author(), row, now());
        let added = self.database.ask("add_plain_client", add).await;
        let added = added.map_err(|error| at_reference(error, id.into()))?;
        self.file_of(caller, added, gateways, endpoints).await
    }

    /// The contents of the device's file, as of now. Each gateway has an address that it reports.
    pub async fn plain_client_file(
        &self,
        caller: &Caller,
        id: ClientId,
    ) -> Result<PlainClientFile, Fault> {
        self.plain_client_file_with(caller, id, BTreeMap::new())
            .await
    }

    /// The same, but gateways with one of these endpoints have that.
    pub async fn plain_client_file_with(
        &self,
        caller: &Caller,
        id: ClientId,
        endpoints: BTreeMap<GatewayId, String>,
    ) -> Result<PlainClientFile, Fault> {
        let row = self.visible_client(caller, id).await?;
        check_is_plain(&row)?;
        let mut gateways = Vec::new();
        for id in &row.gateways {
            match self.get::<store::Gateway>(caller.account(), *id).await {
                Ok(gateway) => gateways.push(gateway),
                // A portal of an earlier version deletes it in spite of the device.
                Err(Fault::NotFound(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        let endpoints = checked_endpoints(endpoints, &gateways)?;
        self.file_of(caller, row, gateways, endpoints).await
    }

    /// The places where gateways hear a device, the newest handshake first.
    pub async fn plain_client_endpoints(
        &self,
        caller: &Caller,
        id: ClientId,
    ) -> Result<Vec<PlainClientEndpoint>, Fault> {
        let row = self.visible_client(caller, id).await?;
        check_is_plain(&row)?;
        let views = self.served.device_endpoints(caller.account(), id).await?;
        let views = views.into_iter().map(|view| PlainClientEndpoint {
            gateway: view.gateway,
            address: view.address,
            last_handshake: view.handshake,
            counts: view.counts,
        });
        Ok(views.collect())
    }

    /// Gives a device another key, and perhaps other gateways. Its access by the earlier key ends at once.
    pub async fn rekey_plain_client(
        &self,
        caller: &Caller,
        id: ClientId,
        expected_version: Option<u64>,
        rekey: PlainClientRekey,
    ) -> Result<PlainClientFile, Fault> {
        let row = self.visible_client(caller, id).await?;
        self.may_have_devices(caller, row.actor).await?;
        check_is_plain(&row)?;
        let wanted = match rekey.gateways.is_empty() {
            true => row.gateways,
            false => rekey.gateways,
        };
        let gateways = self.gateways_of_device(caller, &wanted).await?;
        let endpoints = checked_endpoints(rekey.endpoints, &gateways)?;
        let rekey = store::PlainClientRekey {
            id,
            expected_version,
            public_key: rekey.public_key,
            gateways: wanted,
            name_shares: self.has_name_shares(caller, &gateways).await,
        };
        let change =
            self.database
                .store
                .rekey_plain_client(caller.account(), caller.author(), rekey, now());
        let changed = self.database.ask("rekey_plain_client", change).await;
        let changed = changed.map_err(|error| at_reference(error, id.into()))?;
        self.file_of(caller, changed, gateways, endpoints).await
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
            Ok(row) => Ok(Some(row).filter(|row| row.actor == own && row.is_plain())),
            Err(Fault::NotFound(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn may_have_devices(
        &self,
        caller: &Caller,
        actor: ActorId,
    ) -> Result<(), Fault> {
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

    /// The gateways that were asked for; else the only one that there is.
    async fn gateways_of_device(
        &self,
        caller: &Caller,
        wanted: &[GatewayId],
    ) -> Result<Vec<store::Gateway>, Fault> {
        let account = caller.account();
        if wanted.is_empty() {
            return Ok(vec![self.only_gateway(account).await?]);
        }
        if wanted.len() > MAX_PLAIN_CLIENT_GATEWAYS {
            let text = format!("a device uses at most {MAX_PLAIN_CLIENT_GATEWAYS}");
            return Err(Fault::invalid("gateways", text));
        }
        let mut gateways: Vec<store::Gateway> = Vec::new();
        for id in wanted {
            let found = self.get::<store::Gateway>(account, *id).await;
            let gateway = found.map_err(|fault| match fault {
                Fault::NotFound(_) => {
                    Fault::invalid("gateways", format_args!("{id} does not exist"))
                }
                fault => fault,
            })?;
            check_fits(&gateways, &gateway)?;
            gateways.push(gateway);
        }
        Ok(gateways)
    }

    async fn only_gateway(&self, account: AccountId) -> Result<store::Gateway, Fault> {
        let live = ListFilter {
            parts: vec![Part::LiveGateways],
            ..ListFilter::default()
        };
        let mut gateways: Vec<store::Gateway> = self.first_page(account, &live).await?;
        match (gateways.len(), gateways.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(Fault::invalid("gateways", "no gateway has enrolled yet")),
            (_, Some(last)) => Err(Fault::invalid("gateways", several(gateways, last))),
        }
    }

    async fn file_of(
        &self,
        caller: &Caller,
        row: store::Client,
        gateways: Vec<store::Gateway>,
        mut endpoints: BTreeMap<GatewayId, String>,
    ) -> Result<PlainClientFile, Fault> {
        let networks = self.networks_of(caller, &row, &gateways).await?;
        if endpoints.len() < gateways.len() {
            let reported = self.reported_endpoints(caller, &gateways).await;
            for (gateway, endpoint) in reported {
                endpoints.entry(gateway).or_insert(endpoint);
            }
        }
        let gateways = gateways.into_iter().map(|row| SiteGateway {
            endpoint: endpoints.remove(&row.id),
            row,
        });
        let gateways: Vec<_> = gateways.collect();
        Ok(file::contents(show::client(row), &gateways, &networks))
    }

    /// An address that each of the gateways reports, a public one before others. A gateway that is not connected has none.
    async fn reported_endpoints(
        &self,
        caller: &Caller,
        gateways: &[store::Gateway],
    ) -> BTreeMap<GatewayId, String> {
        let Ok(sessions) = self.served.gateways(caller.account()).await else {
            return BTreeMap::new();
        };
        let wanted: BTreeSet<_> = gateways.iter().map(|row| row.id).collect();
        let sessions = sessions.into_iter();
        let of_device = sessions.filter(|session| wanted.contains(&session.gateway));
        let reported = of_device.filter_map(|session| {
            let best = session.candidates.into_iter().min_by_key(nearness)?;
            Some((session.gateway, best.to_string()))
        });
        reported.collect()
    }

    /// The networks of the first [`MAX_STANDING_GRANTS`] resources that the device can use.
    async fn networks_of(
        &self,
        caller: &Caller,
        device: &store::Client,
        gateways: &[store::Gateway],
    ) -> Result<Networks, Fault> {
        let account = caller.account();
        let settings: store::Account = self.get(account, account).await?;
        if !settings.settings.applications.is_any() {
            return Ok(Networks::default());
        }
        let limit = MAX_RESOURCES_PER_CLIENT;
        let shown = self
            .resources_of_groups(account, device.actor, limit)
            .await?;
        let those = ListFilter {
            ids: Some(shown.into_iter().map(EntityId::from).collect()),
            ..ListFilter::default()
        };
        let sites: BTreeSet<_> = gateways.iter().map(|row| row.site).collect();
        // In the order of their ids, as the hub takes them.
        let mut rows: Vec<store::Resource> = self.all(account, &those).await?;
        rows.retain(|row| sites.contains(&row.site) && row.applications.is_any());
        let names = self
            .names_of_device(caller, device, gateways, &rows)
            .await?;
        let usable = rows.iter().filter_map(|row| match network(row) {
            Some(network) => Some((row.site, Some(network))),
            None if names.networks.contains_key(&row.site) => Some((row.site, None)),
            None => None,
        });
        let usable: Vec<(SiteId, Option<Prefix>)> = usable.collect();
        Ok(Networks::first(usable, MAX_STANDING_GRANTS).with_names(names))
    }
}

/// Refuses a gateway that can't be in one file with the others.
fn check_fits(others: &[store::Gateway], gateway: &store::Gateway) -> Result<(), Fault> {
    let name = quoted(&gateway.name);
    if gateway.revoked.is_some() {
        let text = format!("{name} is revoked: name another one");
        return Err(Fault::invalid("gateways", text));
    }
    let Some(other) = others.iter().find(|other| other.site == gateway.site) else {
        return Ok(());
    };
    let text = match other.id == gateway.id {
        true => format!("{name} is there twice"),
        false => format!(
            "{} and {name} are of one site: a device sends each network to one gateway, so name one of them",
            quoted(&other.name)
        ),
    };
    Err(Fault::invalid("gateways", text))
}

fn check_is_plain(row: &store::Client) -> Result<(), Fault> {
    match row.is_plain() {
        true => Ok(()),
        false => {
            let text = "it is no plain WireGuard device: Culvert runs on it, and it needs no file";
            Err(Fault::Conflict(text.to_owned()))
        }
    }
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

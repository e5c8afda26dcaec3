//! The gateways that plain WireGuard devices may use, for those who add one.

use super::{Caller, Service};
use culvert_ids::{AccountId, ActorId, GatewayId, SiteId};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityId, ListFilter, Part};
use std::collections::{BTreeMap, BTreeSet};

/// Names that one question to the database asks for: as many as a page of the console does.
const NAMES_AT_ONCE: usize = 200;

/// A gateway that a plain WireGuard device may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGateway {
    /// The gateway.
    pub id: GatewayId,
    /// Its name.
    pub name: String,
    /// Its site: a device uses one gateway of a site.
    pub site: SiteId,
    /// The name of the site.
    pub site_name: String,
    /// It is connected, so that the portal knows an address of it.
    pub is_connected: bool,
}

impl Service {
    /// True if the caller may add plain WireGuard devices of this actor; without one, of their own.
    pub async fn may_have_device_of(
        &self,
        caller: &Caller,
        actor: Option<ActorId>,
    ) -> Result<bool, Fault> {
        let actor = match actor {
            Some(actor) => actor,
            None => caller.actor()?,
        };
        match self.may_have_devices(caller, actor).await {
            Ok(()) => Ok(true),
            Err(Fault::Forbidden(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The gateways that are not revoked, by their sites and names: those of a page of the database, which is more than anybody
    /// chooses from. People who may add no device see none.
    pub async fn device_gateways(&self, caller: &Caller) -> Result<Vec<DeviceGateway>, Fault> {
        self.may_have_devices(caller, caller.actor()?).await?;
        let account = caller.account();
        let live = ListFilter {
            parts: vec![Part::LiveGateways],
            ..ListFilter::default()
        };
        let rows: Vec<store::Gateway> = self.first_page(account, &live).await?;
        let sites: BTreeSet<EntityId> = rows.iter().map(|row| row.site.into()).collect();
        let sites = self.names_of_sites(account, sites).await?;
        let connected: BTreeSet<GatewayId> = match self.served.gateways(account).await {
            Ok(sessions) => sessions.iter().map(|session| session.gateway).collect(),
            // Another portal has the sessions. An address may be written.
            Err(_) => BTreeSet::new(),
        };
        let gateways = rows.into_iter().map(|row| DeviceGateway {
            is_connected: connected.contains(&row.id),
            site_name: sites.get(&row.site.into()).cloned().unwrap_or_default(),
            id: row.id,
            name: row.name,
            site: row.site,
        });
        let mut gateways: Vec<DeviceGateway> = gateways.collect();
        gateways.sort_by_cached_key(|gateway| {
            (
                gateway.site_name.to_lowercase(),
                gateway.name.to_lowercase(),
            )
        });
        Ok(gateways)
    }

    async fn names_of_sites(
        &self,
        account: AccountId,
        sites: BTreeSet<EntityId>,
    ) -> Result<BTreeMap<EntityId, String>, Fault> {
        let sites: Vec<EntityId> = sites.into_iter().collect();
        let mut names = BTreeMap::new();
        for some in sites.chunks(NAMES_AT_ONCE) {
            let found = self.database.store.names(account, some);
            names.extend(self.database.ask("names", found).await?);
        }
        Ok(names)
    }
}

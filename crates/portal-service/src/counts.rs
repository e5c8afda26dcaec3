//! Numbers that lists show beside their rows, and machines by what they are at this moment.

use super::{Caller, ListRequest, Live, Service};
use culvert_ids::{AccountId, SiteId};
use culvert_portal_base::Fault;
use culvert_store::{EntityId, EntityKind, ListFilter, Part};
use std::collections::BTreeMap;

/// The version of the portal, with which machines are compared.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Machines that run an older version than the portal; those that are revoked are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outdated {
    /// Gateways.
    pub gateways: u64,
    /// Clients.
    pub clients: u64,
}

impl Service {
    /// The number of rows of a kind that refer to each of these, by one question. Those that none refers to are left out.
    pub async fn reference_counts<I: Into<EntityId>>(
        &self,
        caller: &Caller,
        kind: EntityKind,
        to: impl IntoIterator<Item = I>,
    ) -> Result<BTreeMap<EntityId, u64>, Fault> {
        let to: Vec<EntityId> = to.into_iter().map(Into::into).collect();
        self.counts(caller, kind, &ListFilter::default(), &to).await
    }

    /// The gateways of sites that are not revoked: those that are connected, and all. Sites without any are left out.
    pub async fn gateways_of_sites(
        &self,
        caller: &Caller,
        sites: impl IntoIterator<Item = SiteId>,
    ) -> Result<BTreeMap<EntityId, (u64, u64)>, Fault> {
        let sites: Vec<EntityId> = sites.into_iter().map(Into::into).collect();
        let live = ListFilter {
            parts: vec![Part::LiveGateways],
            ..ListFilter::default()
        };
        let connected = ListFilter {
            ids: Some(
                self.connected(caller.account(), EntityKind::Gateway)
                    .await?,
            ),
            ..live.clone()
        };
        let kind = EntityKind::Gateway;
        let all = self.counts(caller, kind, &live, &sites).await?;
        let connected = self.counts(caller, kind, &connected, &sites).await?;
        let both = all.into_iter().map(|(site, all)| {
            let connected = connected.get(&site).copied().unwrap_or(0);
            (site, (connected, all))
        });
        Ok(both.collect())
    }

    async fn counts(
        &self,
        caller: &Caller,
        kind: EntityKind,
        filter: &ListFilter,
        to: &[EntityId],
    ) -> Result<BTreeMap<EntityId, u64>, Fault> {
        caller.may_read()?;
        let store = &self.database.store;
        let counts = store.reference_counts(caller.account(), kind, filter, to);
        Ok(self.database.ask("reference_counts", counts).await?)
    }

    /// The machines that run an older version than the portal.
    pub async fn outdated(&self, caller: &Caller) -> Result<Outdated, Fault> {
        caller.may_read()?;
        let count = async |kind| {
            let older = self.older(caller.account(), kind).await?;
            Ok::<u64, Fault>(older.values().sum())
        };
        Ok(Outdated {
            gateways: count(EntityKind::Gateway).await?,
            clients: count(EntityKind::Client).await?,
        })
    }

    /// The older versions that machines run, each with their number.
    async fn older(
        &self,
        account: AccountId,
        kind: EntityKind,
    ) -> Result<BTreeMap<String, u64>, Fault> {
        let counts = self.database.store.software_counts(account, kind);
        let mut counts = self.database.ask("software_counts", counts).await?;
        counts.retain(|version, _| is_older(version, OWN_VERSION));
        Ok(counts)
    }

    async fn connected(
        &self,
        account: AccountId,
        kind: EntityKind,
    ) -> Result<Vec<EntityId>, Fault> {
        Ok(match kind {
            EntityKind::Gateway => {
                let views = self.served.gateways(account).await?;
                views.into_iter().map(|view| view.gateway.into()).collect()
            }
            EntityKind::Relay => {
                let views = self.served.relays(account).await?;
                views.into_iter().map(|view| view.relay.into()).collect()
            }
            _ => {
                let ids = self.served.client_ids(account).await?;
                ids.into_iter().map(EntityId::from).collect()
            }
        })
    }

    /// The request with what the database needs to find machines by what they are at this moment.
    pub(super) async fn narrowed(
        &self,
        caller: &Caller,
        kind: EntityKind,
        request: &ListRequest,
    ) -> Result<ListRequest, Fault> {
        let mut request = request.clone();
        let account = caller.account();
        match request.live.take() {
            None => {}
            Some(Live::Connected) => {
                request.filter.ids = Some(self.connected(account, kind).await?);
            }
            Some(Live::Outdated) => {
                let older = self.older(account, kind).await?;
                request.filter.software = Some(older.into_keys().collect());
            }
        }
        Ok(request)
    }
}

/// True if this version comes before the other. One that is none comes before nothing.
fn is_older(version: &str, than: &str) -> bool {
    let parts = |text: &str| -> Option<[u64; 3]> {
        let numbers = text.split(['-', '+']).next()?;
        let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
        numbers.ok()?.try_into().ok()
    };
    parts(version)
        .zip(parts(than))
        .is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use super::is_older;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for older in ["0.9.12", "0.10.0", "0.10.1-rc1", "0.0.99"] {
            assert!(is_older(older, "0.10.2"), "{older}");
        }
        for other in [
            "0.10.2",
            "0.10.2-rc1",
            "0.11.0",
            "1.0.0",
            "",
            "next",
            "0.9",
            "0.9.1.1",
        ] {
            assert!(!is_older(other, "0.10.2"), "{other}");
        }
    }
}

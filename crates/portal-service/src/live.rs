//! The live state of the portal and its machines, beside the configuration.

use super::list::{cursor, page_limit};
use super::{Caller, ListRequest, Service};
use culvert_control_server::Listener;
use culvert_hub::{ClientView, GatewayView, HubStatus, PathView};
use culvert_ids::{ClientId, GatewayId};
use culvert_portal_base::{Fault, UnwrittenRecords, obstacle};
use culvert_store::MAX_CHANGES_READ;
use culvert_wire::api::{
    Client, ClientPath, ClientSession, DatabaseStatus, GatewaySession, Page, PortalStatus,
};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// For how long the database may take over a question that any database answers at once.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    /// Succeeds if the portal serves; otherwise, lists the obstacles.
    pub async fn readiness(&self) -> Result<(), Vec<String>> {
        let mut reasons = self.served.obstacles();
        match timeout(
            PING_TIMEOUT,
            self.database.ask("ping", self.database.store.ping()),
        )
        .await
        {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "not ready");
                reasons.push(obstacle(&error).to_owned());
            }
            Err(_) => reasons.push("the database does not answer in time".to_owned()),
        }
        if reasons.is_empty() {
            Ok(())
        } else {
            Err(reasons)
        }
    }

    /// The status of the portal.
    pub async fn status(&self, caller: &Caller) -> Result<PortalStatus, Fault> {
        caller.may_read()?;
        let readiness = self.readiness().await;
        let hub = match self.serves(caller) {
            true => self.served.status().await,
            false => HubStatus::default(),
        };
        let feed_lag = match self.serves(caller) {
            true => self.feed_lag(&hub).await,
            false => 0,
        };
        let unwritten = match self.serves(caller) {
            true => self.served.unwritten(),
            false => UnwrittenRecords::default(),
        };
        Ok(PortalStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.served.started,
            ready: readiness.is_ok(),
            reasons: readiness.err().unwrap_or_default(),
            feed_seq: hub.seq.0,
            feed_lag,
            faults: hub.faults as u64,
            clients: hub.clients as u64,
            gateways: hub.gateways as u64,
            gateways_awaiting_verification: hub.gateways_awaiting_verification as u64,
            relays: hub.relays as u64,
            grants: hub.grants as u64,
            records_waiting: unwritten.waiting,
            records_lost: unwritten.lost,
            database: self.database_status().await,
            own_relay: match self.serves(caller) {
                true => self.own_relay_status(),
                false => None,
            },
        })
    }

    /// The database as it answers now; none if it does not.
    async fn database_status(&self) -> Option<DatabaseStatus> {
        let began = Instant::now();
        let facts = self.database.store.database();
        let facts = timeout(PING_TIMEOUT, self.database.ask("database", facts)).await;
        let facts = facts.ok()?.ok()?;
        let answered_in_us = u64::try_from(began.elapsed().as_micros());
        Some(DatabaseStatus {
            program: facts.program.to_owned(),
            version: facts.version,
            name: facts.name,
            size_bytes: facts.size_bytes,
            answered_in_us: answered_in_us.unwrap_or(u64::MAX),
        })
    }

    /// The connected clients, in the order of their ids.
    pub async fn client_sessions(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<ClientSession>, Fault> {
        caller.may_read()?;
        let limit = usize::from(page_limit(request.limit)?.rows());
        let after: Option<ClientId> = cursor(request.cursor.as_deref())?;
        // One more than a page has says whether another follows.
        let views = self
            .served
            .clients_after(caller.account(), after, limit + 1)
            .await?;
        let sessions = views.iter().map(client_session);
        Ok(page_after(sessions, after.as_ref(), limit, |session| {
            session.client
        }))
    }

    /// The sessions of those of the clients that are connected, as far as the caller may see them.
    pub async fn sessions_of_clients(
        &self,
        caller: &Caller,
        clients: &[Client],
    ) -> Result<BTreeMap<ClientId, ClientSession>, Fault> {
        let own = caller.sees_clients_of()?;
        let shown = clients
            .iter()
            .filter(|client| own.is_none_or(|own| own == client.actor));
        let shown = shown.map(|client| client.id).collect();
        let views = self.served.clients_among(caller.account(), shown).await?;
        Ok(views
            .iter()
            .map(|view| (view.client, client_session(view)))
            .collect())
    }

    /// The sessions of all gateways that are connected.
    pub async fn sessions_of_gateways(
        &self,
        caller: &Caller,
    ) -> Result<BTreeMap<GatewayId, GatewaySession>, Fault> {
        caller.may_read()?;
        let views = self.served.gateways(caller.account()).await?;
        Ok(views
            .into_iter()
            .map(|view| (view.gateway, gateway_session(view)))
            .collect())
    }

    /// The connected gateways, in the order of their ids.
    pub async fn gateway_sessions(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<GatewaySession>, Fault> {
        caller.may_read()?;
        let limit = usize::from(page_limit(request.limit)?.rows());
        let after: Option<GatewayId> = cursor(request.cursor.as_deref())?;
        let views = self.served.gateways(caller.account()).await?;
        let sessions = views.into_iter().map(gateway_session);
        Ok(page_after(sessions, after.as_ref(), limit, |session| {
            session.gateway
        }))
    }

    /// Feels whenever something happens that pages show.
    pub fn listen(&self) -> Listener {
        self.served.listen()
    }

    /// Brings the metrics up to date that are looked up only when they are asked for.
    pub async fn count_live(&self) {
        let ready = self.readiness().await.is_ok();
        let hub = self.served.status().await;
        let feed_lag = self.feed_lag(&hub).await;
        let unwritten = self.served.unwritten();
        self.metrics.live.set(ready, &hub, feed_lag, unwritten);
        let tables = [self.oidc.flows.evictions(), self.devices.evictions()];
        let tables = tables.into_iter().chain(self.sign_in.evictions());
        self.metrics.sign_ins_evicted(tables);
        self.count_portals().await;
    }

    async fn count_portals(&self) {
        let metrics = &self.metrics.portals;
        metrics.set_leadership(self.served.leadership());
        // A database that does not answer is asked once: whoever collects waits for a few seconds.
        let Some(database) = self.database_status().await else {
            return;
        };
        metrics.set_database_size(database.size_bytes);
        if let Ok(Ok(portals)) = timeout(PING_TIMEOUT, self.all_portals()).await {
            metrics.set_portals(&portals);
        }
    }

    /// The sessions are those of one account.
    pub(super) fn serves(&self, caller: &Caller) -> bool {
        self.served.is(caller.account())
    }

    /// The number of changes that the sessions do not know yet. If the database does not answer in time,
    /// the portal is not ready, which says more than a number.
    async fn feed_lag(&self, hub: &HubStatus) -> u64 {
        let changes =
            self.database
                .store
                .changes_after(self.served.account, hub.seq, MAX_CHANGES_READ);
        let changes = self.database.ask("changes_after", changes);
        match timeout(PING_TIMEOUT, changes).await {
            Ok(Ok(changes)) => changes.len() as u64,
            Ok(Err(_)) | Err(_) => 0,
        }
    }
}

/// A page of items of which there is one more if there is another page.
/// Up to `limit` of the items, which are in the order of their ids, that come after the id `after`.
pub(super) fn page_after<T, I: Ord + fmt::Display>(
    items: impl Iterator<Item = T>,
    after: Option<&I>,
    limit: usize,
    id: impl Fn(&T) -> I,
) -> Page<T> {
    let mut rest = items
        .filter(|item| after.is_none_or(|after| *after < id(item)))
        .peekable();
    let items: Vec<T> = rest.by_ref().take(limit).collect();
    let next_cursor = match rest.peek() {
        Some(_) => items.last().map(|item| id(item).to_string()),
        None => None,
    };
    Page {
        items,
        next_cursor,
        total: None,
    }
}

fn client_session(view: &ClientView) -> ClientSession {
    ClientSession {
        client: view.client,
        since: view.since,
        grants: view.grants as u64,
        resources: view.resources as u64,
        paths: view.paths.iter().map(client_path).collect(),
    }
}

fn client_path(view: &PathView) -> ClientPath {
    ClientPath {
        gateway: view.gateway,
        path: view.path,
        relay: view.relay,
        round_trip_us: view.round_trip_us,
        why: view.why.clone(),
        since: view.since,
    }
}

fn gateway_session(view: GatewayView) -> GatewaySession {
    GatewaySession {
        gateway: view.gateway,
        since: view.since,
        draining: view.draining,
        awaits_verification: view.awaits_verification,
        candidates: view.candidates,
        clients: view.clients as u64,
        grants: view.grants as u64,
        flows: u64::from(view.load.flows),
        processor_permille: view.load.processor_permille,
        rate_bytes_per_s: view.load.rate_bytes_per_s,
        relays: view.relays,
    }
}

#[cfg(test)]
mod tests {
    use super::page_after;

    #[test]
    fn pages_of_sessions_hold_each_one_once_and_the_last_names_no_next() {
        let sessions = [2_u8, 3, 5, 7];
        let page = |after: Option<u8>, limit| {
            let page = page_after(sessions.iter(), after.as_ref(), limit, |id| **id);
            let items: Vec<u8> = page.items.into_iter().copied().collect();
            (items, page.next_cursor)
        };
        assert_eq!(page(None, 1), (vec![2], Some("2".to_owned())));
        assert_eq!(page(Some(2), 2), (vec![3, 5], Some("5".to_owned())));
        assert_eq!(page(None, 4), (vec![2, 3, 5, 7], None));
        assert_eq!(page(Some(5), 2), (vec![7], None));
        // A cursor may name a session that is over.
        assert_eq!(page(Some(4), 2), (vec![5, 7], None));
        assert_eq!(page(Some(7), 2), (vec![], None));
    }
}

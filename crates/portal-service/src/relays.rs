//! Relays: they come into being by enrolling, and an administrator judges them.

use super::list::{cursor, page_limit};
use super::live::page_after;
use super::{Caller, ListRequest, Service, names, show};
use culvert_hub::RelayView;
use culvert_ids::RelayId;
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, EntityKind};
use culvert_wire::api::{Page, Relay, RelayPatch, RelaySession};
use std::collections::BTreeMap;

/// A judgement on a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayAction {
    /// Give it no new ends.
    Drain,
    /// Let it have ends again.
    Undrain,
    /// It is final.
    Revoke,
}

impl Service {
    /// A page of the relays that the caller may see.
    pub async fn relays(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Relay>, Fault> {
        caller.may_read()?;
        let request = self.narrowed(caller, EntityKind::Relay, request).await?;
        self.list(caller, &request, show::relay).await
    }

    /// The relay with this id.
    pub async fn relay(&self, caller: &Caller, id: RelayId) -> Result<Relay, Fault> {
        self.read(caller, id).await.map(show::relay)
    }

    /// Changes a relay; with `expected`, only that version of it.
    pub async fn change_relay(
        &self,
        caller: &Caller,
        id: RelayId,
        expected: Option<u64>,
        patch: RelayPatch,
    ) -> Result<Relay, Fault> {
        let change = |row: &mut store::Relay| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::relay)
    }

    /// Done again, it changes nothing: the first time counts.
    pub async fn judge_relay(
        &self,
        caller: &Caller,
        id: RelayId,
        expected: Option<u64>,
        action: RelayAction,
    ) -> Result<Relay, Fault> {
        let at = now();
        let change = |row: &mut store::Relay| {
            match action {
                RelayAction::Drain => row.draining = true,
                RelayAction::Undrain => row.draining = false,
                RelayAction::Revoke => row.revoked = row.revoked.or(Some(at)),
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::relay)
    }

    /// Deletes a relay.
    pub async fn delete_relay(
        &self,
        caller: &Caller,
        id: RelayId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Relay>(caller, id, expected, false)
            .await
    }

    /// The sessions of all relays that are connected.
    pub async fn sessions_of_relays(
        &self,
        caller: &Caller,
    ) -> Result<BTreeMap<RelayId, RelaySession>, Fault> {
        caller.may_read()?;
        let views = self.served.relays(caller.account()).await?;
        Ok(views
            .into_iter()
            .map(|view| (view.relay, relay_session(view)))
            .collect())
    }

    /// The connected relays, in the order of their ids.
    pub async fn relay_sessions(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<RelaySession>, Fault> {
        caller.may_read()?;
        let limit = usize::from(page_limit(request.limit)?.rows());
        let after: Option<RelayId> = cursor(request.cursor.as_deref())?;
        let views = self.served.relays(caller.account()).await?;
        let sessions = views.into_iter().map(relay_session);
        Ok(page_after(sessions, after.as_ref(), limit, |session| {
            session.relay
        }))
    }
}

fn relay_session(view: RelayView) -> RelaySession {
    RelaySession {
        relay: view.relay,
        since: view.since,
        draining: view.draining,
        addresses: view.addresses,
        tls_port: view.tls_port,
        given: view.given as u64,
        gateways: u64::from(view.load.gateways),
        clients: u64::from(view.load.clients),
        processor_permille: view.load.processor_permille,
        rate_bytes_per_s: view.load.rate_bytes_per_s,
    }
}

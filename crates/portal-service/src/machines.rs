//! Clients and gateways: they come into being by enrolling, and an administrator judges them.

use super::{Caller, ListRequest, Service, names, show};
use culvert_base::quoted;
use culvert_ids::{ClientId, GatewayId, SiteId};
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, EntityKind};
use culvert_wire::api::{Client, ClientPatch, Gateway, GatewayPatch, Page};

/// A judgement on a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Say that it is the right one.
    Verify,
    /// Take that back.
    Unverify,
    /// It is final.
    Revoke,
}

/// A judgement on a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayAction {
    /// Say that it is the right one.
    Verify,
    /// Take that back.
    Unverify,
    /// Move its clients to other gateways.
    Drain,
    /// Let it have clients again.
    Undrain,
    /// It is final.
    Revoke,
}

impl Service {
    /// A page of the clients that the caller may see.
    pub async fn clients(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Client>, Fault> {
        let own = caller.sees_clients_of()?;
        let request = self.narrowed(caller, EntityKind::Client, request).await?;
        let request = request.referring_to(own);
        self.list_own(caller, &request, show::client).await
    }

    /// The client with this id.
    pub async fn client(&self, caller: &Caller, id: ClientId) -> Result<Client, Fault> {
        self.visible_client(caller, id).await.map(show::client)
    }

    /// For a caller who sees their own clients alone, a client of another actor does not exist.
    pub(super) async fn visible_client(
        &self,
        caller: &Caller,
        id: ClientId,
    ) -> Result<store::Client, Fault> {
        let row: store::Client = self.get(caller.account(), id).await?;
        match caller.sees_clients_of()? {
            Some(own) if own != row.actor => Err(store::StoreError::NotFound(id.into()).into()),
            _ => Ok(row),
        }
    }

    /// Changes a client; with `expected`, only that version of it.
    pub async fn change_client(
        &self,
        caller: &Caller,
        id: ClientId,
        expected: Option<u64>,
        patch: ClientPatch,
    ) -> Result<Client, Fault> {
        let change = |row: &mut store::Client| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            Ok(())
        };
        let changed = match self.own_plain_client(caller, id).await? {
            Some(own) => self.change_row(caller, own, expected, change).await,
            None => self.change(caller, id, expected, change).await,
        };
        changed.map(show::client)
    }

    /// Done again, it changes nothing: the first time counts.
    pub async fn judge_client(
        &self,
        caller: &Caller,
        id: ClientId,
        expected: Option<u64>,
        action: ClientAction,
    ) -> Result<Client, Fault> {
        let at = now();
        let change = |row: &mut store::Client| {
            match action {
                ClientAction::Verify if row.revoked.is_some() => return Err(revoked()),
                ClientAction::Verify => row.verified = row.verified.or(Some(at)),
                ClientAction::Unverify => row.verified = None,
                ClientAction::Revoke => row.revoked = row.revoked.or(Some(at)),
            }
            Ok(())
        };
        // A person who loses a machine may give it up at once.
        let gives_up = action == ClientAction::Revoke && caller.sees_clients_of()?.is_some();
        let changed = match gives_up {
            true => {
                let row = self.visible_client(caller, id).await?;
                self.change_row(caller, row, expected, change).await
            }
            false => self.change(caller, id, expected, change).await,
        };
        changed.map(show::client)
    }

    /// Deletes a client.
    pub async fn delete_client(
        &self,
        caller: &Caller,
        id: ClientId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        if self.own_plain_client(caller, id).await?.is_some() {
            return self.delete_own(caller, id.into(), expected).await;
        }
        self.delete::<store::Client>(caller, id, expected, false)
            .await
    }

    /// A page of the gateways that the caller may see.
    pub async fn gateways(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Gateway>, Fault> {
        caller.may_read()?;
        let request = self.narrowed(caller, EntityKind::Gateway, request).await?;
        self.list(caller, &request, show::gateway).await
    }

    /// A site that is not there is no site without gateways.
    pub async fn gateways_of_site(
        &self,
        caller: &Caller,
        site: SiteId,
        request: ListRequest,
    ) -> Result<Page<Gateway>, Fault> {
        self.read::<store::Site>(caller, site).await?;
        let request = request.referring_to(Some(site));
        self.gateways(caller, &request).await
    }

    /// Those that the account's requirement of verified gateways shuts out, or would.
    pub async fn unverified_gateways(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Gateway>, Fault> {
        let request = request.of_part(store::Part::UnverifiedGateways);
        self.list(caller, &request, show::gateway).await
    }

    /// The gateway with this id.
    pub async fn gateway(&self, caller: &Caller, id: GatewayId) -> Result<Gateway, Fault> {
        self.read(caller, id).await.map(show::gateway)
    }

    /// Changes a gateway; with `expected`, only that version of it.
    pub async fn change_gateway(
        &self,
        caller: &Caller,
        id: GatewayId,
        expected: Option<u64>,
        patch: GatewayPatch,
    ) -> Result<Gateway, Fault> {
        let change = |row: &mut store::Gateway| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::gateway)
    }

    /// Done again, it changes nothing: the first time counts.
    pub async fn judge_gateway(
        &self,
        caller: &Caller,
        id: GatewayId,
        expected: Option<u64>,
        action: GatewayAction,
    ) -> Result<Gateway, Fault> {
        let at = now();
        let change = |row: &mut store::Gateway| {
            match action {
                GatewayAction::Verify if row.revoked.is_some() => return Err(revoked()),
                GatewayAction::Verify => row.verified = row.verified.or(Some(at)),
                GatewayAction::Unverify => row.verified = None,
                GatewayAction::Drain => row.draining = true,
                GatewayAction::Undrain => row.draining = false,
                GatewayAction::Revoke => row.revoked = row.revoked.or(Some(at)),
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::gateway)
    }

    /// Drains a gateway, and moves its clients to others of its site at once. If there is no other that can take them
    /// they lose their access, so that has to be wanted (`force`).
    pub async fn drain_gateway_now(
        &self,
        caller: &Caller,
        id: GatewayId,
        expected: Option<u64>,
        force: bool,
    ) -> Result<Gateway, Fault> {
        caller.may_change()?;
        let before = self.gateway(caller, id).await?;
        let is_served = self.serves(caller);
        if is_served && !force && !self.served.is_dispensable(id).await? {
            return Err(Fault::Conflict(not_dispensable(&before.name, id)));
        }
        let drained = self
            .judge_gateway(caller, id, expected, GatewayAction::Drain)
            .await?;
        if is_served {
            let clients = self.served.drain_now(id).await?;
            tracing::info!(gateway = drained.name, %id, clients, "a gateway is drained at once");
        }
        Ok(drained)
    }

    /// Deletes a gateway.
    pub async fn delete_gateway(
        &self,
        caller: &Caller,
        id: GatewayId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Gateway>(caller, id, expected, false)
            .await
    }
}

fn revoked() -> Fault {
    Fault::Conflict("it is revoked, which is final: let the machine enrol again".to_owned())
}

/// The command has the id: a machine chooses its name, and a shell would run a part of one such as `$(reboot)`.
fn not_dispensable(name: &str, id: GatewayId) -> String {
    format!(
        "no other gateway of the site can take the clients of {}: none is connected, verified where that is required, \
         and not draining; `culvert admin gateway drain {id} --now --force` drains it nevertheless, and its clients \
         lose their access",
        quoted(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_message_has_an_id_and_no_name() {
        let id = GatewayId::from_bytes([1; 16]);
        let message = not_dispensable("$(reboot)", id);
        assert!(
            message.contains("the clients of \"$(reboot)\""),
            "{message}"
        );
        let command = message.split('`').nth(1).unwrap();
        assert_eq!(
            command,
            format!("culvert admin gateway drain {id} --now --force")
        );
    }
}

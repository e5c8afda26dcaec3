//! Relays that come for the first time, or again. They have no address inside the tunnel, and no key of WireGuard.

use super::connection::Transaction;
use super::enrol::free_name;
use super::read;
use super::table;
use super::writing::Writing;
use super::{auth, seen};
use culvert_ids::AccountId;
use culvert_policy::readable_name;
use culvert_store::rules;
use culvert_store::{
    Denial, Entity, EntityKind, Holder, Kind, MachineId, Principal, Relay, RelayEnrolment,
    SeenMachine, Stamp, StoreError, Token, TokenUses,
};
use culvert_wire::Timestamp;

/// The relay, if nothing about it changes: nothing is written then.
///
/// # Errors
/// [`StoreError::Denied`] where the token or the relay was revoked, and the token is of another kind.
pub(super) async fn unchanged(
    connection: &mut Transaction,
    account: AccountId,
    principal: &Principal,
    machine: &RelayEnrolment,
    now: Timestamp,
) -> Result<Option<Relay>, StoreError> {
    rules::check_software(EntityKind::Relay, &machine.seen.software)?;
    read::last_seq(connection, account).await?;
    let token = accepted(connection, account, principal, now).await?;
    let Some(before) = of_machine(connection, account, &machine.machine).await? else {
        return Ok(None);
    };
    check(&token, &before)?;
    let is_used_up = token.uses != TokenUses::One || token.used.is_some();
    let is_same = before.addresses == machine.addresses;
    Ok((is_used_up && is_same).then_some(before))
}

pub(super) async fn enrol(
    writing: &mut Writing,
    principal: &Principal,
    machine: RelayEnrolment,
) -> Result<Relay, StoreError> {
    rules::check_software(EntityKind::Relay, &machine.seen.software)?;
    // The token may have been revoked since it was looked at.
    let (account, now) = (writing.account(), writing.at());
    let token = accepted(writing.connection().await?, account, principal, now).await?;
    let before = of_machine(writing.connection().await?, account, &machine.machine).await?;
    let id = match before {
        Some(before) => {
            check(&token, &before)?;
            let id = before.id;
            if before.addresses != machine.addresses {
                let mut after = before.clone();
                after.addresses = machine.addresses;
                let (before, after) = (Entity::Relay(before), Entity::Relay(after));
                rules::check(Some(&before), &after)?;
                writing.replace(before, after).await?;
            }
            id
        }
        None => {
            if token.used.is_some() {
                return Err(Denial::Used.into());
            }
            let wanted = readable_name(&machine.name);
            let row = Relay {
                id: machine.new_id,
                machine: machine.machine,
                name: free_name(writing, machine.new_id.into(), &wanted).await?,
                addresses: machine.addresses,
                draining: false,
                revoked: None,
                seen: None,
                stamp: Stamp::default(),
            };
            writing.create(row.into()).await?;
            machine.new_id
        }
    };
    if token.uses == TokenUses::One && token.used.is_none() {
        auth::consume(writing, token, Some(MachineId::Relay(id))).await?;
    }
    let seen = SeenMachine {
        id: MachineId::Relay(id),
        seen: machine.seen,
    };
    seen::record_one(writing.connection().await?, account, &seen).await?;
    let row = read::get(writing.connection().await?, account, id.into()).await?;
    Relay::from_entity(row).ok_or(StoreError::NotFound(id.into()))
}

/// The token, if it is accepted and connects relays.
async fn accepted(
    connection: &mut Transaction,
    account: AccountId,
    principal: &Principal,
    now: Timestamp,
) -> Result<Token, StoreError> {
    let (principal, token) =
        auth::current_principal(connection, account, principal.token, now).await?;
    match principal.holder {
        Holder::Relay => Ok(token),
        Holder::Setup
        | Holder::Api { .. }
        | Holder::Client { .. }
        | Holder::Gateway { .. }
        | Holder::Session { .. } => Err(Denial::WrongKind.into()),
    }
}

/// A token that has one use goes on connecting the relay that used it, and no other. A revoked relay stays away.
fn check(token: &Token, before: &Relay) -> Result<(), StoreError> {
    if before.revoked.is_some() {
        return Err(Denial::MachineRevoked.into());
    }
    let own = Some(MachineId::Relay(before.id));
    match token.used {
        Some(used) if used.machine != own => Err(Denial::Used.into()),
        Some(_) | None => Ok(()),
    }
}

async fn of_machine(
    connection: &mut Transaction,
    account: AccountId,
    machine: &str,
) -> Result<Option<Relay>, StoreError> {
    let select = table::select(EntityKind::Relay);
    let sql = format!("{select} WHERE account = ? AND machine = ?");
    let values = vec![account.as_bytes().into(), machine.into()];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|row| table::read_as(row.columns())).transpose()
}

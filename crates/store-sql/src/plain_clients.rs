//! Plain WireGuard devices: clients without Culvert, which somebody adds with their key.

use super::enrol::{check_key, hint, new_ipv4, new_ipv6, parse, ranges};
use super::writing::Writing;
use super::{addresses, table};
use culvert_ids::GatewayId;
use culvert_store::{
    Client, Denial, Entity, EntityId, EntityKind, Kind, MAX_PLAIN_CLIENTS,
    MAX_PLAIN_CLIENTS_PER_ACTOR, NewPlainClient, PlainClientRekey, Stamp, StoreError,
};
use culvert_wire::PublicKey;

/// Adds the device, with addresses from the ranges of all machines.
pub(super) async fn add(writing: &mut Writing, new: NewPlainClient) -> Result<Client, StoreError> {
    check_gateways(&new.gateways)?;
    check_public_key(writing, new.public_key, None).await?;
    check_room(writing, &new).await?;
    let id = EntityId::from(new.id);
    let account = writing.account();
    let ranges = ranges(writing.connection().await?, account).await?;
    let (range4, range6) = parse(&ranges)?;
    let client = Client {
        id: new.id,
        actor: new.actor,
        // Of an actor's machines no two have the same.
        machine: new.id.to_string(),
        name: new.name,
        public_key: new.public_key,
        ipv4: new_ipv4(writing, range4, &ranges, hint(id)).await?,
        ipv6: new_ipv6(writing, range6, &ranges, hint(id)).await?,
        gateways: new.gateways,
        name_shares: new.name_shares,
        verified: None,
        revoked: None,
        seen: None,
        stamp: Stamp::default(),
    };
    let made = writing.create(client.into()).await?;
    Client::from_entity(made).ok_or(StoreError::NotFound(id))
}

/// Gives the device another key, and other gateways.
pub(super) async fn rekey(
    writing: &mut Writing,
    rekey: PlainClientRekey,
) -> Result<Client, StoreError> {
    check_gateways(&rekey.gateways)?;
    let id = EntityId::from(rekey.id);
    let before = writing.current(id, rekey.expected_version).await?;
    let mut after = Client::from_entity(before.clone()).ok_or(StoreError::NotFound(id))?;
    if after.revoked.is_some() {
        return Err(invalid(
            "revoked",
            "a revoked device gets no other key: add it anew",
        ));
    }
    if !after.is_plain() {
        return Err(invalid("gateways", "it is no plain WireGuard device"));
    }
    if after.public_key != rekey.public_key {
        check_public_key(writing, rekey.public_key, Some(id)).await?;
        after.public_key = rekey.public_key;
        after.verified = None;
    }
    after.gateways = rekey.gateways;
    after.name_shares = rekey.name_shares;
    let account = writing.account();
    let ranges = ranges(writing.connection().await?, account).await?;
    let (range4, range6) = parse(&ranges)?;
    if !range4.contains(after.ipv4.into()) {
        addresses::release(writing, after.ipv4.into()).await?;
        after.ipv4 = new_ipv4(writing, range4, &ranges, hint(id)).await?;
    }
    if !range6.contains(after.ipv6.into()) {
        addresses::release(writing, after.ipv6.into()).await?;
        after.ipv6 = new_ipv6(writing, range6, &ranges, hint(id)).await?;
    }
    let after = Entity::from(after);
    let left = match after == before {
        true => after,
        false => writing.replace(before, after).await?,
    };
    Client::from_entity(left).ok_or(StoreError::NotFound(id))
}

/// Refuses a device without a gateway, which would be a client that Culvert runs on. The rules of all rows bound their number.
fn check_gateways(gateways: &[GatewayId]) -> Result<(), StoreError> {
    match gateways.is_empty() {
        true => Err(invalid("gateways", "a device has at least one")),
        false => Ok(()),
    }
}

/// Refuses a key that cannot be one, and one that any client or gateway of the account has or had.
async fn check_public_key(
    writing: &mut Writing,
    key: PublicKey,
    own: Option<EntityId>,
) -> Result<(), StoreError> {
    if key.is_low_order() {
        let reason = "nobody has the private key of this point: make a key pair with `wg genkey` and `wg pubkey`";
        return Err(invalid("public_key", reason));
    }
    match check_key(writing, key, own).await {
        Err(StoreError::Denied(Denial::MachineRevoked)) => {
            let reason = "a machine that was revoked has this key: make a new key pair";
            Err(invalid("public_key", reason))
        }
        checked => checked,
    }
}

/// Refuses one more device than its actor, or the account, may have. A revoked one counts until it is deleted.
async fn check_room(writing: &mut Writing, new: &NewPlainClient) -> Result<(), StoreError> {
    let table = table::table(EntityKind::Client);
    let account = writing.account();
    let count = format!(
        "SELECT count(*) AS total, count(CASE WHEN actor_id = ? THEN 1 END) AS own FROM {table} \
         WHERE account = ? AND gateways <> '[]'"
    );
    let values = vec![new.actor.as_bytes().into(), account.as_bytes().into()];
    let found = writing.connection().await?.fetch_one(count, values).await?;
    let (total, own): (u64, u64) = match found {
        Some(row) => (row.columns().number("total")?, row.columns().number("own")?),
        None => (0, 0),
    };
    if total >= MAX_PLAIN_CLIENTS {
        return Err(StoreError::TooMany {
            what: "plain WireGuard devices in an account",
            limit: MAX_PLAIN_CLIENTS,
        });
    }
    if own >= MAX_PLAIN_CLIENTS_PER_ACTOR {
        return Err(StoreError::TooMany {
            what: "plain WireGuard devices of one actor",
            limit: MAX_PLAIN_CLIENTS_PER_ACTOR,
        });
    }
    Ok(())
}

fn invalid(field: &'static str, reason: &str) -> StoreError {
    StoreError::Invalid {
        kind: EntityKind::Client,
        field,
        reason: reason.to_owned(),
    }
}

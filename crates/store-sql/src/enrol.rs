//! Machines that come for the first time, or again.

use super::connection::Transaction;
use super::read;
use super::table::{self, Table, aliased, read_joined};
use super::value::Value;
use super::writing::Writing;
use super::{addresses, auth, seen};
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, SiteId, TokenId};
use culvert_policy::readable_name;
use culvert_store::range::{self, Range};
use culvert_store::rules::{self, numbered_name};
use culvert_store::{
    Account, Client, Denial, Enrolment, Entity, EntityId, EntityKind, Gateway, Holder, Kind,
    MachineId, Principal, SeenMachine, Stamp, StoreError, Token, TokenUses,
};
use culvert_wire::PublicKey;
use culvert_wire::Timestamp;
use culvert_wire::messages::Ranges;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Names that are tried for a new machine, `web`, `web-2`…: more machines of one name than a
/// person can tell apart get the end of their id behind it.
const MAX_NUMBERED_NAMES: u32 = 100;

/// The parts that clients and gateways have in common.
pub(super) trait Machine: Table {
    type Owner: Into<EntityId> + Copy + Send;
    const OWNER: &'static str;

    /// The owner of a machine that a token of this holder enrols.
    fn owner(holder: Holder) -> Option<Self::Owner>;
    fn new(owner: Self::Owner, machine: &Enrolment<Self::Id>, place: Place, token: TokenId)
    -> Self;
    fn machine_id(&self) -> MachineId;
    fn place(&self) -> Place;
    /// Sets what `place` says from here on. `token` was presented with it.
    fn set_place(&mut self, place: Place, token: TokenId);
}

/// The fields of a machine that the store itself may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    name: String,
    public_key: PublicKey,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
}

impl Machine for Client {
    type Owner = ActorId;
    const OWNER: &'static str = "actor_id";

    fn owner(holder: Holder) -> Option<ActorId> {
        match holder {
            Holder::Client { actor, .. } => Some(actor),
            Holder::Setup
            | Holder::Api { .. }
            | Holder::Gateway { .. }
            | Holder::Relay
            | Holder::Session { .. } => None,
        }
    }

    fn new(owner: ActorId, machine: &Enrolment<ClientId>, place: Place, _: TokenId) -> Self {
        Self {
            id: machine.new_id,
            actor: owner,
            machine: machine.machine.clone(),
            name: place.name,
            public_key: place.public_key,
            ipv4: place.ipv4,
            ipv6: place.ipv6,
            gateways: Vec::new(),
            name_shares: false,
            verified: None,
            revoked: None,
            seen: None,
            stamp: Stamp::default(),
        }
    }

    fn machine_id(&self) -> MachineId {
        MachineId::Client(self.id)
    }

    fn place(&self) -> Place {
        Place {
            name: self.name.clone(),
            public_key: self.public_key,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
        }
    }

    fn set_place(&mut self, place: Place, _: TokenId) {
        if self.public_key != place.public_key {
            self.verified = None;
        }
        self.public_key = place.public_key;
        self.ipv4 = place.ipv4;
        self.ipv6 = place.ipv6;
    }
}

impl Machine for Gateway {
    type Owner = SiteId;
    const OWNER: &'static str = "site_id";

    fn owner(holder: Holder) -> Option<SiteId> {
        match holder {
            Holder::Gateway { site } => Some(site),
            Holder::Setup
            | Holder::Api { .. }
            | Holder::Client { .. }
            | Holder::Relay
            | Holder::Session { .. } => None,
        }
    }

    fn new(owner: SiteId, machine: &Enrolment<GatewayId>, place: Place, token: TokenId) -> Self {
        Self {
            id: machine.new_id,
            site: owner,
            machine: machine.machine.clone(),
            name: place.name,
            public_key: place.public_key,
            ipv4: place.ipv4,
            ipv6: place.ipv6,
            verified: None,
            enrolled_with: Some(token),
            draining: false,
            revoked: None,
            seen: None,
            stamp: Stamp::default(),
        }
    }

    fn machine_id(&self) -> MachineId {
        MachineId::Gateway(self.id)
    }

    fn place(&self) -> Place {
        Place {
            name: self.name.clone(),
            public_key: self.public_key,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
        }
    }

    fn set_place(&mut self, place: Place, token: TokenId) {
        if self.public_key != place.public_key {
            self.verified = None;
            self.enrolled_with = Some(token);
        }
        self.public_key = place.public_key;
        self.ipv4 = place.ipv4;
        self.ipv6 = place.ipv6;
    }
}

/// The machine, if nothing about it changes: it has been here before with this key, and its addresses are in the
/// ranges of today. Nothing is written, so a thousand machines that come back together wait for nobody.
///
/// # Errors
/// [`StoreError::Denied`] where the token or the machine was revoked, and the token's machine is another kind.
pub(super) async fn unchanged<T: Machine>(
    connection: &mut Transaction,
    account: AccountId,
    principal: &Principal,
    machine: &Enrolment<T::Id>,
    now: Timestamp,
) -> Result<Option<T>, StoreError> {
    rules::check_software(T::KIND, &machine.seen.software)?;
    let before = format!(
        "SELECT {}, {}, {} FROM account c \
         LEFT JOIN token t ON t.account = c.account AND t.id = ? {} \
         LEFT JOIN {} m ON m.account = c.account AND m.{owner} = t.{owner} AND m.machine = ? \
         WHERE c.account = ?",
        aliased(EntityKind::Account, "c"),
        auth::columns(),
        aliased(T::KIND, "m"),
        auth::ACTOR,
        T::TABLE,
        owner = T::OWNER,
    );
    let values = vec![
        principal.token.as_bytes().into(),
        machine.machine.as_str().into(),
        account.as_bytes().into(),
    ];
    let row = connection.fetch_one(before, values).await?;
    let row = row.ok_or(StoreError::NoAccount)?;
    let row = row.columns();
    let found = auth::Found::read(row)?.valid(now)?;
    let (principal, token) = found.principal(account, now)?;
    T::owner(principal.holder).ok_or(Denial::WrongKind)?;
    let Some(before) = read_joined::<T>(row.of("m_"))? else {
        return Ok(None);
    };
    check_kind(&before)?;
    if rules::revoked(&before.clone().into()).is_some() {
        return Err(Denial::MachineRevoked.into());
    }
    check_token(&token, &before, machine.public_key)?;
    let is_used_up = token.uses != TokenUses::One || token.used.is_some();
    let place = before.place();
    let settings = table::read_as::<Account>(row.of("c_"))?.settings;
    let (range4, range6) = parse(&settings.ranges)?;
    let is_same = place.public_key == machine.public_key
        && range4.contains(place.ipv4.into())
        && range6.contains(place.ipv6.into());
    Ok((is_used_up && is_same).then_some(before))
}

pub(super) async fn enrol<T: Machine>(
    writing: &mut Writing,
    principal: &Principal,
    machine: Enrolment<T::Id>,
) -> Result<T, StoreError> {
    rules::check_software(T::KIND, &machine.seen.software)?;
    // The token may have been revoked since it was looked at.
    let (account, now) = (writing.account(), writing.at());
    let (principal, token) =
        auth::current_principal(writing.connection().await?, account, principal.token, now).await?;
    let owner = T::owner(principal.holder).ok_or(Denial::WrongKind)?;
    let ranges = &ranges(writing.connection().await?, account).await?;

    let before = of_machine::<T>(
        writing.connection().await?,
        account,
        owner,
        &machine.machine,
    )
    .await?;
    let row = match before {
        Some(before) => {
            check_kind(&before)?;
            check_token(&token, &before, machine.public_key)?;
            let key = (machine.public_key, token.id);
            again(writing, before, key, ranges).await?
        }
        None => {
            if token.used.is_some() {
                return Err(Denial::Used.into());
            }
            first(writing, owner, (&machine, token.id), ranges).await?
        }
    };
    if token.uses == TokenUses::One && token.used.is_none() {
        auth::consume(writing, token, Some(row.machine_id())).await?;
    }
    let seen = SeenMachine {
        id: row.machine_id(),
        seen: machine.seen,
    };
    seen::record_one(writing.connection().await?, account, &seen).await?;
    let id = row.id().into();
    let row = read::get(writing.connection().await?, account, id).await?;
    T::from_entity(row).ok_or(StoreError::NotFound(id))
}

/// A plain WireGuard device has no Culvert: no program of its owner becomes it by its machine's text.
fn check_kind<T: Machine>(before: &T) -> Result<(), StoreError> {
    match before.clone().into() {
        Entity::Client(client) if client.is_plain() => Err(Denial::WrongKind.into()),
        _ => Ok(()),
    }
}

/// A token that has one use goes on connecting the machine that used it, with the key that it has.
fn check_token<T: Machine>(
    token: &Token,
    before: &T,
    public_key: PublicKey,
) -> Result<(), StoreError> {
    let Some(used) = token.used else {
        return Ok(());
    };
    if used.machine == Some(before.machine_id()) && before.place().public_key == public_key {
        return Ok(());
    }
    Err(Denial::Used.into())
}

/// The machine of that owner with that text.
async fn of_machine<T: Machine>(
    connection: &mut Transaction,
    account: AccountId,
    owner: T::Owner,
    machine: &str,
) -> Result<Option<T>, StoreError> {
    let (select, column) = (table::select(T::KIND), T::OWNER);
    let sql = format!("{select} WHERE account = ? AND {column} = ? AND machine = ?");
    let values = vec![
        account.as_bytes().into(),
        owner.into().into(),
        machine.into(),
    ];
    let rows = connection.fetch(sql, values).await?;
    rows.first().map(table::read_as).transpose()
}

pub(super) async fn ranges(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<Ranges, StoreError> {
    let settings = read::get(connection, account, account.into()).await?;
    let settings = Account::from_entity(settings).ok_or(StoreError::NoAccount)?;
    Ok(settings.settings.ranges)
}

/// A machine that was here before: it may have another key, and the ranges may have changed.
async fn again<T: Machine>(
    writing: &mut Writing,
    mut before: T,
    (public_key, token): (PublicKey, TokenId),
    ranges: &Ranges,
) -> Result<T, StoreError> {
    let entity: Entity = before.clone().into();
    if rules::revoked(&entity).is_some() {
        return Err(Denial::MachineRevoked.into());
    }
    check_key(writing, public_key, Some(entity.id())).await?;
    let mut place = before.place();
    place.public_key = public_key;
    let (range4, range6) = parse(ranges)?;
    let hint = hint(entity.id());
    if !range4.contains(place.ipv4.into()) {
        addresses::release(writing, place.ipv4.into()).await?;
        place.ipv4 = new_ipv4(writing, range4, ranges, hint).await?;
    }
    if !range6.contains(place.ipv6.into()) {
        addresses::release(writing, place.ipv6.into()).await?;
        place.ipv6 = new_ipv6(writing, range6, ranges, hint).await?;
    }
    if place == before.place() {
        return Ok(before);
    }
    before.set_place(place, token);
    writing.replace(entity, before.clone().into()).await?;
    Ok(before)
}

async fn first<T: Machine>(
    writing: &mut Writing,
    owner: T::Owner,
    (machine, token): (&Enrolment<T::Id>, TokenId),
    ranges: &Ranges,
) -> Result<T, StoreError> {
    check_key(writing, machine.public_key, None).await?;
    let id = machine.new_id.into();
    let (range4, range6) = parse(ranges)?;
    let hint = hint(id);
    let place = Place {
        name: free_name(writing, id, &readable_name(&machine.name)).await?,
        public_key: machine.public_key,
        ipv4: new_ipv4(writing, range4, ranges, hint).await?,
        ipv6: new_ipv6(writing, range6, ranges, hint).await?,
    };
    let row = T::new(owner, machine, place, token);
    writing.create(row.clone().into()).await?;
    Ok(row)
}

/// No two machines of an account have one key: gateways know clients by it. Nor does a machine that
/// was revoked come back with its key under another name.
pub(super) async fn check_key(
    writing: &mut Writing,
    public_key: PublicKey,
    own: Option<EntityId>,
) -> Result<(), StoreError> {
    for kind in [EntityKind::Client, EntityKind::Gateway] {
        let select = table::select(kind);
        let sql = format!("{select} WHERE account = ? AND public_key = ?");
        let key: Value = public_key.as_bytes().as_slice().into();
        let values = vec![writing.account().as_bytes().into(), key];
        for row in writing.connection().await?.fetch(sql, values).await?.iter() {
            let holder = table::read(kind, row)?;
            if Some(holder.id()) == own {
                continue;
            }
            if rules::revoked(&holder).is_some() {
                return Err(Denial::MachineRevoked.into());
            }
            return Err(StoreError::KeyTaken { by: holder.id() });
        }
    }
    Ok(())
}

pub(super) async fn free_name(
    writing: &mut Writing,
    id: EntityId,
    wanted: &str,
) -> Result<String, StoreError> {
    for attempt in 0..MAX_NUMBERED_NAMES {
        let name = numbered_name(wanted, attempt);
        if rules::has_form_of_id(&name) {
            continue;
        }
        if writing.named(id.kind(), &name, None).await?.is_none() {
            return Ok(name);
        }
    }
    Ok(rules::name_with_id(wanted, id))
}

/// The random part of an id.
pub(super) fn hint(id: EntityId) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *id.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

pub(super) fn parse(ranges: &Ranges) -> Result<(Range, Range), StoreError> {
    let parse = |text: &str, len| Range::parse(text, len).map_err(StoreError::corrupt);
    Ok((
        parse(&ranges.machines_ipv4, 4)?,
        parse(&ranges.machines_ipv6, 16)?,
    ))
}

pub(super) async fn new_ipv4(
    writing: &mut Writing,
    range: Range,
    ranges: &Ranges,
    hint: u64,
) -> Result<Ipv4Addr, StoreError> {
    let number = addresses::allocate(writing, range, &ranges.machines_ipv4, hint).await?;
    range::ipv4(number).ok_or_else(|| StoreError::corrupt("an address outside of its range"))
}

pub(super) async fn new_ipv6(
    writing: &mut Writing,
    range: Range,
    ranges: &Ranges,
    hint: u64,
) -> Result<Ipv6Addr, StoreError> {
    let number = addresses::allocate(writing, range, &ranges.machines_ipv6, hint).await?;
    Ok(range::ipv6(number))
}

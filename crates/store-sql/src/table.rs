//! Tables of the rows of each kind.

use super::value::{Columns, Value, damaged, json, word};
use culvert_ids::{
    ActorId, ClientId, GatewayId, GroupId, ID_LEN, ProviderId, RelayId, ResourceId, SiteId, TokenId,
};
use culvert_store::rules::name_key;
use culvert_store::{
    Account, AccountSettings, Actor, Client, Entity, EntityId, EntityKind, Gateway, Group,
    Identity, Kind, MachineId, Membership, Policy, Provider, Relay, Resource, Seen, SignIn, Site,
    Stamp, StoreError, Token, TokenScope, TokenUse,
};
use culvert_wire::PublicKey;
use culvert_wire::token::TokenKind;
use std::net::IpAddr;

/// The table of a kind.
pub(super) trait Table: Kind {
    /// Its name.
    const TABLE: &'static str;
    /// Its columns besides account, id and stamp.
    const COLUMNS: &'static [&'static str];
    /// Columns that are not configuration, and are written elsewhere.
    const ASIDE: &'static [&'static str] = &[];

    /// The values of [`Self::COLUMNS`].
    fn values(&self) -> Result<Vec<Value>, StoreError>;
    /// A row with all columns.
    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError>;
}

/// Runs the same code for the tables of all kinds.
macro_rules! for_kind {
    ($kind:expr, $row:ident => $body:expr) => {
        match $kind {
            EntityKind::Account => {
                type $row = Account;
                $body
            }
            EntityKind::Actor => {
                type $row = Actor;
                $body
            }
            EntityKind::Group => {
                type $row = Group;
                $body
            }
            EntityKind::Membership => {
                type $row = Membership;
                $body
            }
            EntityKind::Site => {
                type $row = Site;
                $body
            }
            EntityKind::Resource => {
                type $row = Resource;
                $body
            }
            EntityKind::Policy => {
                type $row = Policy;
                $body
            }
            EntityKind::Token => {
                type $row = Token;
                $body
            }
            EntityKind::Client => {
                type $row = Client;
                $body
            }
            EntityKind::Gateway => {
                type $row = Gateway;
                $body
            }
            EntityKind::Provider => {
                type $row = Provider;
                $body
            }
            EntityKind::Identity => {
                type $row = Identity;
                $body
            }
            EntityKind::Relay => {
                type $row = Relay;
                $body
            }
        }
    };
}

pub(super) fn table(kind: EntityKind) -> &'static str {
    for_kind!(kind, Row => Row::TABLE)
}

pub(super) fn columns(kind: EntityKind) -> &'static [&'static str] {
    for_kind!(kind, Row => Row::COLUMNS)
}

pub(super) fn values(entity: &Entity) -> Result<Vec<Value>, StoreError> {
    match entity {
        Entity::Account(row) => row.values(),
        Entity::Actor(row) => row.values(),
        Entity::Group(row) => row.values(),
        Entity::Membership(row) => row.values(),
        Entity::Site(row) => row.values(),
        Entity::Resource(row) => row.values(),
        Entity::Policy(row) => row.values(),
        Entity::Token(row) => row.values(),
        Entity::Client(row) => row.values(),
        Entity::Gateway(row) => row.values(),
        Entity::Provider(row) => row.values(),
        Entity::Identity(row) => row.values(),
        Entity::Relay(row) => row.values(),
    }
}

/// `SELECT` with all columns that [`read`] reads, up to the name of the table.
pub(super) fn select(kind: EntityKind) -> String {
    let (columns, aside) = for_kind!(kind, Row => (Row::COLUMNS, Row::ASIDE));
    let mut all = vec!["id", "version", "created_ms", "updated_ms"];
    all.extend(columns);
    all.extend(aside);
    format!("SELECT {} FROM {}", all.join(", "), table(kind))
}

/// The columns of [`select`] of one table among several, by the alias of the table in the statement. Their names begin
/// with the alias and `_`.
pub(super) fn aliased(kind: EntityKind, alias: &str) -> String {
    let (columns, aside) = for_kind!(kind, Row => (Row::COLUMNS, Row::ASIDE));
    let stamp = ["id", "version", "created_ms", "updated_ms"];
    let all = stamp.iter().chain(columns).chain(aside);
    let all: Vec<_> = all
        .map(|column| format!("{alias}.{column} AS {alias}_{column}"))
        .collect();
    all.join(", ")
}

/// The row of one table among several that were joined; none where there was none.
pub(super) fn read_joined<T: Table>(row: Columns<'_>) -> Result<Option<T>, StoreError> {
    let id = row.optional_bytes::<ID_LEN>("id")?;
    id.map(|_| read_as(row)).transpose()
}

pub(super) fn read(kind: EntityKind, row: Columns<'_>) -> Result<Entity, StoreError> {
    for_kind!(kind, Row => read_as::<Row>(row).map(Entity::from))
}

pub(super) fn read_as<T: Table>(row: Columns<'_>) -> Result<T, StoreError> {
    let id = EntityId::from_bytes(T::KIND, row.bytes("id")?);
    let stamp = Stamp {
        version: row.number("version")?,
        created: row.time("created_ms")?,
        updated: row.time("updated_ms")?,
    };
    T::read(id, stamp, row)
}

/// The id of type `$id` in a column.
macro_rules! id {
    ($id:ident, $row:expr, $column:literal) => {
        $id::from_bytes($row.bytes($column)?)
    };
}

/// The id of a row of its own kind.
macro_rules! own {
    ($kind:ident, $id:expr) => {
        match $id {
            EntityId::$kind(id) => id,
            _ => return Err(damaged("id", "another kind")),
        }
    };
}

impl Table for Account {
    const TABLE: &'static str = "account";
    // The last two came later. An older program that writes the settings would lose them there.
    const COLUMNS: &'static [&'static str] =
        &["name", "name_key", "settings", "paths", "own_devices"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.name.as_str().into(),
            name_key(&self.name).into(),
            json(&self.settings)?,
            word(&self.settings.paths)?,
            self.settings.own_devices.into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        let settings: AccountSettings = row.json("settings")?;
        let paths = row.word("paths")?;
        let own_devices = row.flag("own_devices")?;
        Ok(Self {
            id: own!(Account, id),
            name: row.text("name")?,
            settings: AccountSettings {
                paths,
                own_devices,
                ..settings
            },
            stamp,
        })
    }
}

impl Table for Actor {
    const TABLE: &'static str = "actor";
    const COLUMNS: &'static [&'static str] = &[
        "kind",
        "name",
        "name_key",
        "disabled",
        "sign_in_role",
        "password_set_ms",
        "second_factor_ms",
        "recovery_codes",
        "passkeys",
        "invitation_ends_ms",
    ];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            word(&self.kind)?,
            self.name.as_str().into(),
            name_key(&self.name).into(),
            self.disabled.into(),
            match self.sign_in {
                Some(sign_in) => word(&sign_in.role)?,
                None => Value::Null,
            },
            self.sign_in.and_then(|sign_in| sign_in.password_set).into(),
            self.sign_in
                .and_then(|sign_in| sign_in.second_factor)
                .into(),
            u64::from(self.sign_in.map_or(0, |sign_in| sign_in.recovery_codes)).into(),
            u64::from(self.sign_in.map_or(0, |sign_in| sign_in.passkeys)).into(),
            self.sign_in
                .and_then(|sign_in| sign_in.invitation_ends)
                .into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Actor, id),
            kind: row.word("kind")?,
            name: row.text("name")?,
            disabled: row.flag("disabled")?,
            sign_in: match row.get::<Option<&str>>("sign_in_role")? {
                Some(_) => Some(SignIn {
                    role: row.word("sign_in_role")?,
                    password_set: row.optional_time("password_set_ms")?,
                    second_factor: row.optional_time("second_factor_ms")?,
                    recovery_codes: row
                        .number("recovery_codes")?
                        .try_into()
                        .map_err(|_| damaged("recovery_codes", "too many"))?,
                    passkeys: row
                        .number("passkeys")?
                        .try_into()
                        .map_err(|_| damaged("passkeys", "too many"))?,
                    invitation_ends: row.optional_time("invitation_ends_ms")?,
                }),
                None => None,
            },
            stamp,
        })
    }
}

impl Table for Group {
    const TABLE: &'static str = "actor_group";
    const COLUMNS: &'static [&'static str] = &["name", "name_key"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![self.name.as_str().into(), name_key(&self.name).into()])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Group, id),
            name: row.text("name")?,
            stamp,
        })
    }
}

impl Table for Membership {
    const TABLE: &'static str = "membership";
    const COLUMNS: &'static [&'static str] = &["group_id", "actor_id"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.group.as_bytes().into(),
            self.actor.as_bytes().into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Membership, id),
            group: id!(GroupId, row, "group_id"),
            actor: id!(ActorId, row, "actor_id"),
            stamp,
        })
    }
}

impl Table for Site {
    const TABLE: &'static str = "site";
    const COLUMNS: &'static [&'static str] = &["name", "name_key", "relays"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.name.as_str().into(),
            name_key(&self.name).into(),
            json(&self.relays)?,
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Site, id),
            name: row.text("name")?,
            relays: row.json("relays")?,
            stamp,
        })
    }
}

impl Table for Resource {
    const TABLE: &'static str = "resource";
    const COLUMNS: &'static [&'static str] = &[
        "site_id",
        "name",
        "name_key",
        "target",
        "filters",
        "applications",
        "within",
        "inbound",
    ];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.site.as_bytes().into(),
            self.name.as_str().into(),
            name_key(&self.name).into(),
            json(&self.target)?,
            json(&self.filters)?,
            json(&self.applications)?,
            json(&self.within)?,
            json(&self.inbound)?,
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Resource, id),
            site: id!(SiteId, row, "site_id"),
            name: row.text("name")?,
            target: row.json("target")?,
            filters: row.json("filters")?,
            applications: row.json("applications")?,
            within: row.json("within")?,
            inbound: row.json("inbound")?,
            stamp,
        })
    }
}

impl Table for Policy {
    const TABLE: &'static str = "policy";
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "name_key",
        "group_id",
        "resource_id",
        "disabled",
        "conditions",
    ];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.name.as_str().into(),
            name_key(&self.name).into(),
            self.group.as_bytes().into(),
            self.resource.as_bytes().into(),
            self.disabled.into(),
            json(&self.conditions)?,
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Policy, id),
            name: row.text("name")?,
            group: id!(GroupId, row, "group_id"),
            resource: id!(ResourceId, row, "resource_id"),
            disabled: row.flag("disabled")?,
            conditions: row.json("conditions")?,
            stamp,
        })
    }
}

impl Table for Token {
    const TABLE: &'static str = "token";
    const COLUMNS: &'static [&'static str] = &[
        "kind",
        "actor_id",
        "site_id",
        "role",
        "name",
        "name_key",
        "uses",
        "expires_ms",
        "revoked_ms",
        "used_ms",
        "used_client",
        "used_gateway",
        "used_relay",
        "proven_ms",
    ];
    const ASIDE: &'static [&'static str] = &["last_used_ms"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        let machine = self.used.and_then(|used| used.machine);
        let (mut client, mut gateway, mut relay) = (None, None, None);
        match machine {
            Some(MachineId::Client(id)) => client = Some(id),
            Some(MachineId::Gateway(id)) => gateway = Some(id),
            Some(MachineId::Relay(id)) => relay = Some(id),
            None => {}
        }
        Ok(vec![
            word(&self.scope.kind())?,
            self.scope.actor().map(EntityId::from).into(),
            self.scope.site().map(EntityId::from).into(),
            match self.scope.role() {
                Some(role) => word(&role)?,
                None => Value::Null,
            },
            self.name.as_str().into(),
            name_key(&self.name).into(),
            word(&self.uses)?,
            self.expires.into(),
            self.revoked.into(),
            self.used.map(|used| used.at).into(),
            client.map(EntityId::from).into(),
            gateway.map(EntityId::from).into(),
            relay.map(EntityId::from).into(),
            self.proven.into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        let scope = match row.word::<TokenKind>("kind")? {
            TokenKind::Setup => TokenScope::Setup,
            TokenKind::Api => TokenScope::Api {
                actor: id!(ActorId, row, "actor_id"),
                role: row.word("role")?,
            },
            TokenKind::Client => TokenScope::Client {
                actor: id!(ActorId, row, "actor_id"),
            },
            TokenKind::Gateway => TokenScope::Gateway {
                site: id!(SiteId, row, "site_id"),
            },
            TokenKind::Relay => TokenScope::Relay,
            TokenKind::Session => TokenScope::Session {
                actor: id!(ActorId, row, "actor_id"),
            },
        };
        let client = row.optional_bytes("used_client")?;
        let gateway = row.optional_bytes("used_gateway")?;
        let relay = row.optional_bytes("used_relay")?;
        let client = client.map(|id| MachineId::Client(ClientId::from_bytes(id)));
        let gateway = gateway.map(|id| MachineId::Gateway(GatewayId::from_bytes(id)));
        let relay = relay.map(|id| MachineId::Relay(RelayId::from_bytes(id)));
        let machine = client.or(gateway).or(relay);
        let used = row.optional_time("used_ms")?;
        Ok(Self {
            id: own!(Token, id),
            scope,
            name: row.text("name")?,
            uses: row.word("uses")?,
            expires: row.optional_time("expires_ms")?,
            revoked: row.optional_time("revoked_ms")?,
            used: used.map(|at| TokenUse { at, machine }),
            last_used: row.optional_time("last_used_ms")?,
            proven: row.optional_time("proven_ms")?,
            stamp,
        })
    }
}

impl Table for Provider {
    const TABLE: &'static str = "provider";
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "name_key",
        "issuer",
        "client_id",
        "secret_set_ms",
        "disabled",
        "settings",
    ];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.name.as_str().into(),
            name_key(&self.name).into(),
            self.issuer.as_str().into(),
            self.client_id.as_str().into(),
            self.secret_set.into(),
            self.disabled.into(),
            json(&self.settings)?,
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Provider, id),
            name: row.text("name")?,
            issuer: row.text("issuer")?,
            client_id: row.text("client_id")?,
            secret_set: row.optional_time("secret_set_ms")?,
            disabled: row.flag("disabled")?,
            settings: row.json("settings")?,
            stamp,
        })
    }
}

impl Table for Identity {
    const TABLE: &'static str = "identity";
    const COLUMNS: &'static [&'static str] = &["provider_id", "subject", "actor_id", "memberships"];

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.provider.as_bytes().into(),
            self.subject.as_str().into(),
            self.actor.as_bytes().into(),
            json(&self.memberships)?,
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Identity, id),
            provider: id!(ProviderId, row, "provider_id"),
            subject: row.text("subject")?,
            actor: id!(ActorId, row, "actor_id"),
            memberships: row.json("memberships")?,
            stamp,
        })
    }
}

/// Columns of what was last seen of a machine.
const SEEN: &[&str] = &["seen_ms", "seen_address", "seen_software"];

fn read_seen(row: Columns<'_>) -> Result<Option<Seen>, StoreError> {
    let Some(at) = row.optional_time("seen_ms")? else {
        return Ok(None);
    };
    let address: Option<&str> = row.get("seen_address")?;
    let address: Option<IpAddr> = address
        .map(|address| {
            address
                .parse()
                .map_err(|error| damaged("seen_address", error))
        })
        .transpose()?;
    let software = row.text("seen_software")?;
    Ok(Some(Seen {
        at,
        address,
        software,
    }))
}

impl Table for Client {
    const TABLE: &'static str = "client";
    const COLUMNS: &'static [&'static str] = &[
        "actor_id",
        "machine",
        "name",
        "name_key",
        "public_key",
        "ipv4",
        "ipv6",
        "gateways",
        "name_shares",
        "verified_ms",
        "revoked_ms",
    ];
    const ASIDE: &'static [&'static str] = SEEN;

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.actor.as_bytes().into(),
            self.machine.as_str().into(),
            self.name.as_str().into(),
            name_key(&self.name).into(),
            self.public_key.as_bytes().as_slice().into(),
            self.ipv4.octets().as_slice().into(),
            self.ipv6.octets().as_slice().into(),
            json(&self.gateways)?,
            self.name_shares.into(),
            self.verified.into(),
            self.revoked.into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Client, id),
            actor: id!(ActorId, row, "actor_id"),
            machine: row.text("machine")?,
            name: row.text("name")?,
            public_key: PublicKey::from_bytes(row.bytes("public_key")?),
            ipv4: row.bytes::<4>("ipv4")?.into(),
            ipv6: row.bytes::<16>("ipv6")?.into(),
            gateways: row.json("gateways")?,
            name_shares: row.flag("name_shares")?,
            verified: row.optional_time("verified_ms")?,
            revoked: row.optional_time("revoked_ms")?,
            seen: read_seen(row)?,
            stamp,
        })
    }
}

impl Table for Gateway {
    const TABLE: &'static str = "gateway";
    const COLUMNS: &'static [&'static str] = &[
        "site_id",
        "machine",
        "name",
        "name_key",
        "public_key",
        "ipv4",
        "ipv6",
        "verified_ms",
        "token_id",
        "draining",
        "revoked_ms",
    ];
    const ASIDE: &'static [&'static str] = SEEN;

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.site.as_bytes().into(),
            self.machine.as_str().into(),
            self.name.as_str().into(),
            name_key(&self.name).into(),
            self.public_key.as_bytes().as_slice().into(),
            self.ipv4.octets().as_slice().into(),
            self.ipv6.octets().as_slice().into(),
            self.verified.into(),
            self.enrolled_with
                .as_ref()
                .map(|token| token.as_bytes().as_slice())
                .into(),
            self.draining.into(),
            self.revoked.into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Gateway, id),
            site: id!(SiteId, row, "site_id"),
            machine: row.text("machine")?,
            name: row.text("name")?,
            public_key: PublicKey::from_bytes(row.bytes("public_key")?),
            ipv4: row.bytes::<4>("ipv4")?.into(),
            ipv6: row.bytes::<16>("ipv6")?.into(),
            verified: row.optional_time("verified_ms")?,
            enrolled_with: row.optional_bytes("token_id")?.map(TokenId::from_bytes),
            draining: row.flag("draining")?,
            revoked: row.optional_time("revoked_ms")?,
            seen: read_seen(row)?,
            stamp,
        })
    }
}

impl Table for Relay {
    const TABLE: &'static str = "relay";
    const COLUMNS: &'static [&'static str] = &[
        "machine",
        "name",
        "name_key",
        "addresses",
        "draining",
        "revoked_ms",
    ];
    const ASIDE: &'static [&'static str] = SEEN;

    fn values(&self) -> Result<Vec<Value>, StoreError> {
        Ok(vec![
            self.machine.as_str().into(),
            self.name.as_str().into(),
            name_key(&self.name).into(),
            json(&self.addresses)?,
            self.draining.into(),
            self.revoked.into(),
        ])
    }

    fn read(id: EntityId, stamp: Stamp, row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: own!(Relay, id),
            machine: row.text("machine")?,
            name: row.text("name")?,
            addresses: row.json("addresses")?,
            draining: row.flag("draining")?,
            revoked: row.optional_time("revoked_ms")?,
            seen: read_seen(row)?,
            stamp,
        })
    }
}

//! The rows that an administrator configures, and the machines that enrolled.

mod account;
mod actor;
mod machine;
mod policy;
mod provider;
mod relay;
mod site;
mod stamp;
mod token;

pub use account::{Account, AccountSettings, EndedAccess, PathRule, SecondFactorRule};
pub use actor::{Actor, ActorKind, Group, Membership, SignIn};
pub use machine::{Client, Gateway, MachineId, Seen};
pub use policy::Policy;
pub use provider::{GroupOfClaim, Identity, Provider, ProviderSettings, UnknownPeople};
pub use relay::Relay;
pub use site::{Resource, Site};
pub use stamp::Stamp;
pub use token::{Role, Token, TokenScope, TokenUse, TokenUses};

use culvert_base::quoted;
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, ID_LEN, IdError, IdentityId, MembershipId,
    PolicyId, ProviderId, RelayId, ResourceId, SiteId, TokenId,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A type of row.
pub trait Kind: Clone + Into<Entity> + Send + 'static {
    /// Its kind.
    const KIND: EntityKind;
    /// Its id.
    type Id: Into<EntityId> + Copy + Send + 'static;

    /// The row's id.
    fn id(&self) -> Self::Id;
    /// The row, if it is of this type.
    fn from_entity(entity: Entity) -> Option<Self>;
}

macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident($id:ident) = $word:literal;)*) => {
        /// The kinds of rows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum EntityKind { $($(#[$doc])* $name,)* }

        /// A row of any kind.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Entity { $($(#[$doc])* $name($name),)* }

        /// The id of the row, of any kind. Its text says the kind: `res_…`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EntityId { $($(#[$doc])* $name($id),)* }

        impl EntityKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in the change log.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The indefinite article before its name in a sentence.
            pub const fn article(self) -> &'static str {
                match self.as_str().as_bytes() {
                    [b'a' | b'e' | b'i' | b'o' | b'u', ..] => "an",
                    _ => "a",
                }
            }
        }

        impl Entity {
            /// Its kind.
            pub const fn kind(&self) -> EntityKind {
                match self { $(Self::$name(_) => EntityKind::$name,)* }
            }

            /// The row's id.
            pub const fn id(&self) -> EntityId {
                match self { $(Self::$name(row) => EntityId::$name(row.id),)* }
            }

            /// Version and times.
            pub const fn stamp(&self) -> Stamp {
                match self { $(Self::$name(row) => row.stamp,)* }
            }

            /// Sets version and times: for implementations of [`crate::Store`], which alone write them.
            pub fn set_stamp(&mut self, stamp: Stamp) {
                match self { $(Self::$name(row) => row.stamp = stamp,)* }
            }

            /// From the JSON of the change log.
            ///
            /// # Errors
            /// If it is not the JSON of that kind.
            pub fn from_json(kind: EntityKind, json: &str) -> serde_json::Result<Self> {
                match kind { $(EntityKind::$name => serde_json::from_str(json).map(Self::$name),)* }
            }
        }

        impl EntityId {
            /// The kind that it names.
            pub const fn kind(self) -> EntityKind {
                match self { $(Self::$name(_) => EntityKind::$name,)* }
            }

            /// The form in which databases keep it.
            pub const fn as_bytes(&self) -> &[u8; ID_LEN] {
                match self { $(Self::$name(id) => id.as_bytes(),)* }
            }

            /// From the form in which databases keep it.
            pub const fn from_bytes(kind: EntityKind, bytes: [u8; ID_LEN]) -> Self {
                match kind { $(EntityKind::$name => Self::$name($id::from_bytes(bytes)),)* }
            }
        }

        impl fmt::Display for EntityId {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name(id) => id.fmt(out),)* }
            }
        }

        impl FromStr for EntityId {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let (prefix, _) = text.split_once('_').unwrap_or((text, ""));
                match prefix {
                    $($id::PREFIX => text.parse().map(Self::$name),)*
                    _ => Err(IdError::Prefix { expected: "act_, grp_, site_, res_, pol_, tok_, cli_, idp_, idn_, rly_ or gw" }),
                }
            }
        }

        $(
            impl Kind for $name {
                const KIND: EntityKind = EntityKind::$name;
                type Id = $id;

                fn id(&self) -> $id {
                    self.id
                }

                fn from_entity(entity: Entity) -> Option<Self> {
                    if let Entity::$name(row) = entity { Some(row) } else { None }
                }
            }

            impl From<$name> for Entity {
                fn from(row: $name) -> Self {
                    Self::$name(row)
                }
            }

            impl From<$id> for EntityId {
                fn from(id: $id) -> Self {
                    Self::$name(id)
                }
            }
        )*
    };
}

entities! {
    /// An organisation.
    Account(AccountId) = "account";
    /// An admin, a user or a service account.
    Actor(ActorId) = "actor";
    /// A set of actors.
    Group(GroupId) = "group";
    /// An actor's place in a group.
    Membership(MembershipId) = "membership";
    /// A place with resources and gateways.
    Site(SiteId) = "site";
    /// A network, an address or a name pattern.
    Resource(ResourceId) = "resource";
    /// A group's permission to use a resource.
    Policy(PolicyId) = "policy";
    /// A token of any kind.
    Token(TokenId) = "token";
    /// A machine that uses resources.
    Client(ClientId) = "client";
    /// A machine that gives access.
    Gateway(GatewayId) = "gateway";
    /// A provider that vouches for people who sign in.
    Provider(ProviderId) = "provider";
    /// A person as a provider knows them, with their actor.
    Identity(IdentityId) = "identity";
    /// A machine that forwards what ends behind NATs send each other.
    Relay(RelayId) = "relay";
}

impl Entity {
    /// The name that people give it; memberships and identities have none.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Account(row) => Some(&row.name),
            Self::Actor(row) => Some(&row.name),
            Self::Group(row) => Some(&row.name),
            Self::Membership(_) => None,
            Self::Site(row) => Some(&row.name),
            Self::Resource(row) => Some(&row.name),
            Self::Policy(row) => Some(&row.name),
            Self::Token(row) => Some(&row.name),
            Self::Client(row) => Some(&row.name),
            Self::Gateway(row) => Some(&row.name),
            Self::Provider(row) => Some(&row.name),
            Self::Identity(_) => None,
            Self::Relay(row) => Some(&row.name),
        }
    }
}

/// A row as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRow {
    /// The id.
    pub id: EntityId,
    /// The name.
    pub name: String,
}

impl NamedRow {
    /// The row of this kind with the bytes of its id.
    pub const fn new(kind: EntityKind, id: [u8; 16], name: String) -> Self {
        let id = EntityId::from_bytes(kind, id);
        Self { id, name }
    }
}

impl fmt::Display for NamedRow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name } = self;
        write!(out, "{} {} ({id})", id.kind(), quoted(name))
    }
}

impl fmt::Display for EntityKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for EntityId {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntityId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl From<MachineId> for EntityId {
    fn from(id: MachineId) -> Self {
        match id {
            MachineId::Client(id) => Self::Client(id),
            MachineId::Gateway(id) => Self::Gateway(id),
            MachineId::Relay(id) => Self::Relay(id),
        }
    }
}

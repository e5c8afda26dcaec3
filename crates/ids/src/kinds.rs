//! The kinds of ids: one type each, so that none is taken for another.

use crate::{ID_LEN, IdError, RANDOM_LEN, base32};
use culvert_base::UnixTime;
use std::fmt;
use std::str::FromStr;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; ID_LEN]);

        impl $name {
            /// The prefix of its text, before `_`.
            pub const PREFIX: &str = $prefix;

            /// A new id. Only the low 48 bits of the time are kept, in milliseconds.
            pub const fn new(now: UnixTime, random: [u8; RANDOM_LEN]) -> Self {
                let time = now.as_millis().to_be_bytes();
                let mut bytes = [0; ID_LEN];
                let mut at = 0;
                while at < 6 {
                    bytes[at] = time[at + 2];
                    at += 1;
                }
                while at < ID_LEN {
                    bytes[at] = random[at - 6];
                    at += 1;
                }
                Self(bytes)
            }

            /// From the form in which databases keep it.
            pub const fn from_bytes(bytes: [u8; ID_LEN]) -> Self {
                Self(bytes)
            }

            /// The form in which databases keep it.
            pub const fn as_bytes(&self) -> &[u8; ID_LEN] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let text = base32::encode(self.0);
                let text = std::str::from_utf8(&text).map_err(|_| fmt::Error)?;
                write!(out, "{}_{text}", Self::PREFIX)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let (prefix, rest) = text.split_once('_').unwrap_or(("", text));
                if prefix != Self::PREFIX {
                    return Err(IdError::Prefix { expected: Self::PREFIX });
                }
                base32::decode(rest.as_bytes())
                    .map(Self)
                    .ok_or(IdError::Text { prefix: Self::PREFIX })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// An organisation: nothing crosses it.
    AccountId = "acc";
    /// An admin, a user or a service account.
    ActorId = "act";
    /// A machine that uses resources.
    ClientId = "cli";
    /// A machine that gives access to the resources of its site.
    GatewayId = "gw";
    /// A permission of one client for one resource through one gateway.
    GrantId = "grt";
    /// A set of actors.
    GroupId = "grp";
    /// A person whom an identity provider knows, as an actor.
    IdentityId = "idn";
    /// An actor's place in a group.
    MembershipId = "mem";
    /// A group's permission to use a resource.
    PolicyId = "pol";
    /// One of the portals of a database, from its start to its end.
    PortalId = "portal";
    /// An identity provider, which vouches for people.
    ProviderId = "idp";
    /// A machine that forwards what ends behind NATs send each other.
    RelayId = "rly";
    /// A network, an address or a name pattern.
    ResourceId = "res";
    /// A place with resources and gateways.
    SiteId = "site";
    /// A token of any kind.
    TokenId = "tok";
}

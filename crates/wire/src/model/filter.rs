//! The protocols and ports of a resource that may be used.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One permission among a resource's filters; a packet needs one that admits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "protocol", rename_all = "lowercase", try_from = "Written")]
pub enum Filter {
    /// Everything, other protocols than TCP, UDP and ICMP included.
    Any,
    /// TCP, to these ports; all where the list is left out.
    Tcp {
        /// An empty list that is written out allows no port.
        ports: Vec<PortRange>,
    },
    /// UDP, to these ports; all where the list is left out.
    Udp {
        /// An empty list that is written out allows no port.
        ports: Vec<PortRange>,
    },
    /// ICMP and `ICMPv6` echo.
    Icmp,
}

/// A filter as it is read. No unknown field is ignored, because it may have been meant to narrow the
/// filter: `port` instead of `ports` would allow all ports.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    protocol: WrittenProtocol,
    ports: Option<Vec<PortRange>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenProtocol {
    Any,
    Tcp,
    Udp,
    Icmp,
}

impl TryFrom<Written> for Filter {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let ports = written.ports;
        match written.protocol {
            WrittenProtocol::Any | WrittenProtocol::Icmp if ports.is_some() => {
                Err("only tcp and udp have ports")
            }
            WrittenProtocol::Any => Ok(Self::Any),
            WrittenProtocol::Icmp => Ok(Self::Icmp),
            WrittenProtocol::Tcp => Ok(Self::Tcp {
                ports: ports.unwrap_or_else(PortRange::all),
            }),
            WrittenProtocol::Udp => Ok(Self::Udp {
                ports: ports.unwrap_or_else(PortRange::all),
            }),
        }
    }
}

/// Ports from one to another, both included; a number or `"8000-8100"` in JSON and TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port, not below the first.
    pub last: u16,
}

impl PortRange {
    fn all() -> Vec<Self> {
        vec![Self {
            first: 0,
            last: u16::MAX,
        }]
    }
}

/// The text is no port and no range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a port such as 443, or a range such as \"8000-8100\"")]
pub struct PortRangeError;

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let port = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u16>().map_err(|_| PortRangeError),
            false => Err(PortRangeError),
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        };
        if first > last {
            return Err(PortRangeError);
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}-{}", self.first, self.last)
        }
    }
}

impl Serialize for PortRange {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if self.first == self.last {
            out.serialize_u16(self.first)
        } else {
            out.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = PortRange;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&PortRangeError, out)
            }

            fn visit_u64<E: Error>(self, port: u64) -> Result<PortRange, E> {
                let port = u16::try_from(port)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(port), &self))?;
                Ok(PortRange {
                    first: port,
                    last: port,
                })
            }

            fn visit_i64<E: Error>(self, port: i64) -> Result<PortRange, E> {
                let port = u64::try_from(port)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(port), &self))?;
                self.visit_u64(port)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PortRange, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Visitor)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for PortRange {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{OneOfBuilder, Type};
        use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(65_535));
        let range = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]{1,5}(-[0-9]{1,5})?$"));
        RefOr::T(Schema::OneOf(
            OneOfBuilder::new().item(number).item(range).build(),
        ))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for PortRange {}

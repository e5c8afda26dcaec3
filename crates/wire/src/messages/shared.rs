//! Types that messages of several directions share.

use crate::{DecodeError, Decoded, Message};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The port at which a gateway answers DNS questions about names of resources. Only the gateway's address in the
/// tunnel uses it, so it is no port of the machine. It is below the ephemeral ports (from 32768 on). It is not 53,
/// for which a gateway would need another capability.
pub const SITE_DNS_PORT: u16 = 20_053;

/// The port at which plain WireGuard devices ask a gateway for names: their files can't name another one. The host's firewall
/// leads it to [`SITE_DNS_PORT`].
pub const PLAIN_DNS_PORT: u16 = 53;

/// A message of the portal, with its place in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequenced<M> {
    /// Drawn anew for each session.
    pub epoch: u64,
    /// 1, 2, 3…: a gap means that the portal is broken.
    pub seq: u64,
    /// The message itself.
    #[serde(flatten)]
    pub message: M,
}

impl<M: Message> Message for Sequenced<M> {
    const KINDS: &'static [&'static str] = M::KINDS;
    const MAX_LEN: usize = M::MAX_LEN;
}

/// The place in the session of a message whose kind is not known: it still counts.
///
/// # Errors
/// [`DecodeError`] where the text has no place.
pub fn decode_sequenced<M: Message>(text: &str) -> Result<Sequenced<Decoded<M>>, DecodeError> {
    #[derive(Deserialize)]
    struct Place {
        epoch: u64,
        seq: u64,
    }
    let decoded = crate::decode::<Sequenced<M>>(text)?;
    Ok(match decoded {
        Decoded::Known(known) => Sequenced {
            epoch: known.epoch,
            seq: known.seq,
            message: Decoded::Known(known.message),
        },
        Decoded::Unknown { kind } => {
            let place: Place = serde_json::from_str(text).map_err(|_| DecodeError::NoMessage)?;
            Sequenced {
                epoch: place.epoch,
                seq: place.seq,
                message: Decoded::Unknown { kind },
            }
        }
    })
}

/// The reason of a refusal or an end: a code for programs, a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// For programs.
    pub code: ReasonCode,
    /// For people, brief; the portal's log has it in full.
    pub text: String,
}

/// Codes of [`Reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// The token is unknown, expired, revoked, or of another kind.
    BadToken,
    /// No protocol version is common to both.
    Protocol,
    /// The same client or gateway connected a second time; this session gave way.
    Replaced,
    /// The portal is stopping, or too busy; come back later.
    TryLater,
    /// No such resource, or not for this client; the two are not told apart.
    NoAccess,
    /// A policy exists, but a condition does not hold now.
    ConditionNotMet,
    /// No gateway of the site can be reached.
    NoGateway,
    /// The gateway did not answer in time, or refused.
    GatewayRefused,
    /// The resource is on the gateway's own machine, which serves nobody there.
    HostAddress,
    /// The DNS name does not exist, or has no address.
    NameNotFound,
    /// The DNS name has addresses, none of which its resource allows.
    NameOutside,
    /// The site's DNS did not answer for any of the names.
    NameUnanswered,
    /// More requests at once than the portal keeps.
    TooMany,
    /// The grant's time is over.
    Expired,
    /// An administrator changed something that the grant depended on.
    PolicyChanged,
    /// The client or its token was revoked.
    Revoked,
    /// The client's owner is disabled. The client comes back by itself: the portal says after which time. A
    /// client of an earlier version does so too, as for [`Self::Other`] with a time.
    OwnerDisabled,
    /// A signature, a time or an address of a grant does not hold.
    BadGrant,
    /// The portal could not evaluate, and therefore denies.
    Internal,
    /// A code of a later version.
    #[serde(other)]
    Other,
}

/// The text of a [`Reason`] with [`ReasonCode::OwnerDisabled`].
pub const OWNER_DISABLED: &str = "the owner of this client is disabled";

/// A machine's addresses inside the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// One of 100.64.0.0/11, unless configured otherwise.
    pub ipv4: Ipv4Addr,
    /// One of `fd00:2021:1111::/107`, unless configured otherwise.
    pub ipv6: Ipv6Addr,
}

/// Networks that Culvert uses inside the tunnel, as text `address/length`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ranges {
    /// Clients' and gateways' own addresses.
    pub machines_ipv4: String,
    /// The same of the other family.
    pub machines_ipv6: String,
    /// Addresses that stand for DNS names.
    pub names_ipv4: String,
    /// The same of the other family.
    pub names_ipv6: String,
}

/// Names in one request. A client with more in use asks again with the rest.
pub const MAX_NAMES: usize = 256;

/// A name, and the addresses that a client gives it inside the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedName {
    /// In lower case, without the last dot.
    pub name: String,
    /// From the range for names.
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    pub ipv6: Ipv6Addr,
}

/// The answer of the site's DNS for a name: the families of its addresses that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedName {
    /// The name.
    pub name: String,
    /// It has an A record.
    pub ipv4: bool,
    /// It has an AAAA record.
    pub ipv6: bool,
    /// The existence of the name.
    #[serde(default, skip_serializing_if = "Existence::is_default")]
    pub existence: Existence,
}

/// The existence of a name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Existence {
    /// The name exists. A family without addresses is empty (NODATA, RFC 2308, section 2.2).
    #[default]
    Exists,
    /// The name does not exist (NXDOMAIN, RFC 2308, section 2.1).
    Missing,
    /// The DNS has not answered yet, and is still being asked. Anyone who wants the name asks for it again.
    Pending,
    /// The DNS did not say: it is silent, or answers with an error.
    #[serde(other)]
    Unanswered,
}

impl Existence {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

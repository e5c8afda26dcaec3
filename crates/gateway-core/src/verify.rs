//! Verification of a grant: its signature first, then its claims.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::{DomainName, Filters, Target, Within};
use culvert_wire::messages::{Reason, ReasonCode};
use culvert_wire::{GrantClaims, model};
use pasetors::Public;
use pasetors::keys::AsymmetricPublicKey;
use pasetors::token::UntrustedToken;
use pasetors::version4::{PublicToken, V4};
use std::net::IpAddr;
use std::time::Duration;

/// A grant may be dated this far ahead of this machine's estimate of the portal's clock. The portal tells its clock
/// in whole seconds when a connection begins, and clocks of virtual machines drift by less than this within hours.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// The most keys that a portal may have at once: the one in use and those before and after it.
const MAX_KEYS: usize = 8;

/// The reason for which a grant is refused. All of it is the portal's fault, or a forger's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantFault {
    /// None of the portal's keys has signed it.
    #[error("the signature is none of the portal's")]
    Signature,
    /// Signed, but not what a grant is.
    #[error("the claims are malformed, or of a later version than this gateway: update it")]
    Claims,
    /// It names another gateway.
    #[error("the grant is for another gateway")]
    OtherGateway,
    /// It has expired already.
    #[error(
        "the grant expired {0} s ago by the portal's clock; if that was set since this session began, \
         restart the gateway"
    )]
    Expired(u64),
    /// It was made in the future.
    #[error(
        "the grant was made {0} s from now by the portal's clock; if that was set since this session \
         began, restart the gateway"
    )]
    NotYet(u64),
    /// The client's addresses are not of the range for machines.
    #[error("the client's addresses are not of the tunnel's range")]
    Address,
    /// Another client has an address or the key, or the gateway itself has the key.
    #[error("somebody else has an address or the key of this client")]
    Taken,
    /// The client has another key or other addresses by now.
    #[error("the client has another key or other addresses by now")]
    Outdated,
    /// Another grant for the same resource came into force in its place.
    #[error("another grant has taken its place by now")]
    Replaced,
    /// It does not fit beside the grants in force.
    #[error("the grant does not fit beside the others")]
    Unfit,
    /// A grant with this id is for somebody or something else.
    #[error("another grant has this id")]
    SameId,
    /// The target or a filter can't be.
    #[error("the resource can't be: {0}")]
    Resource(String),
    /// A name that the grant's pattern does not match, or addresses outside the range for names, or
    /// of another name.
    #[error(
        "a name is not one of the resource, or its addresses are not its own of the range for names"
    )]
    Name,
    /// Every name that was asked for leads out of the networks that the resource allows.
    #[error(
        "{name} leads to {address}, outside of the networks that the resource allows (`within`)"
    )]
    Outside {
        /// The first of the names.
        name: DomainName,
        /// An address of it.
        address: IpAddr,
    },
    /// The resource is on this very machine.
    #[error("{0} is the gateway's own machine, which serves clients only with `--host-access`")]
    HostAddress(IpAddr),
    /// More clients, grants or names than the gateway holds.
    #[error("the gateway holds no more: {0}")]
    TooMany(String),
    /// The DNS did not answer.
    #[error("the DNS did not answer for {0}")]
    NoDns(String),
}

impl GrantFault {
    pub(super) fn reason(&self) -> Reason {
        let code = match self {
            Self::Signature
            | Self::Claims
            | Self::OtherGateway
            | Self::NotYet(_)
            | Self::Address
            | Self::Taken
            | Self::SameId
            | Self::Unfit
            | Self::Outdated
            | Self::Replaced
            | Self::Resource(_)
            | Self::Name => ReasonCode::BadGrant,
            Self::Expired(_) => ReasonCode::Expired,
            Self::Outside { .. } => ReasonCode::NameOutside,
            Self::HostAddress(_) => ReasonCode::HostAddress,
            Self::TooMany(_) => ReasonCode::TooMany,
            Self::NoDns(_) => ReasonCode::NameUnanswered,
        };
        let text = self.to_string();
        Reason { code, text }
    }
}

/// Keys whose signature counts.
#[derive(Clone, Debug)]
pub(super) struct GrantKeys {
    keys: Vec<AsymmetricPublicKey<V4>>,
    /// As the portal wrote them, to be kept.
    pub(super) written: Vec<String>,
}

/// Claims of a token whose signature may not hold: to name it in a refusal, and to find it among those that wait.
#[derive(serde::Deserialize)]
pub(super) struct UnverifiedClaims {
    pub(super) grant: GrantId,
    pub(super) resource: ResourceId,
}

/// See [`UnverifiedClaims`].
pub(super) fn unverified_claims(token: &str) -> Option<UnverifiedClaims> {
    let token = UntrustedToken::<Public, V4>::try_from(token).ok()?;
    serde_json::from_slice(token.untrusted_payload()).ok()
}

/// A grant that is one.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) claims: GrantClaims,
    pub(super) target: Target,
    pub(super) within: Option<Within>,
    pub(super) filters: Filters,
    pub(super) inbound: Filters,
}

/// The services of clients' hosts that a resource may use. Those that can't be read open nothing, and neither do those of names.
pub(super) fn inbound(target: &Target, written: &[model::Filter]) -> Filters {
    match target.prefix() {
        Some(_) => model::filters(written).unwrap_or_else(|_| Filters::none()),
        None => Filters::none(),
    }
}

impl GrantKeys {
    /// From Ed25519 keys in base64. Texts that are no key are left out, so no signature of theirs counts.
    pub(super) fn new(written: Vec<String>) -> Self {
        let key = |text: &String| {
            let bytes = STANDARD.decode(text).ok()?;
            AsymmetricPublicKey::from(&bytes).ok()
        };
        let keys = written.iter().take(MAX_KEYS).filter_map(key).collect();
        Self { keys, written }
    }

    /// The claims of a token that one of the keys has signed.
    pub(super) fn open(&self, token: &str) -> Result<GrantClaims, GrantFault> {
        let token =
            UntrustedToken::<Public, V4>::try_from(token).map_err(|_| GrantFault::Signature)?;
        let signed = self
            .keys
            .iter()
            .find_map(|key| PublicToken::verify(key, &token, None, None).ok())
            .ok_or(GrantFault::Signature)?;
        serde_json::from_str(signed.payload()).map_err(|_| GrantFault::Claims)
    }
}

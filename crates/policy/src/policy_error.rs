//! Any of the errors of this crate, as one type.

use crate::dns_rules::DnsRuleError;
use crate::error::{
    ApplicationError, ConditionError, FilterError, GrantError, TargetError, WithinError,
};

/// The fault of something that an administrator or the portal configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A resource points at nothing that can be pointed at.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A condition.
    #[error(transparent)]
    Condition(#[from] ConditionError),
    /// A rule about applications.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// A rule about names.
    #[error(transparent)]
    Dns(#[from] DnsRuleError),
    /// The ranges that names may lead into.
    #[error(transparent)]
    Within(#[from] WithinError),
    /// A grant, or a gateway's table of them.
    #[error(transparent)]
    Grant(#[from] GrantError),
}

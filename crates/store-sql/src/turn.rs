//! The order of changes of the configuration.

use culvert_ids::AccountId;

/// The part of the configuration that a change has for itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    Account(AccountId),
    /// The names of all accounts, which are unique.
    NewAccount,
}

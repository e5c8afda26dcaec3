//! The service's end of its socket, as long as it runs: requests, watchers, and the sign-in that they command.

use super::service_sign_in::ServiceSignIn;
use super::watching::Watching;
use crate::Observed;

/// The requests of other processes, and the state that is theirs.
pub(super) struct ServiceSocket {
    pub(super) observed: Observed,
    pub(super) watching: Watching,
    pub(super) sign_in: ServiceSignIn,
}

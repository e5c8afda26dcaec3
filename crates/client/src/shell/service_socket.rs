//! The service's end of its socket, as long as it runs: requests, watchers, and the sign-in that they command.

use super::service_sign_in::ServiceSignIn;
use super::watching::Watching;
use crate::Observed;
use crate::status::{ServiceStatus, SettingsStatus};

/// The requests of other processes, and the state that is theirs.
pub(super) struct ServiceSocket {
    pub(super) observed: Observed,
    pub(super) watching: Watching,
    pub(super) sign_in: ServiceSignIn,
    /// The settings that commands change; none with the administrator's token.
    pub(super) settings: Option<SettingsStatus>,
}

impl ServiceSocket {
    /// Adds the state of sign-in and settings.
    pub(super) fn report(&self, service: &mut ServiceStatus) {
        self.sign_in.report(service);
        service.settings.clone_from(&self.settings);
    }

    /// True if the system is to ask the client for names.
    pub(super) fn wants_dns(&self) -> bool {
        self.settings.as_ref().is_none_or(|settings| settings.dns)
    }
}

//! Requests for the gateway's state, and the socket at which they come in.

use crate::observer::{Observed, StatusRequest};
use crate::status::SCHEMA_VERSION;
use culvert_host::StatusSocket;
use std::path::Path;
use std::time::Duration;

/// Those who ask for the gateway's state.
pub(super) struct Observation {
    observed: Observed,
    /// Or the reason why there is none.
    socket: Result<StatusSocket, String>,
}

impl Observation {
    /// Opens the socket at which the gateway tells its state. Clients do not depend on it, nor does the
    /// gateway: another one of this machine may have the usual path.
    pub(super) fn start(observed: Observed, path: &Path) -> Self {
        let socket = observed.bind(path, SCHEMA_VERSION).map_err(|error| {
            let problem = format!("`culvert gateway status` is not answered: {error}");
            tracing::warn!("{problem}");
            problem
        });
        Self { observed, socket }
    }

    /// The next request for the state.
    pub(super) async fn next(&mut self) -> StatusRequest {
        self.observed.next().await
    }

    /// Says that the gateway goes on, and the reason why it is not ready.
    pub(super) fn beat(&mut self, not_ready: Option<String>) {
        self.observed.beat(not_ready);
    }

    /// The longest time between two beats.
    pub(super) fn longest_rest(&self) -> Duration {
        self.observed.longest_rest()
    }

    /// The reason why nobody is answered at the socket.
    pub(super) fn problem(&self) -> Option<&str> {
        self.socket.as_ref().err().map(String::as_str)
    }
}

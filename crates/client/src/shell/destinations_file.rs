//! The destinations of resources, stored beside the token: a client that starts again refuses access that ended before.

use crate::Enrolment;
use culvert_client_core::{MAX_STORED_DESTINATIONS_LEN, Remembered};
use culvert_host::{HostError, StateDir};

/// The file with the destinations.
pub(super) const DESTINATIONS_FILE: &str = "destinations.json";

/// The destinations of the run before. A file that can't be read leaves those that the portal tells of.
pub(super) fn read(state: &StateDir, enrolment: &Enrolment) -> Remembered {
    let stored = state.read_at_most(MAX_STORED_DESTINATIONS_LEN, DESTINATIONS_FILE);
    let stored = stored.unwrap_or_else(|error| {
        tracing::warn!(%error, "access that ended before this start is not refused");
        None
    });
    stored.map_or_else(Remembered::default, |stored| {
        Remembered::from_stored(stored.expose(), enrolment.bearer.id)
    })
}

/// Keeps them in the place of those before.
pub(super) fn write(
    state: &StateDir,
    enrolment: &Enrolment,
    remembered: &Remembered,
) -> Result<(), HostError> {
    let text = remembered.stored(enrolment.bearer.id);
    state.write(DESTINATIONS_FILE, text.as_bytes())
}

//! The addresses of the portal, stored beside the token.

use crate::Enrolment;
use culvert_control::PortalAddresses;
use culvert_host::{HostError, StateDir};
use culvert_wire::messages::{MAX_STORED_PORTALS_LEN, PortalSet};

/// The file with the addresses that the portal has told of.
pub(super) const PORTALS_FILE: &str = "portals.json";

/// The addresses of the portal, as far as they are known. A file that can't be read leaves the token's.
pub(super) fn read(state: &StateDir, enrolment: &Enrolment, seed: u64) -> PortalAddresses {
    let stored = state.read_at_most(MAX_STORED_PORTALS_LEN, PORTALS_FILE);
    let stored = stored.unwrap_or_else(|error| {
        tracing::warn!(%error, "the portal is looked for at the address of the token alone");
        None
    });
    let told = stored.map_or_else(PortalSet::default, |stored| {
        PortalSet::from_stored(stored.expose(), enrolment.bearer.id)
    });
    PortalAddresses::new(enrolment.portal.clone(), &told, seed)
}

/// Keeps them: some hundred bytes, and only if they have changed.
pub(super) fn write(
    state: &StateDir,
    enrolment: &Enrolment,
    told: &PortalSet,
) -> Result<(), HostError> {
    state.write(PORTALS_FILE, told.stored(enrolment.bearer.id).as_bytes())
}

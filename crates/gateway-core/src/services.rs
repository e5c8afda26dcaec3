//! The services of a resource, as the portal has set them since a grant was signed.

use culvert_wire::model::{Filter, Understood};

/// What clients may use of a resource, and what it may use of theirs.
#[derive(Clone, Debug)]
pub(super) struct ChangedServices {
    pub(super) filters: Understood<Filter>,
    pub(super) inbound: Understood<Filter>,
}

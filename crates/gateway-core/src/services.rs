//! The services of a resource, as the portal has set them since a grant was signed.

use culvert_wire::model::{Filter, Understood};

/// The services of a resource for its clients, and those of clients' hosts for the resource.
#[derive(Clone, Debug)]
pub(super) struct ChangedServices {
    pub(super) filters: Understood<Filter>,
    pub(super) inbound: Understood<Filter>,
}

//! The state that handlers share.

use culvert_portal_service::Service;
use std::sync::Arc;

/// The state of the API's routes.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) service: Arc<Service>,
}

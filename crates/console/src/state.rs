//! The state that all pages share.

use super::host::Refusals;
use super::names::Names;
use super::person::Person;
use super::streams::Streams;
use culvert_portal_base::Fault;
use culvert_portal_service::Service;
use culvert_store::EntityId;
use culvert_wire::token::Portal;
use std::fmt;
use std::sync::Arc;

/// The state that pages share.
#[derive(Clone)]
pub struct Console {
    /// The rules.
    pub service: Arc<Service>,
    /// The portal's address.
    pub portal: Arc<dyn Fn() -> Portal + Send + Sync>,
    /// Pages that follow what happens.
    pub streams: Streams,
    /// Requests that got no page.
    pub refusals: Arc<Refusals>,
}

impl Console {
    /// The name of a row, as a notice says it; its id where it has none or is gone.
    pub(super) async fn name_of(
        &self,
        person: &Person,
        id: impl Into<EntityId>,
    ) -> Result<String, Fault> {
        let id = id.into();
        Ok(Names::of(self, person, [id]).await?.text(id))
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Console").finish_non_exhaustive()
    }
}

//! The state that all pages share.

use super::host::Refusals;
use super::streams::Streams;
use culvert_portal_base::CertificateState;
use culvert_portal_service::Service;
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
    /// The portal's certificate, as far as people have to look after it.
    pub certificate: Arc<dyn Fn() -> CertificateState + Send + Sync>,
    /// Pages that follow what happens.
    pub streams: Streams,
    /// Requests that got no page.
    pub refusals: Arc<Refusals>,
}

impl fmt::Debug for Console {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Console").finish_non_exhaustive()
    }
}

//! The access that a packet of an application asks for.

use super::catalog::Destination;
use culvert_policy::Service;

/// The intent of an application with a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent {
    pub(crate) client: usize,
    pub(crate) destination: Destination,
    pub(crate) service: Service,
}

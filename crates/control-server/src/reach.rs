//! The way of other portals to this one.

use culvert_wire::token::CertificatePin;
use std::fmt;
use std::net::SocketAddr;

/// The way of the other portals of the database to this one.
pub struct Reach {
    /// Its address.
    pub address: SocketAddr,
    /// SHA-256 of its certificate, which may change.
    pub pin: Box<dyn Fn() -> CertificatePin + Send + Sync>,
}

impl fmt::Debug for Reach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reach")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

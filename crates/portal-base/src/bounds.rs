//! The bounds of connections: a newcomer is admitted, or refused.

use super::class::Class;
use super::connection::Connection;
use super::limits::Limits;
use super::metrics::Metrics;
use super::tables::Tables;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The connections there are.
#[derive(Clone, Debug)]
pub struct Bounds(Arc<Tables>);

impl Bounds {
    /// No connections yet.
    pub fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Tables::new(limits, metrics)))
    }

    /// Waits until one more socket may be open: for those that gave way to be closed.
    pub async fn room(&self) -> OwnedSemaphorePermit {
        self.0.room().await
    }

    /// Nobody waits here: a newcomer takes the place of the largest holder's oldest connection where there are too
    /// many. It is refused where its own subscriber is that holder and has just come.
    pub fn admit(
        &self,
        address: IpAddr,
        is_proxy: bool,
        class: Class,
        room: OwnedSemaphorePermit,
    ) -> Option<Arc<Connection>> {
        Connection::admit(Arc::clone(&self.0), address, is_proxy, class, room).map(Arc::new)
    }
}

#[cfg(test)]
#[path = "bounds/tests.rs"]
mod tests;

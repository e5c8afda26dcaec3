//! The portals of the database.

use super::{Caller, Service};
use culvert_portal_base::{Fault, now};
use culvert_store::PortalRow;
use culvert_wire::api::PortalOfDatabase;

impl Service {
    /// The portals of the last day, those that run first. A portal that has its database for itself is the only one.
    pub async fn portals(&self, caller: &Caller) -> Result<Vec<PortalOfDatabase>, Fault> {
        caller.may_read()?;
        self.all_portals().await
    }

    /// The same for the metrics.
    pub(super) async fn all_portals(&self) -> Result<Vec<PortalOfDatabase>, Fault> {
        let (this, leads) = self.served.portal();
        if !self.database.store.is_shared() {
            let now = now();
            return Ok(vec![PortalOfDatabase {
                portal: this,
                address: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started: self.served.started,
                seen: now,
                runs: true,
                leads,
                answers: true,
                clock_ahead_ms: 0,
            }]);
        }
        let rows = self.database.store.portals();
        let rows = self.database.ask("portals", rows).await?;
        let shown = |row: PortalRow| PortalOfDatabase {
            portal: row.id,
            address: Some(row.address),
            version: row.version,
            started: row.started,
            seen: row.seen,
            runs: row.runs,
            leads: row.leads,
            answers: row.id == this,
            clock_ahead_ms: row.clock_ahead_ms,
        };
        Ok(rows.into_iter().map(shown).collect())
    }
}

//! Reports of portals to a server's database, and the lease of the leader.

use super::connection::Transaction;
use super::postgres::{NOW_MS, begin_writing, expect_no_move};
use super::readable::Readable;
use super::value::{Columns, Value};
use culvert_ids::PortalId;
use culvert_store::{
    Claim, LEASE_MS, Leader, Leading, MAX_PORTALS, PORTAL_KEPT_MS, PORTAL_SILENCE_MS, PortalReport,
    StoreError,
};
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limits of time of a report: it is of no use after the lease.
const LIMITS: &str = "SET LOCAL statement_timeout = 1500; SET LOCAL lock_timeout = 1500; \
     SET LOCAL idle_in_transaction_session_timeout = 2000";

/// The part of a store that reports of a portal need.
#[derive(Debug)]
pub(super) struct Reports {
    /// A connection of its own, so that no report waits for other writes.
    pub(super) pool: PgPool,
    /// True for a portal, which writes grants only while it leads.
    is_portal: bool,
    /// The epoch in which this process leads, or led last; 0 before.
    epoch: AtomicU64,
    readable: Arc<Readable>,
}

impl Reports {
    pub(super) const fn new(pool: PgPool, is_portal: bool, readable: Arc<Readable>) -> Self {
        Self {
            pool,
            is_portal,
            epoch: AtomicU64::new(0),
            readable,
        }
    }

    /// Refuses to write grants in a transaction after another portal has begun to lead, and keeps others from it until
    /// the transaction ends.
    pub(super) async fn check_lead(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        if !self.is_portal {
            return Ok(());
        }
        let epoch = self.epoch.load(Ordering::Relaxed);
        // A program that may not work on the database any more does not lead either.
        let known = self.readable.known();
        let sql = format!(
            "SELECT epoch FROM portal_lead WHERE epoch = ? AND (SELECT version FROM culvert_schema) <= {known} \
             FOR KEY SHARE OF portal_lead"
        );
        match transaction.fetch_one(sql, vec![epoch.into()]).await? {
            Some(_) if epoch > 0 => Ok(()),
            _ => Err(StoreError::NotLeading),
        }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    pub(super) async fn report(
        &self,
        report: &PortalReport,
        claim: Claim,
    ) -> Result<Leading, StoreError> {
        let mut transaction = begin_writing(&self.pool, None, None).await?;
        transaction.script(LIMITS.to_owned()).await?;
        expect_no_move(&mut transaction).await?;
        self.readable.check_in(&mut transaction).await?;
        note(&mut transaction, report, self.readable.known()).await?;
        let renew = format!(
            "UPDATE portal_lead SET portal = ?1, until_ms = {NOW_MS} + {LEASE_MS}, \
             epoch = CASE WHEN portal = ?1 THEN epoch ELSE epoch + 1 END \
             WHERE portal = ?1 OR (?2 = 1 AND until_ms < {NOW_MS})"
        );
        let id = report.id.as_bytes();
        let takes = u64::from(claim == Claim::Take);
        match claim {
            Claim::Leave => {
                // Its next lead has an epoch of its own.
                let leave = "UPDATE portal_lead SET until_ms = 0, portal = '' WHERE portal = ?";
                transaction.execute(leave, vec![id.into()]).await?;
            }
            Claim::Renew | Claim::Take => {
                let values = vec![id.into(), takes.into()];
                transaction.execute(renew, values).await?;
            }
        }
        let leading = leading(&mut transaction, report.id).await?;
        transaction.commit().await?;
        if let Leading::This { epoch } = leading {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
        Ok(leading)
    }
}

/// Writes the portal's row.
async fn note(
    transaction: &mut Transaction,
    report: &PortalReport,
    schema: u32,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE portal SET address = ?2, pin = ?3, key_digest = ?4, software = ?5, seen_ms = {NOW_MS}, \
         clock_ahead_ms = ?6 - {NOW_MS}, schema_version = ?7 WHERE id = ?1"
    );
    let values = || -> Vec<Value> {
        vec![
            report.id.as_bytes().into(),
            report.address.to_string().into(),
            report.pin.to_string().into(),
            report.key.as_bytes().as_slice().into(),
            report.version.clone().into(),
            report.now.into(),
            u64::from(schema).into(),
        ]
    };
    if transaction.execute(sql, values()).await? > 0 {
        return Ok(());
    }
    // A portal that is killed and started again and again leaves a row each time: the oldest give way.
    let forget = format!(
        "DELETE FROM portal WHERE seen_ms < {NOW_MS} - {PORTAL_KEPT_MS} OR (seen_ms < {NOW_MS} - {PORTAL_SILENCE_MS} \
         AND id NOT IN (SELECT id FROM portal ORDER BY seen_ms DESC LIMIT {MAX_PORTALS} - 1))"
    );
    transaction.execute(forget, Vec::new()).await?;
    let counted = "SELECT count(*) AS portals FROM portal";
    let row = transaction.fetch_one(counted, Vec::new()).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
    if row.columns().number("portals")? >= MAX_PORTALS {
        return Err(StoreError::TooMany {
            what: "portals of one database",
            limit: MAX_PORTALS,
        });
    }
    let sql = format!(
        "INSERT INTO portal (id, address, pin, key_digest, software, started_ms, seen_ms, clock_ahead_ms, \
         schema_version) VALUES (?1, ?2, ?3, ?4, ?5, {NOW_MS}, {NOW_MS}, ?6 - {NOW_MS}, ?7)"
    );
    transaction.execute(sql, values()).await.map(drop)
}

/// The leader as this transaction sees it.
async fn leading(transaction: &mut Transaction, own: PortalId) -> Result<Leading, StoreError> {
    let sql = format!(
        "SELECT epoch, portal, address, pin FROM portal_lead \
         JOIN portal ON portal.id = portal_lead.portal WHERE until_ms >= {NOW_MS}"
    );
    let Some(row) = transaction.fetch_one(sql, Vec::new()).await? else {
        return Ok(Leading::Nobody);
    };
    let row = row.columns();
    let epoch = row.number("epoch")?;
    let portal = PortalId::from_bytes(row.bytes("portal")?);
    if portal == own {
        return Ok(Leading::This { epoch });
    }
    Ok(Leading::Other(Leader {
        epoch,
        portal,
        address: parsed(&row, "address")?,
        pin: parsed(&row, "pin")?,
    }))
}

/// A column that holds the text of a value.
pub(super) fn parsed<T: std::str::FromStr>(
    row: &Columns<'_>,
    column: &'static str,
) -> Result<T, StoreError> {
    row.text(column)?
        .parse()
        .map_err(|_| StoreError::corrupt(format!("portal.{column}")))
}

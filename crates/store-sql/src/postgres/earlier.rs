//! Portals of earlier versions, for which an upgrade waits.

use super::NOW_MS;
use crate::connection::Transaction;
use culvert_ids::PortalId;
use culvert_store::StoreError;

/// The time after its last report for which a portal of an earlier version keeps an upgrade from being finished: whatever it
/// began before a pause is over then. A write lasts 45 s at most (a lock, a statement and the wait for the next one).
const FINISH_SILENCE_MS: u64 = 60_000;

/// Refuses while a portal is there whose program is of an earlier version.
pub(super) async fn expect_no_portal_before(
    transaction: &mut Transaction,
    version: u32,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT id, address, software, schema_version, {NOW_MS} - seen_ms AS silent_ms FROM portal \
         WHERE schema_version < ? AND seen_ms >= {NOW_MS} - {FINISH_SILENCE_MS} ORDER BY seen_ms DESC LIMIT 1"
    );
    let row = transaction
        .fetch_one(sql, vec![u64::from(version).into()])
        .await?;
    let Some(row) = row else {
        return Ok(());
    };
    let row = row.columns();
    let id = PortalId::from_bytes(row.bytes("id")?);
    let silent_ms: i64 = row.get("silent_ms")?;
    Err(StoreError::Unusable {
        detail: format!(
            "portal {id} at {} (culvert {}) has schema version {}, and version {version} is needed: upgrade or stop it, \
             then try again; it reported {} s ago, and one that was killed counts for {} s",
            row.text("address")?,
            row.text("software")?,
            row.number("schema_version")?,
            silent_ms.max(0) / 1_000,
            FINISH_SILENCE_MS / 1_000,
        ),
    })
}

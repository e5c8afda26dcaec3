//! The portals of a server's database.

use super::dialect::Dialect;
use super::postgres::{NOW_MS, begin_writing};
use super::reports::parsed;
use super::store::SqlStore;
use super::value::Columns;
use async_trait::async_trait;
use culvert_ids::PortalId;
use culvert_store::{
    Claim, DatabaseFacts, Leading, MAX_PORTALS, PORTAL_SILENCE_MS, PortalReport, PortalRow,
    Portals, StoreError,
};
use culvert_wire::token::SecretDigest;

/// The size is that of the whole database, with its indexes.
const POSTGRES_FACTS: &str = "SELECT current_setting('server_version') AS version, \
    CAST(current_database() AS text) AS name, pg_database_size(current_database()) AS size_bytes";

/// Pages that are free count, since they are part of the file.
const SQLITE_FACTS: &str = "SELECT sqlite_version() AS version, NULL AS name, page_count * page_size AS size_bytes \
    FROM pragma_page_count(), pragma_page_size()";

fn read_row(row: Columns<'_>) -> Result<PortalRow, StoreError> {
    Ok(PortalRow {
        id: PortalId::from_bytes(row.bytes("id")?),
        address: parsed(&row, "address")?,
        version: row.text("software")?,
        started: row.time("started_ms")?,
        seen: row.time("seen_ms")?,
        runs: row.flag("runs")?,
        leads: row.flag("leads")?,
        clock_ahead_ms: row.get("clock_ahead_ms")?,
    })
}

#[async_trait]
impl Portals for SqlStore {
    fn is_shared(&self) -> bool {
        self.reports.is_some()
    }

    async fn report(&self, report: &PortalReport, claim: Claim) -> Result<Leading, StoreError> {
        match &self.reports {
            Some(reports) => reports.report(report, claim).await,
            None => Ok(Leading::This { epoch: 1 }),
        }
    }

    async fn retire(&self, portal: PortalId) -> Result<(), StoreError> {
        let Some(reports) = &self.reports else {
            return Ok(());
        };
        let mut transaction = begin_writing(&reports.pool, None, None).await?;
        let id = || vec![portal.as_bytes().into()];
        let end = "UPDATE portal_lead SET until_ms = 0 WHERE portal = ?";
        transaction.execute(end, id()).await?;
        transaction
            .execute("DELETE FROM portal WHERE id = ?", id())
            .await?;
        transaction.commit().await
    }

    async fn portal_key(&self, portal: PortalId) -> Result<Option<SecretDigest>, StoreError> {
        if self.reports.is_none() {
            return Ok(None);
        }
        // Strangers cause this: it takes nothing from the connection of the reports.
        let mut transaction = self.reading().await?;
        let sql = format!(
            "SELECT key_digest FROM portal WHERE id = ? AND seen_ms >= {NOW_MS} - {PORTAL_SILENCE_MS}"
        );
        let row = transaction
            .fetch_one(sql, vec![portal.as_bytes().into()])
            .await?;
        let digest = row.map(|row| row.columns().bytes("key_digest"));
        Ok(digest.transpose()?.map(SecretDigest::from_bytes))
    }

    async fn database(&self) -> Result<DatabaseFacts, StoreError> {
        let mut transaction = self.reading().await?;
        let (program, sql) = match transaction.dialect() {
            Dialect::Postgres => ("PostgreSQL", POSTGRES_FACTS),
            Dialect::Sqlite => ("SQLite", SQLITE_FACTS),
        };
        let row = transaction.fetch_one(sql, Vec::new()).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("the database says nothing of itself"))?;
        let row = row.columns();
        Ok(DatabaseFacts {
            program,
            version: row.text("version")?,
            name: row.get("name")?,
            size_bytes: row.number("size_bytes")?,
        })
    }

    async fn portals(&self) -> Result<Vec<PortalRow>, StoreError> {
        if self.reports.is_none() {
            return Ok(Vec::new());
        }
        let flag = |condition: &str| format!("CAST(CAST({condition} AS integer) AS bigint)");
        let runs = flag(&format!("(seen_ms >= {NOW_MS} - {PORTAL_SILENCE_MS})"));
        let leads = flag(&format!(
            "EXISTS (SELECT 1 FROM portal_lead WHERE portal = id AND until_ms >= {NOW_MS})"
        ));
        let sql = format!(
            "SELECT id, address, software, started_ms, seen_ms, clock_ahead_ms, {runs} AS runs, {leads} AS leads \
             FROM portal ORDER BY runs DESC, started_ms, id LIMIT {MAX_PORTALS}"
        );
        let rows = self.reading().await?.fetch(sql, Vec::new()).await?;
        rows.iter().map(read_row).collect()
    }
}

//! Retention of the logs.

use super::{Caller, Service};
use culvert_portal_base::{Fault, Problems};
use culvert_store as store;
use culvert_wire::api::{Retention, RetentionPatch};
use culvert_wire::model::LogSettings;

impl Service {
    /// The retention of each log, and the setting of the flow log.
    pub async fn retention(&self, caller: &Caller) -> Result<Retention, Fault> {
        let row = self
            .read::<store::Account>(caller, caller.account())
            .await?;
        self.show_retention(row).await
    }

    /// Changes how long logs are kept.
    pub async fn change_retention(
        &self,
        caller: &Caller,
        expected: Option<u64>,
        patch: RetentionPatch,
    ) -> Result<Retention, Fault> {
        if patch.change_days.is_some() {
            // Owners watch admins by the change log, so owners alone change its retention.
            caller.may_change_owners()?;
        }
        let change = |row: &mut store::Account| {
            let logs = &mut row.settings.logs;
            logs.flow_log = patch.flow_log.unwrap_or(logs.flow_log);
            logs.access = patch.access.unwrap_or(logs.access);
            logs.flows = patch.flows.unwrap_or(logs.flows);
            if let Some(days) = patch.change_days {
                logs.change_days = Some(days).filter(|days| *days > 0);
            }
            checked(logs)
        };
        let row = self
            .change(caller, caller.account(), expected, change)
            .await?;
        self.show_retention(row).await
    }

    async fn show_retention(&self, row: store::Account) -> Result<Retention, Fault> {
        let lost = self
            .database
            .ask("flows_lost", self.database.store.flows_lost(row.id))
            .await?;
        let logs = row.settings.logs;
        Ok(Retention {
            flow_log: logs.flow_log,
            access: logs.access,
            flows: logs.flows,
            change_days: logs.change_days.unwrap_or(0),
            flows_lost: lost,
            version: row.stamp.version,
        })
    }
}

/// Checks the settings; a fault names the field.
pub(super) fn checked(logs: &LogSettings) -> Result<(), Fault> {
    let mut problems = Problems::default();
    for (field, why) in logs.problems() {
        problems.take::<()>(Err(Fault::invalid(field, why)))?;
    }
    problems.finish()
}

//! The whole configuration at once: what is wanted is compared with what is there, and the
//! difference is done in one transaction.

mod form;
mod index;
mod plan;

use super::{Caller, Service};
use culvert_portal_base::{Birth, Fault, birth};
use culvert_store::{ListFilter, StoreError};
use culvert_wire::api::{ApplyOptions, ApplyReport, Desired};
use plan::{Now, Plan};

/// The number of plans made for one request: a change to the configuration under a plan makes it
/// stale.
const ATTEMPTS: usize = 4;

/// New ids in the order in which they are asked for: of resources that are alike the older wins, and
/// in a file that is the first.
fn births() -> Result<impl FnMut() -> Birth, Fault> {
    let (at, _) = birth()?;
    let mut count = 0_u32;
    Ok(move || {
        let (_, mut random) = birth()?;
        // 48 random bits are left, for ids of one millisecond.
        random[..4].copy_from_slice(&count.to_be_bytes());
        count = count.wrapping_add(1);
        Ok((at, random))
    })
}

impl Service {
    /// Makes the configuration what is wanted, or says what that would change.
    pub async fn apply(
        &self,
        caller: &Caller,
        desired: &Desired,
        options: ApplyOptions,
    ) -> Result<ApplyReport, Fault> {
        // Saying what would change shows no more than reading does.
        caller.may_read()?;
        if !options.dry_run {
            caller.may_change()?;
        }
        for _ in 0..ATTEMPTS {
            let snapshot = self.database.store.snapshot(caller.account());
            let snapshot = self.database.ask("snapshot", snapshot).await?;
            let everyone = ListFilter::default();
            let by_providers = self.made_by_providers(caller.account(), &everyone).await?;
            let now = Now {
                snapshot: &snapshot,
                by_providers: &by_providers,
                knows_countries: self.served.knows_countries(),
            };
            let plan = Plan::make(now, desired, options.prune, births()?)?;
            let emptied = plan.emptied(&snapshot);
            if options.dry_run || plan.mutations.is_empty() {
                return Ok(ApplyReport {
                    applied: !options.dry_run,
                    changes: plan.changes,
                    warnings: plan.warnings,
                    emptied,
                });
            }
            if !emptied.is_empty() && !options.allow_empty {
                return Err(Fault::Conflict(format!(
                    "`prune` would delete {}: is the configuration complete? If that is meant, add `allow_empty=true`",
                    emptied.join(", ")
                )));
            }
            self.may_apply(caller, &plan).await?;
            let written = self
                .write(caller.account(), caller.author(), plan.mutations)
                .await;
            match written {
                Ok(_) => {
                    return Ok(ApplyReport {
                        applied: true,
                        changes: plan.changes,
                        warnings: plan.warnings,
                        emptied,
                    });
                }
                // Something was changed since the snapshot; the next plan knows of it.
                Err(
                    StoreError::VersionConflict { .. }
                    | StoreError::NameTaken { .. }
                    | StoreError::Exists(_)
                    | StoreError::NotFound(_),
                ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::Conflict(
            "others change the configuration all the time; try again".to_owned(),
        ))
    }

    async fn may_apply(&self, caller: &Caller, plan: &Plan) -> Result<(), Fault> {
        if plan.touched_actors.is_empty() {
            return Ok(());
        }
        let touched = plan.touched_actors.iter().copied();
        self.may_shut_out(caller, touched, |_, actor| {
            plan.shut_out_actors.contains(&actor)
        })
        .await
    }
}

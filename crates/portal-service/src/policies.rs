use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::PolicyId;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewPolicy, Page, Policy, PolicyPatch};

impl Service {
    /// A page of the policies that the caller may see.
    pub async fn policies(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Policy>, Fault> {
        self.list(caller, request, |row| self.show_policy(row))
            .await
    }

    /// The policy with this id.
    pub async fn policy(&self, caller: &Caller, id: PolicyId) -> Result<Policy, Fault> {
        let row = self.read(caller, id).await?;
        Ok(self.show_policy(row))
    }

    /// Creates a policy.
    pub async fn create_policy(&self, caller: &Caller, new: NewPolicy) -> Result<Policy, Fault> {
        caller.may_change()?;
        let (born, random) = birth()?;
        let row = store::Policy {
            id: PolicyId::new(born, random),
            name: names::name("name", &new.name)?,
            group: new.group,
            resource: new.resource,
            disabled: new.disabled,
            conditions: names::conditions(None, "", &new.conditions)?,
            stamp: Stamp::default(),
        };
        let row = self.create(caller, row).await?;
        Ok(self.show_policy(row))
    }

    /// Changes a policy; with `expected`, only that version of it.
    pub async fn change_policy(
        &self,
        caller: &Caller,
        id: PolicyId,
        expected: Option<u64>,
        patch: PolicyPatch,
    ) -> Result<Policy, Fault> {
        let change = |row: &mut store::Policy| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            if let Some(conditions) = &patch.conditions {
                row.conditions = names::conditions(Some(&row.conditions), "", conditions)?;
            }
            row.group = patch.group.unwrap_or(row.group);
            row.resource = patch.resource.unwrap_or(row.resource);
            row.disabled = patch.disabled.unwrap_or(row.disabled);
            Ok(())
        };
        let row = self.change(caller, id, expected, change).await?;
        Ok(self.show_policy(row))
    }

    fn show_policy(&self, row: store::Policy) -> Policy {
        show::policy(row, self.served.knows_countries())
    }

    /// Deletes a policy.
    pub async fn delete_policy(
        &self,
        caller: &Caller,
        id: PolicyId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Policy>(caller, id, expected, false)
            .await
    }
}

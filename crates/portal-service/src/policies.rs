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
        self.list(caller, request, show::policy).await
    }

    /// The policy with this id.
    pub async fn policy(&self, caller: &Caller, id: PolicyId) -> Result<Policy, Fault> {
        self.read(caller, id).await.map(show::policy)
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
            conditions: names::conditions("", &new.conditions)?,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::policy)
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
                row.name = names::name("name", name)?;
            }
            if let Some(conditions) = &patch.conditions {
                row.conditions = names::conditions("", conditions)?;
            }
            row.group = patch.group.unwrap_or(row.group);
            row.resource = patch.resource.unwrap_or(row.resource);
            row.disabled = patch.disabled.unwrap_or(row.disabled);
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::policy)
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

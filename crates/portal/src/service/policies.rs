use super::{Caller, ListRequest, Service, birth, names, show};
use crate::fault::Fault;
use culvert_ids::PolicyId;
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewPolicy, Page, Policy, PolicyPatch};

impl Service {
    pub(crate) async fn policies(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Policy>, Fault> {
        self.list(caller, request, show::policy).await
    }

    pub(crate) async fn policy(&self, caller: &Caller, id: PolicyId) -> Result<Policy, Fault> {
        self.read(caller, id).await.map(show::policy)
    }

    pub(crate) async fn create_policy(
        &self,
        caller: &Caller,
        new: NewPolicy,
    ) -> Result<Policy, Fault> {
        caller.may_change()?;
        self.read::<store::Group>(caller, new.group)
            .await
            .map_err(|fault| fault.at_field("group"))?;
        self.read::<store::Resource>(caller, new.resource)
            .await
            .map_err(|fault| fault.at_field("resource"))?;
        let (now_ms, random) = birth()?;
        let row = store::Policy {
            id: PolicyId::new(now_ms, random),
            name: names::name("name", &new.name)?,
            group: new.group,
            resource: new.resource,
            disabled: new.disabled,
            conditions: names::conditions("", &new.conditions)?,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::policy)
    }

    pub(crate) async fn change_policy(
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
            row.disabled = patch.disabled.unwrap_or(row.disabled);
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::policy)
    }

    pub(crate) async fn delete_policy(
        &self,
        caller: &Caller,
        id: PolicyId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Policy>(caller, id, expected, false)
            .await
    }
}

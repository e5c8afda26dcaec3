use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::PolicyId;
use culvert_portal_base::{Fault, Problems, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewPolicy, Page, Policy, PolicyPatch};
use culvert_wire::model::Condition;

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
        let own = OwnFields::checked(None, Some(&new.name), Some(&new.conditions))?;
        let mut row = store::Policy {
            id: PolicyId::new(born, random),
            name: new.name,
            group: new.group,
            resource: new.resource,
            disabled: new.disabled,
            conditions: new.conditions,
            stamp: Stamp::default(),
        };
        own.put_into(&mut row);
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
            let (name, conditions) = (patch.name.as_deref(), patch.conditions.as_deref());
            OwnFields::checked(Some(row), name, conditions)?.put_into(row);
            row.group = patch.group.unwrap_or(row.group);
            row.resource = patch.resource.unwrap_or(row.resource);
            row.disabled = patch.disabled.unwrap_or(row.disabled);
            Ok(())
        };
        let row = self.change(caller, id, expected, change).await?;
        Ok(self.show_policy(row))
    }

    /// Names the wrong fields of a policy that is not complete yet: a new one, or `id` with the patch. Nothing is written.
    pub async fn check_policy(
        &self,
        caller: &Caller,
        id: Option<PolicyId>,
        patch: &PolicyPatch,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let before: Option<store::Policy> = match id {
            Some(id) => Some(self.get(caller.account(), id).await?),
            None => None,
        };
        let (name, conditions) = (patch.name.as_deref(), patch.conditions.as_deref());
        OwnFields::checked(before.as_ref(), name, conditions).map(drop)
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

/// The fields of a policy that refer to nothing else, in the form in which they are kept.
struct OwnFields {
    name: Option<String>,
    conditions: Option<Vec<Condition>>,
}

impl OwnFields {
    /// Names all that are wrong. `before` is the policy as it is: what stays as it was is not judged again.
    fn checked(
        before: Option<&store::Policy>,
        name: Option<&str>,
        conditions: Option<&[Condition]>,
    ) -> Result<Self, Fault> {
        let name_before = before.map(|row| &*row.name);
        let conditions_before = before.map(|row| &*row.conditions);
        let mut problems = Problems::default();
        let name = name.map(|name| names::name_after(name_before, "name", name));
        let conditions =
            conditions.map(|conditions| names::conditions(conditions_before, "", conditions));
        let own = Self {
            name: problems.take(name.transpose())?.flatten(),
            conditions: problems.take(conditions.transpose())?.flatten(),
        };
        problems.finish()?;
        Ok(own)
    }

    fn put_into(self, row: &mut store::Policy) {
        if let Some(name) = self.name {
            row.name = name;
        }
        if let Some(conditions) = self.conditions {
            row.conditions = conditions;
        }
    }
}

//! Explains a denial, and names the changes by which an administrator ends it.

use super::{Caller, Service, show};
use culvert_hub::{Bar, Explained, PolicyView, UnmetKind};
use culvert_ids::{ActorId, ClientId, GroupId, PolicyId, ResourceId, SiteId};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityId, ListFilter, PageLimit, StoreExt};
use culvert_wire::api::{Client, Explanation, Resource};
use culvert_wire::messages::ReasonCode;
use culvert_wire::model::Filter;
use culvert_wire::port::Port;

/// Changes that are offered for one denial: what a screen shows.
const MAX_MENDS: usize = 12;

/// Groups that are offered where no policy joins a group of the person with the resource.
const MAX_GROUPS_OFFERED: u64 = 5;

/// An explanation with the things that it is about.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The decision of the portal.
    pub explanation: Explanation,
    /// The client that would ask.
    pub client: Client,
    /// The owner of the client.
    pub owner: String,
    /// The resource that it would ask for.
    pub resource: Resource,
    /// The answer about the port, if there was one to ask about.
    pub port: Option<PortAnswer>,
    /// Changes that the caller may make, each with the reason that it removes.
    pub mends: Vec<Mendable>,
}

impl Diagnosis {
    /// True if the client gets through: the portal gives access, and the filters let the port through.
    #[must_use]
    pub fn passes(&self) -> bool {
        let is_allow = self.explanation.verdict == culvert_wire::api::Verdict::Allow;
        is_allow && self.port.as_ref().is_none_or(|port| port.passes)
    }
}

/// The answer about a port. Gateways enforce the filters of the resource.
#[derive(Clone, Debug)]
pub struct PortAnswer {
    /// The port.
    pub port: Port,
    /// True if the filters let it through.
    pub passes: bool,
    /// The same in a sentence.
    pub text: String,
}

impl PortAnswer {
    fn new(port: Port, resource: &str, filters: &[Filter]) -> Self {
        Self {
            port,
            passes: port.passes(filters),
            text: port.in_words(resource, filters),
        }
    }
}

/// A reason of a denial, and the change that removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mendable {
    /// The reason.
    pub reason: String,
    /// The change.
    pub mend: Mend,
}

/// A change that an administrator can make. Versions are those of the rows that were explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Verify the client.
    VerifyClient(ClientId, u64),
    /// Enable the owner of the client.
    EnableActor(ActorId, u64),
    /// Enable a policy.
    EnablePolicy(PolicyId, String, u64),
    /// Change the conditions of a policy.
    EditPolicy(PolicyId, String),
    /// Add the owner of the client to the group of a policy.
    JoinGroup(GroupId, String),
    /// Create a policy, for this group of the person if there is one.
    CreatePolicy(Option<(GroupId, String)>),
    /// Create a token with which the client comes back.
    NewToken(ActorId),
    /// Change the resource.
    EditResource(ResourceId),
    /// Look after the gateways of the site.
    OpenSite(SiteId, String),
}

impl Service {
    /// The decision if the client asked now, its reasons, and the changes that remove them. Those are for callers who
    /// may make them.
    pub async fn diagnose(
        &self,
        caller: &Caller,
        client: ClientId,
        resource: ResourceId,
        port: Option<Port>,
    ) -> Result<Diagnosis, Fault> {
        let client: store::Client = self.read(caller, client).await?;
        let resource: store::Resource = self.read(caller, resource).await?;
        let owner: store::Actor = self.read(caller, client.actor).await?;
        let (explanation, explained) = self.explained(caller, &client, &resource).await?;
        let port = port.map(|port| PortAnswer::new(port, &resource.name, &resource.filters));
        let mut mends = Vec::new();
        // The machine of a revoked client has to enrol anew: no change here brings it back.
        if caller.may_change().is_ok() && client.revoked.is_none() {
            mends.extend(self.mend_of_owner(caller, &owner).await?);
            mends.extend(
                explained
                    .barred
                    .as_ref()
                    .and_then(|bar| mend_of_bar(bar, &client, resource.id)),
            );
            mends.extend(self.mends_of_policies(caller, &client, &explained).await?);
            if explained.policies.outcomes.is_empty() {
                mends.extend(
                    self.mends_without_policy(caller, &owner, resource.id)
                        .await?,
                );
            }
            mends.extend(self.mend_of_gateways(caller, &resource, &explained).await?);
            if let Some(port) = port.as_ref().filter(|port| !port.passes) {
                mends.push(Mendable {
                    reason: port.text.clone(),
                    mend: Mend::EditResource(resource.id),
                });
            }
            mends.truncate(MAX_MENDS);
        }
        Ok(Diagnosis {
            explanation,
            client: show::client(client),
            owner: owner.name,
            resource: self.show_resource(resource, caller.account()).await?,
            port,
            mends,
        })
    }

    /// The owner is enabled again, by those who may change them.
    async fn mend_of_owner(
        &self,
        caller: &Caller,
        owner: &store::Actor,
    ) -> Result<Option<Mendable>, Fault> {
        let is_mended = owner.disabled && self.may_change_actor(caller, owner.id).await?;
        Ok(is_mended.then(|| Mendable {
            reason: format!("{} is disabled", owner.name),
            mend: Mend::EnableActor(owner.id, owner.stamp.version),
        }))
    }

    /// The changes after which a policy of a group of the client would allow it. One that allows already needs none.
    async fn mends_of_policies(
        &self,
        caller: &Caller,
        client: &store::Client,
        explained: &Explained,
    ) -> Result<Vec<Mendable>, Fault> {
        let mut mends: Vec<Mendable> = Vec::new();
        if explained.policies.is_allow {
            return Ok(mends);
        }
        let mut outcomes: Vec<_> = explained.policies.outcomes.iter().collect();
        let unmet =
            |outcome: &PolicyView| outcome.outcome.as_ref().err().cloned().unwrap_or_default();
        // The policy that is nearest to allowing comes first.
        outcomes.sort_by_key(|outcome| unmet(outcome).len());
        outcomes.truncate(MAX_MENDS);
        for outcome in outcomes {
            let policy: store::Policy = self.read(caller, outcome.policy).await?;
            for unmet in unmet(outcome) {
                let mend = match unmet.kind {
                    UnmetKind::NotVerified => Mend::VerifyClient(client.id, client.stamp.version),
                    UnmetKind::Disabled => {
                        Mend::EnablePolicy(policy.id, policy.name.clone(), policy.stamp.version)
                    }
                    UnmetKind::Country | UnmetKind::Other => {
                        Mend::EditPolicy(policy.id, policy.name.clone())
                    }
                };
                if mends.iter().all(|known| known.mend != mend) {
                    let reason = self.reason(&unmet);
                    mends.push(Mendable { reason, mend });
                }
            }
        }
        Ok(mends)
    }

    /// The owner joins a group that has a policy for the resource, or a group of theirs gets one.
    async fn mends_without_policy(
        &self,
        caller: &Caller,
        owner: &store::Actor,
        resource: ResourceId,
    ) -> Result<Vec<Mendable>, Fault> {
        let few = PageLimit::new(MAX_GROUPS_OFFERED);
        let referring = |to: EntityId| ListFilter {
            refers_to: vec![to],
            ..ListFilter::default()
        };
        let (store, account) = (&self.database.store, caller.account());
        let (of_resource, of_owner) = (referring(resource.into()), referring(owner.id.into()));
        let policies = store.list_as::<store::Policy>(account, &of_resource, None, few);
        let policies = self.database.ask("list", policies).await?.items;
        let own = store.list_as::<store::Membership>(account, &of_owner, None, few);
        let own = self.database.ask("list", own).await?.items;
        let policies_groups = policies.iter().map(|policy| policy.group.into());
        let ids = policies_groups.chain(own.iter().map(|membership| membership.group.into()));
        let names = self.names_of(caller, ids).await?;
        let mut mends: Vec<Mendable> = Vec::new();
        for policy in policies {
            let Some(name) = names.get(&policy.group.into()) else {
                continue;
            };
            let mend = Mend::JoinGroup(policy.group, name.clone());
            if mends.iter().all(|known| known.mend != mend) {
                mends.push(Mendable {
                    reason: format!("{} is not in group {name}", owner.name),
                    mend,
                });
            }
        }
        let groups = own.iter().filter_map(|membership| {
            let name = names.get(&membership.group.into())?;
            Some((membership.group, name.clone()))
        });
        let groups: Vec<_> = groups.map(Some).collect();
        let groups = if groups.is_empty() {
            vec![None]
        } else {
            groups
        };
        mends.extend(groups.into_iter().map(|group| Mendable {
            reason: match &group {
                Some((_, name)) => format!("no policy lets group {name} use the resource"),
                None => format!("{} is in no group", owner.name),
            },
            mend: Mend::CreatePolicy(group),
        }));
        Ok(mends)
    }

    async fn mend_of_gateways(
        &self,
        caller: &Caller,
        resource: &store::Resource,
        explained: &Explained,
    ) -> Result<Option<Mendable>, Fault> {
        let Err(reason) = &explained.gateway else {
            return Ok(None);
        };
        let site: store::Site = self.read(caller, resource.site).await?;
        Ok(Some(Mendable {
            reason: reason.clone(),
            mend: Mend::OpenSite(site.id, site.name),
        }))
    }
}

/// The change that removes what bars a client, though a policy allows it.
fn mend_of_bar(bar: &Bar, client: &store::Client, resource: ResourceId) -> Option<Mendable> {
    let mend = match bar.code {
        // The owner is a reason of its own.
        ReasonCode::OwnerDisabled => return None,
        ReasonCode::ConditionNotMet => Mend::EditResource(resource),
        _ => Mend::NewToken(client.actor),
    };
    let reason = bar.text.clone();
    Some(Mendable { reason, mend })
}

//! Identity providers, which vouch for people who sign in, and the people that they know.

use super::stamp::Stamp;
use culvert_ids::{ActorId, GroupId, IdentityId, MembershipId, ProviderId};
use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};

/// An identity provider that speaks OpenID Connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Its id.
    pub id: ProviderId,
    /// The name that people give it.
    pub name: String,
    /// Its URL. It never changes: a subject means somebody at this issuer alone.
    pub issuer: String,
    /// The client id of this portal there.
    pub client_id: String,
    /// The time at which the portal's secret there was last set; the secret itself is stored apart.
    /// Without one, the portal is a public client.
    pub secret_set: Option<Timestamp>,
    /// Nobody signs in by it.
    pub disabled: bool,
    /// The settings of its use.
    pub settings: ProviderSettings,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// The settings of a provider's use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSettings {
    /// Authorities that vouch for its certificate beside those that the system trusts, in PEM.
    pub ca: Option<String>,
    /// The scopes that it is asked for beside `openid`.
    pub scopes: Vec<String>,
    /// The claim that names the groups that somebody is in.
    pub groups_claim: Option<String>,
    /// The groups here that those stand for.
    pub groups: Vec<GroupOfClaim>,
    /// The treatment of people whom nobody knows yet.
    pub unknown: UnknownPeople,
}

/// A value of the claim, and the group that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOfClaim {
    /// One of the values of the claim.
    pub value: String,
    /// The group of the people who have it. If the group is gone, it stands for nothing.
    pub group: GroupId,
}

/// The treatment of people who sign in for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownPeople {
    /// They are not let in: somebody has to link them with an actor first.
    #[default]
    Refuse,
    /// They become actors of kind `user`.
    Make,
}

/// A person whom a provider knows, as an actor. Its subject is the only thing that somebody is
/// known by: names and addresses are given anew. But for memberships it is made and deleted, never
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its id.
    pub id: IdentityId,
    /// The provider.
    pub provider: ProviderId,
    /// The subject that the person is there; no two of a provider alike.
    pub subject: String,
    /// The actor that the person is here.
    pub actor: ActorId,
    /// Memberships that the provider's groups have made, and may take away again.
    pub memberships: Vec<MembershipId>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

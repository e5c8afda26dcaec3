use crate::Timestamp;
use culvert_ids::{ActorId, GroupId, IdentityId, ProviderId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An OpenID Connect provider, by which people sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Provider {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ProviderId,
    /// Unique in the account; people read it on the page for signing in.
    pub name: String,
    /// Its URL, as it says itself.
    pub issuer: String,
    /// The portal's client id at the provider.
    pub client_id: String,
    /// The time at which the portal's secret at the provider was set; the secret itself is never shown.
    /// Without one, the portal is a public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_set: Option<Timestamp>,
    /// The redirect URI of this portal, which must be registered at the provider.
    pub redirect_uri: String,
    /// Authorities that vouch for its certificate beside those that the portal's system trusts, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The scopes that are requested besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that names a person's groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// The groups of the account that those names stand for.
    pub groups: Vec<ProviderGroup>,
    /// The rule for people who are not known yet.
    pub unknown_people: UnknownPeople,
    /// Nobody signs in by it.
    pub disabled: bool,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A value of the groups' claim, and the group that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProviderGroup {
    /// One of the values of the claim, as it is written.
    pub value: String,
    /// People with it are in this group from the next sign-in on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
}

/// The rule for people who sign in for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnknownPeople {
    /// They are not let in until they are linked with an actor.
    #[default]
    Refuse,
    /// They become actors of kind `user`, who sign in as `user`.
    Make,
}

/// A provider to make.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewProvider {
    /// 1 to 100 characters.
    pub name: String,
    /// `https://…`, exactly as the provider says it. It stays that.
    pub issuer: String,
    /// The portal's client id at the provider.
    pub client_id: String,
    /// The portal's secret there; none for a public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Authorities that vouch for its certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The scopes to request besides `openid`; `profile` and `email` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The claim that names a person's groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// The groups of the account that those names stand for.
    #[serde(default)]
    pub groups: Vec<ProviderGroup>,
    /// The rule for people who are not known yet.
    #[serde(default)]
    pub unknown_people: UnknownPeople,
}

/// A change of a provider. An empty text takes away what may be missing.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProviderPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The portal's new client id at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Another secret of the portal there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Other authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The scopes to request from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Another claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// All groups anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<ProviderGroup>>,
    /// The new rule for people who are not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_people: Option<UnknownPeople>,
    /// True to let nobody sign in by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// A person whom a provider knows, as an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Identity {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: IdentityId,
    /// At which provider.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: ProviderId,
    /// The person's subject at the provider.
    pub subject: String,
    /// The person's actor in the account.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: ActorId,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time at which they were linked.
    pub created: Timestamp,
    /// The time at which the groups from the provider last changed.
    pub updated: Timestamp,
}

/// An identity to link with an actor, who may sign in by it then: as `user`, where nothing else was said
/// before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewIdentity {
    /// At which provider.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: ProviderId,
    /// The person's subject at the provider: the claim `sub`, and nothing else.
    pub subject: String,
    /// The person's actor in the account.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: ActorId,
}

impl fmt::Debug for NewProvider {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NewProvider")
            .field("name", &self.name)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProviderPatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProviderPatch")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

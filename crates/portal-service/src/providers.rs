//! Identity providers, and whom they know.

use super::changes::left;
use super::provider_fields::{
    MAX_URL_LEN, MAX_VALUE_LEN, NewSecret, authorities, checked_scopes, filled, issuer, text,
};
use super::write::{Attempts, expect};
use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::{ActorId, IdentityId, MembershipId, ProviderId};
use culvert_policy::deceptive_character;
use culvert_portal_auth::oidc::MAX_PROVIDERS;
use culvert_portal_base::{Fault, Problems, birth};
use culvert_store::{self as store, EntityId, ListFilter, Mutation, Stamp};
use culvert_wire::api::{
    Identity, NewIdentity, NewProvider, Page, Provider, ProviderGroup, ProviderPatch, UnknownPeople,
};

/// Values of the groups' claim that stand for groups.
const MAX_GROUPS: usize = 256;

impl Service {
    /// A page of the providers that the caller may see.
    pub async fn providers(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Provider>, Fault> {
        let at = self.redirect_uri();
        self.list(caller, request, |row| show::provider(row, &at))
            .await
    }

    /// The provider with this id.
    pub async fn provider(&self, caller: &Caller, id: ProviderId) -> Result<Provider, Fault> {
        let row = self.read(caller, id).await?;
        Ok(show::provider(row, &self.redirect_uri()))
    }

    /// The address to which providers send people back.
    pub fn redirect_uri(&self) -> String {
        format!("{}/sign-in/callback", (self.portal)().url)
    }

    /// Creates a provider.
    pub async fn create_provider(
        &self,
        caller: &Caller,
        new: NewProvider,
    ) -> Result<Provider, Fault> {
        caller.may_change()?;
        let (row, secret) = self.new_provider(caller, new).await?;
        let all: Vec<store::Provider> = self.all(caller.account(), &ListFilter::default()).await?;
        if all.len() >= MAX_PROVIDERS {
            let detail =
                format!("there are {MAX_PROVIDERS} identity providers, and no room for more");
            return Err(Fault::Conflict(detail));
        }
        let id = row.id;
        let mut mutations = vec![Mutation::Create(row.into())];
        mutations.extend(secret.and_then(|secret| secret.mutation(id)));
        let row = self.make(caller, id.into(), mutations).await?;
        Ok(show::provider(row, &self.redirect_uri()))
    }

    /// A provider as it is asked for, and its secret; all wrong fields, if there are some.
    pub(super) async fn new_provider(
        &self,
        caller: &Caller,
        new: NewProvider,
    ) -> Result<(store::Provider, Option<NewSecret>), Fault> {
        let (born, random) = birth()?;
        let mut problems = Problems::default();
        let name = problems.take(names::name("name", &new.name))?;
        let issuer = problems.take(issuer(&new.issuer))?;
        let mut row = store::Provider {
            id: ProviderId::new(born, random),
            name: name.unwrap_or_default(),
            issuer: issuer.unwrap_or_default(),
            client_id: String::new(),
            secret_set: None,
            disabled: false,
            settings: store::ProviderSettings::default(),
            stamp: Stamp::default(),
        };
        let usual = || vec!["profile".to_owned(), "email".to_owned()];
        let patch = ProviderPatch {
            name: None,
            client_id: Some(new.client_id),
            client_secret: new.client_secret,
            ca: new.ca,
            scopes: Some(new.scopes.unwrap_or_else(usual)),
            groups_claim: new.groups_claim,
            groups: Some(new.groups),
            unknown_people: Some(new.unknown_people),
            disabled: None,
        };
        let secret = problems.take(self.fill_in(caller, &mut row, &patch).await)?;
        Ok((row, problems.finish_with(secret)?))
    }

    /// Names the wrong fields of a new provider that is not complete yet. Nothing is written.
    pub async fn check_new_provider(&self, caller: &Caller, new: NewProvider) -> Result<(), Fault> {
        caller.may_change()?;
        self.new_provider(caller, new).await.map(drop)
    }

    /// Names the wrong fields of a patch that is not complete yet. Nothing is written.
    pub async fn check_provider(
        &self,
        caller: &Caller,
        id: ProviderId,
        patch: &ProviderPatch,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let mut row: store::Provider = self.read(caller, id).await?;
        self.fill_in(caller, &mut row, patch).await.map(drop)
    }

    /// Changes a provider; with `expected`, only that version of it.
    pub async fn change_provider(
        &self,
        caller: &Caller,
        id: ProviderId,
        expected: Option<u64>,
        patch: ProviderPatch,
    ) -> Result<Provider, Fault> {
        caller.may_change()?;
        let before: store::Provider = self.read(caller, id).await?;
        if !caller.is_owner() {
            let known = self.identities_at(caller, id).await?;
            self.may_touch_provider(caller, &known).await?;
        }
        let current = before.stamp.version;
        if expected.is_some_and(|expected| expected != current) {
            return Err(Fault::VersionConflict { current });
        }
        let mut row = before.clone();
        let secret = self.fill_in(caller, &mut row, &patch).await?;
        let mut mutations = vec![Mutation::Update {
            entity: row.into(),
            expected_version: Some(current),
        }];
        mutations.extend(secret.and_then(|secret| secret.mutation(id)));
        let changes = self
            .write(caller.account(), caller.author(), mutations)
            .await?;
        let row = left(changes, before);
        Ok(show::provider(row, &self.redirect_uri()))
    }

    /// The identities that it knows go with it, and the memberships that it has made.
    pub async fn delete_provider(
        &self,
        caller: &Caller,
        id: ProviderId,
        expected_version: Option<u64>,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        if !caller.is_owner() {
            let known = self.identities_at(caller, id).await?;
            self.may_touch_provider(caller, &known).await?;
        }
        self.unlink(caller, id.into(), expected_version).await
    }

    /// A caller who changes a provider can sign in as anybody whom it knows. A provider by which owners sign
    /// in is therefore changed by owners alone.
    async fn may_touch_provider(
        &self,
        caller: &Caller,
        known: &[store::Identity],
    ) -> Result<(), Fault> {
        if caller.is_owner() || known.is_empty() {
            return Ok(());
        }
        let owners = self.owners(caller.account()).await?;
        match known.iter().any(|identity| owners.has(identity.actor)) {
            true => caller.may_change_owners(),
            false => Ok(()),
        }
    }

    async fn identities_at(
        &self,
        caller: &Caller,
        id: ProviderId,
    ) -> Result<Vec<store::Identity>, Fault> {
        let filter = ListFilter {
            refers_to: vec![id.into()],
            ..ListFilter::default()
        };
        self.all(caller.account(), &filter).await
    }

    /// A page of the identities that the caller may see.
    pub async fn identities(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Identity>, Fault> {
        self.list(caller, request, show::identity).await
    }

    /// The caller's own.
    pub async fn own_identities(&self, caller: &Caller) -> Result<Vec<Identity>, Fault> {
        let filter = ListFilter {
            refers_to: vec![caller.actor()?.into()],
            ..ListFilter::default()
        };
        let rows: Vec<store::Identity> = self.all(caller.account(), &filter).await?;
        Ok(rows.into_iter().map(show::identity).collect())
    }

    /// Links an identity with an actor, who may sign in by it then.
    pub async fn create_identity(
        &self,
        caller: &Caller,
        new: NewIdentity,
    ) -> Result<Identity, Fault> {
        caller.may_change()?;
        let mut attempts = Attempts::default();
        loop {
            let tried = self.try_create_identity(caller, &new).await;
            if let Some(end) = attempts.end(tried) {
                return end;
            }
        }
    }

    async fn try_create_identity(
        &self,
        caller: &Caller,
        new: &NewIdentity,
    ) -> Result<Identity, Fault> {
        let actor: store::Actor = self
            .read(caller, new.actor)
            .await
            .map_err(|fault| fault.at_field("actor"))?;
        self.may_touch_actor(caller, new.actor).await?;
        if actor.kind == store::ActorKind::ServiceAccount {
            let detail = "a service account is a machine: it has tokens and does not sign in";
            return Err(Fault::invalid("actor", detail));
        }
        if let Some(found) = deceptive_character(&new.subject) {
            let detail = format_args!("a subject must not contain {found}");
            return Err(Fault::invalid("subject", detail));
        }
        // Nobody ends meanwhile that the actor signs in.
        let mut mutations = vec![match actor.sign_in {
            Some(_) => expect(&actor),
            None => Mutation::Update {
                expected_version: Some(actor.stamp.version),
                entity: store::Actor {
                    sign_in: Some(AS_USER),
                    ..actor
                }
                .into(),
            },
        }];
        let row = new_identity(new.provider, &new.subject, new.actor)?;
        let id = row.id.into();
        mutations.push(Mutation::Create(row.into()));
        self.make(caller, id, mutations).await.map(show::identity)
    }

    /// The sessions of its actor end, and the memberships that it has made go with it.
    pub async fn delete_identity(
        &self,
        caller: &Caller,
        id: IdentityId,
        expected_version: Option<u64>,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let row: store::Identity = self.read(caller, id).await?;
        self.may_touch_actor(caller, row.actor).await?;
        self.unlink(caller, row.id.into(), expected_version).await
    }

    /// The same of one of the caller's own.
    pub async fn delete_own_identity(&self, caller: &Caller, id: IdentityId) -> Result<(), Fault> {
        let row: store::Identity = self.get(caller.account(), id).await?;
        if row.actor != caller.actor()? {
            return Err(Fault::NotFound(format!("there is no {id}")));
        }
        self.unlink(caller, row.id.into(), None).await
    }

    /// A person who unlinks goes on in this session.
    async fn unlink(
        &self,
        caller: &Caller,
        id: EntityId,
        expected_version: Option<u64>,
    ) -> Result<(), Fault> {
        let unlink = Mutation::Unlink {
            id,
            expected_version,
            except: Some(caller.token()),
        };
        self.write(caller.account(), caller.author(), vec![unlink])
            .await?;
        Ok(())
    }

    pub(super) async fn memberships_of(
        &self,
        account: culvert_ids::AccountId,
        actor: ActorId,
    ) -> Result<Vec<store::Membership>, Fault> {
        let filter = ListFilter {
            refers_to: vec![actor.into()],
            ..ListFilter::default()
        };
        self.all(account, &filter).await
    }

    /// Does to the row what the patch says, but for the secret, which comes back. All wrong fields are named at once.
    async fn fill_in(
        &self,
        caller: &Caller,
        row: &mut store::Provider,
        patch: &ProviderPatch,
    ) -> Result<Option<NewSecret>, Fault> {
        let mut problems = Problems::default();
        if let Some(name) = &patch.name {
            let name = names::name_after(Some(&row.name), "name", name);
            set(&mut row.name, problems.take(name)?);
        }
        if let Some(client_id) = &patch.client_id {
            let client_id = text("client_id", client_id, MAX_URL_LEN);
            set(&mut row.client_id, problems.take(client_id)?);
        }
        let settings = &mut row.settings;
        if let Some(ca) = &patch.ca {
            let ca = filled(ca).map(authorities).transpose();
            set(&mut settings.ca, problems.take(ca)?);
        }
        if let Some(scopes) = &patch.scopes {
            set(&mut settings.scopes, problems.take(checked_scopes(scopes))?);
        }
        if let Some(claim) = &patch.groups_claim {
            let claim = filled(claim).map(|claim| text("groups_claim", claim, MAX_VALUE_LEN));
            set(
                &mut settings.groups_claim,
                problems.take(claim.transpose())?,
            );
        }
        if let Some(groups) = &patch.groups {
            let groups = self.groups_of(caller, groups).await;
            set(&mut settings.groups, problems.take(groups)?);
        }
        if let Some(unknown) = patch.unknown_people {
            settings.unknown = match unknown {
                UnknownPeople::Refuse => store::UnknownPeople::Refuse,
                UnknownPeople::Make => store::UnknownPeople::Make,
            };
        }
        row.disabled = patch.disabled.unwrap_or(row.disabled);
        if patch.client_secret.as_deref() == Some("") {
            row.secret_set = None;
        }
        let secret = problems.take(NewSecret::of(patch.client_secret.as_deref()))?;
        problems.finish_with(secret)
    }

    async fn groups_of(
        &self,
        caller: &Caller,
        groups: &[ProviderGroup],
    ) -> Result<Vec<store::GroupOfClaim>, Fault> {
        if groups.len() > MAX_GROUPS {
            let detail = format!("there are at most {MAX_GROUPS}");
            return Err(Fault::invalid("groups", detail));
        }
        let ids = groups.iter().map(|group| group.group.into());
        let there = self.names_of(caller, ids).await?;
        let mut known = Vec::with_capacity(groups.len());
        for (at, group) in groups.iter().enumerate() {
            let field = format!("groups[{at}]");
            let id = group.group.into();
            if !there.contains_key(&id) {
                let missing = Fault::from(store::StoreError::NotFound(id));
                return Err(missing.at_field(&format!("{field}.group")));
            }
            known.push(store::GroupOfClaim {
                value: text(&format!("{field}.value"), &group.value, MAX_VALUE_LEN)?,
                group: group.group,
            });
        }
        Ok(known)
    }
}

/// Somebody who signs in by a provider, of whom nobody has said more.
pub(super) const AS_USER: store::SignIn = store::SignIn {
    role: store::Role::User,
    password_set: None,
    second_factor: None,
    recovery_codes: 0,
    passkeys: 0,
    invitation_ends: None,
};

pub(super) fn new_identity(
    provider: ProviderId,
    subject: &str,
    actor: ActorId,
) -> Result<store::Identity, Fault> {
    let (born, random) = birth()?;
    Ok(store::Identity {
        id: IdentityId::new(born, random),
        provider,
        subject: subject.to_owned(),
        actor,
        memberships: Vec::new(),
        stamp: Stamp::default(),
    })
}

pub(super) fn leave(membership: MembershipId) -> Mutation {
    Mutation::Delete {
        id: membership.into(),
        expected_version: None,
        cascade: false,
    }
}

/// Puts a value in the place of another, if it could be read.
fn set<T>(place: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *place = value;
    }
}

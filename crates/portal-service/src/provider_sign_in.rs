//! Signing in by an identity provider: who comes back becomes the actor whom the identity says, and
//! nobody by a name or an address.

use super::claims::{MAX_NUMBERED, name_by, proof_by, synchronise};
use super::people::make_room_for_session;
use super::providers::{AS_USER, new_identity};
use super::signed_in::Begun;
use super::write::{Attempts, expect};
use super::{Caller, Service};
use culvert_base::quoted;
use culvert_ids::{ActorId, GroupId, ProviderId, TokenId};
use culvert_portal_auth::oidc::{self, Claims, Flow, Groups, Lookup, Purpose, SignInFault};
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, ListFilter, Mutation, Stamp};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

/// The parameters that a browser brings back from a provider.
#[derive(Clone, Copy, Debug)]
pub struct CameBack<'a> {
    /// The state of the request.
    pub state: &'a str,
    /// The value that the browser has kept since the sign-in began.
    pub browser: Option<&'a str>,
    /// The authorization code.
    pub code: Option<&'a str>,
    /// The issuer that claims to answer (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The error code, if there is no authorization code.
    pub error: Option<&'a str>,
    /// The same in words.
    pub error_description: Option<&'a str>,
}

/// A provider, as far as people need to know it who are known by it.
#[derive(Clone, Debug)]
pub struct KnownProvider {
    /// Its id.
    pub id: ProviderId,
    /// Its name.
    pub name: String,
    /// Nobody signs in by it now.
    pub disabled: bool,
}

/// The result of coming back from a provider.
pub enum Arrived {
    /// A session, and the page to go on with.
    SignedIn {
        /// The session.
        begun: Begun,
        /// The page.
        next: String,
    },
    /// The person is known by the provider as well from now on.
    Linked,
    /// The person has proven once more who they are, for this form that waits.
    Proven {
        /// The key of the form that waits.
        form: String,
    },
}

impl Service {
    /// The name of the provider.
    pub async fn provider_name(&self, id: ProviderId) -> Result<String, Fault> {
        let known = self.known_providers().await?;
        let known = known.into_iter().find(|provider| provider.id == id);
        Ok(known.map_or_else(|| id.to_string(), |provider| provider.name))
    }

    /// The providers by which somebody may sign in: ids and names, for the page that asks.
    pub async fn ways_to_sign_in(&self) -> Result<Vec<(ProviderId, String)>, Fault> {
        let known = self.known_providers().await?.into_iter();
        let enabled = known.filter(|provider| !provider.disabled);
        Ok(enabled
            .map(|provider| (provider.id, provider.name))
            .collect())
    }

    /// All providers, those that nobody can sign in by included, for who reads whom they know.
    pub async fn known_providers(&self) -> Result<Vec<KnownProvider>, Fault> {
        let rows: Vec<store::Provider> = self
            .all(self.served.account, &ListFilter::default())
            .await?;
        let known = rows.into_iter().map(|row| KnownProvider {
            id: row.id,
            name: row.name,
            disabled: row.disabled,
        });
        Ok(known.collect())
    }

    /// Sends somebody to a provider to sign in.
    pub async fn begin_provider_sign_in(
        &self,
        from: IpAddr,
        provider: ProviderId,
        next: String,
    ) -> Result<oidc::Begun, Fault> {
        self.begin_way(from, provider, Purpose::SignIn { next })
            .await
    }

    /// Sends somebody who has signed in to a provider, to be known by it as well.
    pub async fn begin_link(
        &self,
        caller: &Caller,
        from: IpAddr,
        provider: ProviderId,
    ) -> Result<oidc::Begun, Fault> {
        self.check_again(caller).await?;
        let purpose = Purpose::Link {
            actor: caller.actor()?,
            session: caller.token(),
        };
        self.begin_way(from, provider, purpose).await
    }

    pub(super) async fn begin_way(
        &self,
        from: IpAddr,
        provider: ProviderId,
        purpose: Purpose,
    ) -> Result<oidc::Begun, Fault> {
        let taken = self.sign_in.limits.take_from(from, Instant::now());
        taken.map_err(|wait| self.limited(wait))?;
        let row = self.enabled_provider(provider).await?;
        let redirect_uri = self.redirect_uri();
        let db = self.pending();
        self.oidc
            .begin(db, from, &row, purpose, &redirect_uri)
            .await
    }

    async fn enabled_provider(&self, id: ProviderId) -> Result<store::Provider, SignInFault> {
        let row: Result<store::Provider, _> = self.database.get(self.served.account, id).await;
        match row {
            Ok(row) if !row.disabled => Ok(row),
            Ok(_) | Err(store::StoreError::NotFound(_)) => Err(SignInFault::Disabled),
            Err(error) => Err(Fault::from(error).into()),
        }
    }

    /// Somebody comes back from a provider. `caller` is who has signed in in that browser already.
    pub async fn finish_provider_sign_in(
        &self,
        came: CameBack<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arrived, SignInFault> {
        let arrived = self.arrive(came, caller).await;
        if let Err(fault) = &arrived {
            self.metrics.denied_tokens.inc();
            tracing::info!(%fault, "a sign-in by an identity provider was not accepted");
        }
        arrived
    }

    async fn arrive(
        &self,
        came: CameBack<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arrived, SignInFault> {
        let flow = self
            .oidc
            .flows
            .take(self.pending(), came.state, came.browser);
        let flow = flow.await?;
        if let Some(error) = came.error {
            return Err(SignInFault::answered(error, came.error_description));
        }
        let code = came.code.unwrap_or_default();
        let row = self.enabled_provider(flow.provider).await?;
        let secret = match row.secret_set {
            Some(_) => {
                let secret = self
                    .database
                    .store
                    .provider_secret(self.served.account, row.id);
                self.database
                    .ask("provider_secret", secret)
                    .await
                    .map_err(Fault::from)?
            }
            None => None,
        };
        let proven = self
            .oidc
            .redeem(
                &row,
                secret.as_ref(),
                &flow,
                code,
                came.issuer,
                &self.redirect_uri(),
            )
            .await?;
        let lookup = self.lookup(&row, &flow, proven.subject()).await?;
        let claims = proven.claims(lookup).await?;
        let mut attempts = Attempts::default();
        loop {
            match self.arrive_with(&flow, caller, &claims).await {
                // Others have changed meanwhile what was read: the provider, the person's identity or groups, or the name
                // of somebody new. The fault of the last attempt is told.
                Err(SignInFault::Portal(
                    Fault::VersionConflict { .. } | Fault::NotFound(_) | Fault::Conflict(_),
                )) if !attempts.are_over() => {}
                end => return end,
            }
        }
    }

    /// The provider took its time. Its row and the identity are read again, and expected by the write.
    async fn arrive_with(
        &self,
        flow: &Flow,
        caller: Option<&Caller>,
        claims: &Claims,
    ) -> Result<Arrived, SignInFault> {
        let row = self.enabled_provider(flow.provider).await?;
        let known = self
            .database
            .store
            .identity(self.served.account, row.id, &claims.subject);
        let known = self
            .database
            .ask("identity", known)
            .await
            .map_err(Fault::from)?;
        match &flow.purpose {
            Purpose::Link { actor, session } => {
                let caller = in_session(caller, *session, *actor)?;
                self.link(caller, *actor, &row, known.as_ref(), claims)
                    .await?;
                Ok(Arrived::Linked)
            }
            Purpose::Prove {
                actor,
                session,
                form,
            } => {
                let caller = in_session(caller, *session, *actor)?;
                self.finish_proof(caller, *actor, known, claims).await?;
                Ok(Arrived::Proven { form: form.clone() })
            }
            Purpose::SignIn { next } => {
                let begun = self.sign_in_as(&row, known, claims).await?;
                let next = next.clone();
                Ok(Arrived::SignedIn { begun, next })
            }
        }
    }

    /// The claims that are wanted beside the subject. A known person needs no name; linking needs no groups.
    async fn lookup(
        &self,
        provider: &store::Provider,
        flow: &Flow,
        subject: &str,
    ) -> Result<Lookup, SignInFault> {
        if !matches!(flow.purpose, Purpose::SignIn { .. }) {
            return Ok(Lookup {
                name: false,
                groups: false,
            });
        }
        let known = self
            .database
            .store
            .identity(self.served.account, provider.id, subject);
        let known = self
            .database
            .ask("identity", known)
            .await
            .map_err(Fault::from)?;
        let is_made = known.is_none() && provider.settings.unknown == store::UnknownPeople::Make;
        Ok(Lookup {
            name: is_made,
            groups: (known.is_some() || is_made) && !provider.settings.groups.is_empty(),
        })
    }

    async fn link(
        &self,
        caller: &Caller,
        actor: ActorId,
        provider: &store::Provider,
        known: Option<&store::Identity>,
        claims: &Claims,
    ) -> Result<(), SignInFault> {
        match known {
            Some(known) if known.actor == actor => return Ok(()),
            Some(_) => return Err(SignInFault::Taken),
            None => {}
        }
        let row = new_identity(provider.id, &claims.subject, actor)?;
        let mutations = vec![expect(provider), Mutation::Create(row.into())];
        let written = self
            .write(caller.account(), caller.author(), mutations)
            .await;
        written.map_err(Fault::from)?;
        Ok(())
    }

    async fn sign_in_as(
        &self,
        provider: &store::Provider,
        known: Option<store::Identity>,
        claims: &Claims,
    ) -> Result<Begun, SignInFault> {
        let Some(identity) = known else {
            return match provider.settings.unknown {
                store::UnknownPeople::Make => self.sign_in_new(provider, claims).await,
                store::UnknownPeople::Refuse => Err(SignInFault::Unknown {
                    subject: claims.subject.clone(),
                }),
            };
        };
        let actor: store::Actor = self.get(self.served.account, identity.actor).await?;
        if actor.disabled || actor.sign_in.is_none() {
            return Err(SignInFault::MayNot);
        }
        let mut mutations = vec![expect(provider), proof_by(&identity, claims)];
        mutations.push(make_room_for_session(actor.id));
        let made = match self.wanted_groups(provider, claims).await? {
            WantedGroups::Those(wanted) => {
                let members = self.memberships_of(self.served.account, actor.id).await?;
                let (changes, made) = synchronise(&identity, &members, &wanted)?;
                mutations.extend(changes);
                made
            }
            WantedGroups::Unknown(why) => {
                tracing::warn!(
                    provider = %provider.name, actor = %actor.name,
                    "the person signs in with the groups of the last sign-in: {why}"
                );
                identity.memberships.clone()
            }
        };
        if made != identity.memberships {
            // Of two sign-ins at once, the second knows what the first has made.
            mutations.push(Mutation::Update {
                expected_version: Some(identity.stamp.version),
                entity: store::Identity {
                    memberships: made,
                    ..identity
                }
                .into(),
            });
        }
        Ok(self.begin_session(actor.id, mutations).await?)
    }

    /// Makes an actor of somebody whom nobody knew.
    async fn sign_in_new(
        &self,
        provider: &store::Provider,
        claims: &Claims,
    ) -> Result<Begun, SignInFault> {
        let (born, random) = birth().map_err(Fault::from)?;
        let actor = store::Actor {
            id: ActorId::new(born, random),
            kind: store::ActorKind::User,
            name: self.free_name(claims).await?,
            disabled: false,
            sign_in: Some(AS_USER),
            stamp: Stamp::default(),
        };
        let id = actor.id;
        let mut identity = new_identity(provider.id, &claims.subject, id)?;
        let wanted = match self.wanted_groups(provider, claims).await? {
            WantedGroups::Those(wanted) => wanted,
            WantedGroups::Unknown(why) => return Err(SignInFault::Groups(why)),
        };
        let (joins, made) = synchronise(&identity, &[], &wanted)?;
        identity.memberships = made;
        let mut mutations = vec![expect(provider), Mutation::Create(actor.into())];
        mutations.extend(joins);
        let proof = proof_by(&identity, claims);
        mutations.push(Mutation::Create(identity.into()));
        mutations.push(proof);
        Ok(self.begin_session(id, mutations).await?)
    }

    /// A name for somebody new that nobody has.
    async fn free_name(&self, claims: &Claims) -> Result<String, Fault> {
        let name = name_by(claims);
        for number in 1..=MAX_NUMBERED {
            let tried = match number {
                1 => name.clone(),
                number => format!("{name} {number}"),
            };
            let filter = ListFilter {
                name: Some(tried.clone()),
                ..ListFilter::default()
            };
            let others: Vec<store::Actor> = self.all(self.served.account, &filter).await?;
            if others.is_empty() {
                return Ok(tried);
            }
        }
        Err(Fault::Conflict(format!(
            "{MAX_NUMBERED} people are called {} already",
            quoted(&name)
        )))
    }

    /// The groups that the claims stand for, those that are gone left out.
    async fn wanted_groups(
        &self,
        provider: &store::Provider,
        claims: &Claims,
    ) -> Result<WantedGroups, SignInFault> {
        let mut wanted = BTreeSet::new();
        let settings = &provider.settings;
        if settings.groups_claim.is_none() || settings.groups.is_empty() {
            return Ok(WantedGroups::Those(wanted));
        }
        let listed = match &claims.groups {
            Groups::Listed(listed) => listed,
            Groups::Withheld(why) => return Err(SignInFault::Groups(why.clone())),
            Groups::Unknown(why) => return Ok(WantedGroups::Unknown(why.clone())),
        };
        for mapped in &settings.groups {
            if !listed.contains(&mapped.value) {
                continue;
            }
            let account = self.served.account;
            match self
                .database
                .get::<store::Group>(account, mapped.group)
                .await
            {
                Ok(group) => wanted.insert(group.id),
                Err(store::StoreError::NotFound(_)) => false,
                Err(error) => return Err(Fault::from(error).into()),
            };
        }
        Ok(WantedGroups::Those(wanted))
    }
}

/// The groups that a provider gives somebody.
enum WantedGroups {
    /// Those, and no others.
    Those(BTreeSet<GroupId>),
    /// The provider could not be asked, and why. Members of a group stay in it.
    Unknown(String),
}

/// The person who has signed in in this browser, if the way was begun in the same session.
fn in_session(
    caller: Option<&Caller>,
    session: TokenId,
    actor: ActorId,
) -> Result<&Caller, SignInFault> {
    let caller = caller
        .filter(|caller| caller.token() == session && caller.actor().is_ok_and(|own| own == actor));
    caller.ok_or(SignInFault::OtherSession)
}

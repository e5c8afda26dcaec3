//! Invitations: a link by which a person sets a password, once, and is signed in. The same link replaces a password
//! that was forgotten.

use super::changes::made;
use super::signed_in::{ByPassword, Mark, SignedIn};
use super::{Caller, Service, names, people, show};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, GroupId, ID_LEN, MembershipId};
use culvert_portal_auth::Asker;
use culvert_portal_base::{Fault, Problems, birth, now};
use culvert_store::{
    self as store, Author, ListFilter, Mutation, Role, Stamp, StoreError, TokenScope,
};
use culvert_wire::Timestamp;
use culvert_wire::api::{Actor, IssuedInvitation, NewInvitation, NewPerson};
use culvert_wire::token::{SECRET_LEN, Secret, SecretDigest};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;
use zeroize::Zeroizing;

/// The path of the page that a link leads to; the rest of the path is the secret.
pub const INVITATION_PATH: &str = "/invitation/";

/// The lifetime of a link: a person who is away for a week finds it.
const LIFETIME_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Groups that a person is put into at once.
pub const MAX_INVITED_GROUPS: usize = 100;

/// Characters of the secret part of a link: the person's id and 256 random bits, in base64url.
const LINK_CHARS: usize = (ID_LEN + SECRET_LEN).div_ceil(3) * 4;

/// A person whose link is good.
pub struct Invited {
    /// The name under which they sign in.
    pub name: String,
    /// They have a password, which another one is to replace.
    pub has_password: bool,
}

/// The parts of a link.
struct LinkParts {
    actor: ActorId,
    digest: SecretDigest,
}

impl LinkParts {
    fn parse(text: &str) -> Option<Self> {
        if text.len() != LINK_CHARS {
            return None;
        }
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        let (actor, secret) = bytes.split_first_chunk::<ID_LEN>()?;
        let secret = Secret::new(secret.try_into().ok()?);
        Some(Self {
            actor: ActorId::from_bytes(*actor),
            digest: secret.digest(),
        })
    }
}

/// A link that was just made.
struct NewLink {
    text: Zeroizing<String>,
    digest: SecretDigest,
    ends: Timestamp,
}

impl NewLink {
    fn of(actor: ActorId) -> Result<Self, Fault> {
        let mut bytes = Zeroizing::new([0; ID_LEN + SECRET_LEN]);
        let (id, random) = bytes.split_at_mut(ID_LEN);
        id.copy_from_slice(actor.as_bytes());
        getrandom::fill(random)?;
        let secret = Secret::new(random.try_into().map_err(Fault::internal)?);
        Ok(Self {
            digest: secret.digest(),
            text: Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())),
            ends: Timestamp::from_unix_ms(now().unix_ms().saturating_add(LIFETIME_MS)),
        })
    }

    fn invite(&self, actor: ActorId, role: Option<Role>, expected: Option<u64>) -> Mutation {
        Mutation::Invite {
            actor,
            role,
            digest: self.digest,
            ends: self.ends,
            expected_version: expected,
        }
    }
}

impl Service {
    /// Refuses a person whom [`Self::invite_person`] would refuse, with all wrong fields.
    pub async fn check_person(&self, caller: &Caller, new: &NewPerson) -> Result<(), Fault> {
        caller.may_change()?;
        self.checked_person(caller, new).await.map(drop)
    }

    /// The name and the groups of a new person; all wrong fields, if there are some.
    async fn checked_person(
        &self,
        caller: &Caller,
        new: &NewPerson,
    ) -> Result<(String, BTreeSet<GroupId>), Fault> {
        let mut problems = Problems::default();
        let name = problems.take(names::name("name", &new.name))?;
        let groups: BTreeSet<GroupId> = new.groups.iter().copied().collect();
        if groups.len() > MAX_INVITED_GROUPS {
            let detail = format!("at most {MAX_INVITED_GROUPS} groups");
            problems.take::<()>(Err(Fault::invalid("groups", detail)))?;
        }
        for group in groups.iter().take(MAX_INVITED_GROUPS) {
            let found = self.read::<store::Group>(caller, *group).await;
            problems.take(found.map_err(|fault| fault.at_field("groups")))?;
        }
        problems.finish_with(name.map(|name| (name, groups)))
    }

    /// Creates a person who is in these groups, with a link by which they begin to sign in.
    pub async fn invite_person(
        &self,
        caller: &Caller,
        new: NewPerson,
    ) -> Result<IssuedInvitation, Fault> {
        let role = show::role(new.role);
        may_invite_as(caller, role)?;
        let (name, groups) = self.checked_person(caller, &new).await?;
        let (born, random) = birth()?;
        let row = store::Actor {
            id: ActorId::new(born, random),
            kind: match role {
                Role::Admin | Role::Owner => store::ActorKind::Admin,
                Role::User | Role::Auditor => store::ActorKind::User,
            },
            name,
            disabled: false,
            sign_in: None,
            stamp: Stamp::default(),
        };
        let actor = row.id;
        let mut mutations = vec![Mutation::Create(row.into())];
        for group in groups {
            let (born, random) = birth()?;
            let membership = store::Membership {
                id: MembershipId::new(born, random),
                group,
                actor,
                stamp: Stamp::default(),
            };
            mutations.push(Mutation::Create(membership.into()));
        }
        let link = NewLink::of(actor)?;
        mutations.push(link.invite(actor, Some(role), None));
        let row = self.make(caller, actor.into(), mutations).await?;
        Ok(self.issued_invitation(row, &link))
    }

    /// Makes another link for a person. An earlier one is void. The password stays until the link is used.
    pub async fn invite(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
        new: NewInvitation,
    ) -> Result<IssuedInvitation, Fault> {
        caller.may_change()?;
        let row: store::Actor = self.read(caller, actor).await?;
        people::may_sign_in(row.kind)?;
        self.may_touch_actor(caller, actor).await?;
        if row.disabled {
            let detail = format!("{} is disabled: enable them first", row.name);
            return Err(Fault::Conflict(detail));
        }
        let role = match row.sign_in {
            Some(sign_in) => sign_in.role,
            None => new.role.map_or(Role::User, show::role),
        };
        if new.role.is_some_and(|wanted| show::role(wanted) != role) {
            let detail = "they sign in already: a link leaves their role, change it first";
            return Err(Fault::invalid("role", detail));
        }
        may_invite_as(caller, role)?;
        if row.sign_in.is_none() {
            self.may_begin_sign_in(caller, &row, role, new.role.is_some())
                .await?;
        }
        let link = NewLink::of(actor)?;
        let expected = expected.or(Some(row.stamp.version));
        // Without a role, the write refuses to lower API tokens.
        let role = row.sign_in.map(|sign_in| sign_in.role);
        let role = role.or(new.role.map(show::role));
        let mutations = vec![link.invite(actor, role, expected)];
        let row = self.make(caller, actor.into(), mutations).await?;
        Ok(self.issued_invitation(row, &link))
    }

    /// Refuses a link that would lower what the person comes in by: API tokens may do no more than a person who signs in.
    async fn may_begin_sign_in(
        &self,
        caller: &Caller,
        row: &store::Actor,
        role: Role,
        is_chosen: bool,
    ) -> Result<(), Fault> {
        let highest = self.highest_api_role(row.id).await?;
        if let Some(highest) = highest.filter(|highest| !is_chosen && role < *highest) {
            let (highest, role) = (word(highest), word(role));
            return Err(Fault::Conflict(format!(
                "{} has API tokens as {highest}, and a link as {role} would lower them: \
                 give the role with the link, or set it under \u{201c}Let sign in\u{201d} first",
                row.name
            )));
        }
        match role {
            Role::Owner => Ok(()),
            _ => {
                let actor = row.id;
                self.may_shut_out(caller, [actor], |_, owner| owner == actor)
                    .await
            }
        }
    }

    /// The highest role of the actor's API tokens that are still accepted.
    async fn highest_api_role(&self, actor: ActorId) -> Result<Option<Role>, Fault> {
        let of_actor = ListFilter {
            refers_to: vec![actor.into()],
            parts: vec![store::Part::MadeTokens],
            ..ListFilter::default()
        };
        let rows: Vec<store::Token> = self.all(self.served.account, &of_actor).await?;
        let now = now();
        let live = rows
            .iter()
            .filter(|row| row.revoked.is_none() && row.expires.is_none_or(|expires| now < expires));
        let roles = live.filter_map(|row| match row.scope {
            TokenScope::Api { role, .. } => Some(role),
            _ => None,
        });
        Ok(roles.max())
    }

    /// Voids the link of a person.
    pub async fn withdraw_invitation(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
    ) -> Result<Actor, Fault> {
        self.may_touch_actor(caller, actor).await?;
        let withdraw = |row: &mut store::Actor| {
            if let Some(sign_in) = &mut row.sign_in {
                sign_in.invitation_ends = None;
            }
            Ok(())
        };
        let row = self.change(caller, actor, expected, withdraw).await?;
        Ok(show::actor(row))
    }

    fn issued_invitation(&self, row: store::Actor, link: &NewLink) -> IssuedInvitation {
        let portal = (self.portal)();
        IssuedInvitation {
            actor: show::actor(row),
            link: format!("{}{INVITATION_PATH}{}", portal.url, *link.text),
            ends: link.ends,
        }
    }

    /// The person whom the link invites. It changes nothing: programs open links of mails before people do.
    ///
    /// # Errors
    /// [`Fault::Unauthenticated`] where the link is not good, whatever the reason.
    pub async fn invited(&self, from: IpAddr, link: &str) -> Result<Invited, Fault> {
        let (_, row) = self.find_invited(from, link).await?;
        Ok(Invited {
            has_password: row
                .sign_in
                .is_some_and(|sign_in| sign_in.password_set.is_some()),
            name: row.name,
        })
    }

    /// Uses up a link: the person has this password from now on, and all earlier sessions end. The person is then signed
    /// in, or asked for the second factor that they have.
    ///
    /// # Errors
    /// As [`Self::invited`]; [`Fault::Invalid`] about the password.
    pub async fn accept_invitation(
        &self,
        from: IpAddr,
        link: &str,
        password: &str,
    ) -> Result<(SignedIn, Mark), Fault> {
        let (parts, row) = self.find_invited(from, link).await?;
        let actor = parts.actor;
        let asker = Asker::Known(actor.into());
        let verifier = self.new_verifier(asker, &row.name, password).await?;
        let mutations = vec![Mutation::UseInvitation {
            actor,
            digest: parts.digest,
            verifier: verifier.clone(),
        }];
        let author = Author {
            actor: Some(actor),
            ..Author::PORTAL
        };
        let written = self.write(self.served.account, author, mutations).await;
        let changes = written.map_err(|error| self.not_invited(from, error))?;
        made::<store::Actor>(changes, actor.into())?;
        tracing::info!(%actor, "an invitation was used");
        let mark = Mark(self.sign_in.limits.mark(&row.name)?);
        let proven = ByPassword { actor, verifier };
        Ok((self.after_password(proven).await?, mark))
    }

    async fn find_invited(
        &self,
        from: IpAddr,
        link: &str,
    ) -> Result<(LinkParts, store::Actor), Fault> {
        let parts = LinkParts::parse(link);
        let unknown = StoreError::from(store::Denial::UnknownToken);
        let parts = parts.ok_or_else(|| self.not_invited(from, unknown))?;
        let store = &self.database.store;
        let found = store.invited(self.served.account, parts.actor, &parts.digest, now());
        let found = self.database.ask("invited", found).await;
        let row = found.map_err(|error| self.not_invited(from, error))?;
        Ok((parts, row))
    }

    /// One answer for all links that are not good.
    fn not_invited(&self, from: IpAddr, error: StoreError) -> Fault {
        let cause = match &error {
            StoreError::Denied(denial) => denial.cause(),
            // The person was deleted.
            StoreError::NotFound(_) => "gone meanwhile",
            _ => return error.into(),
        };
        self.metrics.denied_tokens.inc();
        tracing::info!(%from, cause, "an invitation was not accepted");
        // A good link counts as no attempt: nobody guesses 256 bits, and an office may have one address.
        let taken = self.sign_in.limits.take_from(from, Instant::now());
        taken.map_or_else(|wait| self.limited(wait), |()| Fault::Unauthenticated)
    }
}

/// Refuses a role above the caller's own.
fn may_invite_as(caller: &Caller, role: Role) -> Result<(), Fault> {
    match role {
        Role::Owner => caller.may_change_owners(),
        Role::Admin | Role::Auditor | Role::User => caller.may_change(),
    }
}

/// The role as API and console write it.
const fn word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Auditor => "auditor",
        Role::Admin => "admin",
        Role::Owner => "owner",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_person_and_256_random_bits() {
        let actor = ActorId::from_bytes([7; ID_LEN]);
        let [one, other] = [(); 2].map(|()| NewLink::of(actor).ok().unwrap());
        assert_ne!(one.digest, other.digest);
        assert_eq!(one.text.len(), LINK_CHARS);
        let parts = LinkParts::parse(&one.text).unwrap();
        assert_eq!(parts.actor, actor);
        assert_eq!(parts.digest, one.digest);
    }

    #[test]
    fn a_text_of_another_form_is_no_link() {
        let plain = "A".repeat(LINK_CHARS);
        assert!(LinkParts::parse(&plain).is_some());
        let other = [
            String::new(),
            "A".repeat(LINK_CHARS - 1),
            "A".repeat(LINK_CHARS + 1),
            "A".repeat(10_000),
            "=".repeat(LINK_CHARS),
            format!("\u{202e}{}", "A".repeat(LINK_CHARS - 3)),
        ];
        for text in other {
            assert!(LinkParts::parse(&text).is_none(), "{text}");
        }
    }
}

//! The mutations of a write, each done by the part of the store that knows its rows.

use super::list;
use super::writing::Writing;
use culvert_store::rules;
use culvert_store::{
    Entity, EntityId, EntityKind, Kind, ListFilter, MAX_MUTATIONS, Mutation, PageLimit, Part,
    StoreError, Token, TokenScope,
};
use culvert_wire::token::SecretDigest;

impl Writing {
    pub(super) async fn apply_all(&mut self, mutations: Vec<Mutation>) -> Result<(), StoreError> {
        if mutations.len() > MAX_MUTATIONS {
            return Err(StoreError::TooMany {
                what: "mutations in one write",
                limit: MAX_MUTATIONS as u64,
            });
        }
        self.read_ahead(&mutations).await?;
        for mutation in mutations {
            match self.apply(mutation).await {
                Err(error) if !error.is_local() => {
                    // Rows that wait come before it, and so does their error.
                    self.write_rows().await?;
                    return Err(error);
                }
                done => done?,
            }
        }
        Ok(())
    }

    async fn apply(&mut self, mutation: Mutation) -> Result<(), StoreError> {
        match mutation {
            Mutation::Create(entity) => {
                let kind = entity.kind();
                let how = match kind {
                    EntityKind::Account => "an account comes into being by create_account",
                    EntityKind::Token => "a token comes into being with its digest",
                    EntityKind::Client | EntityKind::Gateway | EntityKind::Relay => {
                        "a machine comes into being when it enrols"
                    }
                    EntityKind::Actor
                    | EntityKind::Group
                    | EntityKind::Membership
                    | EntityKind::Site
                    | EntityKind::Resource
                    | EntityKind::Policy
                    | EntityKind::Provider
                    | EntityKind::Identity => {
                        self.create(entity).await?;
                        return Ok(());
                    }
                };
                Err(StoreError::Invalid {
                    kind,
                    field: "id",
                    reason: how.to_owned(),
                })
            }
            Mutation::CreateToken { token, digest } => self.create_token(token, &digest).await,
            Mutation::SetPassword {
                actor,
                role,
                verifier,
                expected_version,
            } => {
                self.set_password(actor, role, &verifier, expected_version)
                    .await
            }
            Mutation::Invite {
                actor,
                role,
                digest,
                ends,
                expected_version,
            } => {
                self.invite(actor, role, &digest, ends, expected_version)
                    .await
            }
            Mutation::UseInvitation {
                actor,
                digest,
                verifier,
            } => self.use_invitation(actor, &digest, &verifier).await,
            Mutation::SetProviderSecret { provider, secret } => {
                self.set_provider_secret(provider, &secret).await
            }
            Mutation::ChangeFactor { actor, change } => self.change_factor(actor, change).await,
            Mutation::Prove { actor, by } => self.prove(actor, by).await,
            Mutation::RenewProof { session } => self.renew_proof(session).await,
            Mutation::Expect { id, version } => self.current(id, Some(version)).await.map(drop),
            Mutation::EndSessions { actor, except } => self.end_sessions_of(actor, except).await,
            Mutation::EndOldSessions { actor, keep } => self.end_old_sessions_of(actor, keep).await,
            Mutation::Unlink {
                id,
                expected_version,
                except,
            } => self.unlink(id, expected_version, except).await,
            Mutation::BeginSink { sink, secret } => self.begin_sink(&sink, secret.as_ref()).await,
            Mutation::SetSinkSecret { sink, secret } => {
                self.set_sink_secret(&sink, secret.as_ref()).await
            }
            Mutation::ForgetSink { sink } => self.forget_sink(&sink).await,
            Mutation::Update {
                entity,
                expected_version,
            } => self.update(entity, expected_version).await,
            Mutation::Delete {
                id,
                expected_version,
                cascade,
            } => self.delete(id, expected_version, cascade).await,
        }
    }

    async fn create_token(
        &mut self,
        mut token: Token,
        digest: &SecretDigest,
    ) -> Result<(), StoreError> {
        token.used = None;
        token.last_used = None;
        token.proven = self.proof_of_new(&token).await?;
        let id = EntityId::from(token.id);
        self.create(token.into()).await?;
        let values = vec![
            self.account().as_bytes().into(),
            id.into(),
            digest.as_bytes().as_slice().into(),
        ];
        // No two tokens have one id, whatever their accounts.
        let sql = "INSERT INTO token_digest (account, id, digest) VALUES (?, ?, ?)";
        match self.insert(sql, values).await? {
            true => Ok(()),
            false => Err(StoreError::Exists(id)),
        }
    }

    async fn update(
        &mut self,
        wanted: Entity,
        expected_version: Option<u64>,
    ) -> Result<(), StoreError> {
        let before = self.current(wanted.id(), expected_version).await?;
        if let Some(after) = rules::merge(&before, wanted)? {
            let (signed_in, invited) = (signs_in(&before), is_invited(&before));
            let after = self.replace(before, after).await?;
            if let Entity::Actor(actor) = &after
                && invited
                && !is_invited(&after)
            {
                self.forget_invitation(actor.id).await?;
            }
            if signed_in && !signs_in(&after) {
                self.revoke_api_tokens_of(after.id()).await?;
            }
        }
        Ok(())
    }

    /// Revokes the API tokens of a person who no longer signs in: without a sign-in, nothing would bound
    /// the roles of the tokens.
    async fn revoke_api_tokens_of(&mut self, actor: EntityId) -> Result<(), StoreError> {
        let at = self.at();
        for token in self.tokens_of(actor, Vec::new()).await? {
            if token.revoked.is_some() || !matches!(token.scope, TokenScope::Api { .. }) {
                continue;
            }
            let revoked = Token {
                revoked: Some(at),
                ..token.clone()
            };
            self.replace(token.into(), revoked.into()).await?;
        }
        Ok(())
    }

    /// The tokens of an actor that are in all of these parts.
    pub(super) async fn tokens_of(
        &mut self,
        actor: EntityId,
        parts: Vec<Part>,
    ) -> Result<Vec<Token>, StoreError> {
        let account = self.account();
        let filter = ListFilter {
            refers_to: vec![actor],
            parts,
            ..ListFilter::default()
        };
        let (mut tokens, mut after) = (Vec::new(), None);
        loop {
            let page = list::list(
                self.connection().await?,
                account,
                EntityKind::Token,
                &filter,
                after,
                PageLimit::MAX,
            )
            .await?;
            tokens.extend(page.items.into_iter().filter_map(Token::from_entity));
            after = page.next;
            if after.is_none() {
                return Ok(tokens);
            }
        }
    }
}

fn signs_in(row: &Entity) -> bool {
    matches!(row, Entity::Actor(actor) if actor.sign_in.is_some())
}

fn is_invited(row: &Entity) -> bool {
    let Entity::Actor(actor) = row else {
        return false;
    };
    let ends = actor.sign_in.and_then(|sign_in| sign_in.invitation_ends);
    ends.is_some()
}

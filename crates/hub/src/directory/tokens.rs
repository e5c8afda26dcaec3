//! Tokens, by id and by the actor whose clients they connect.

use super::bounds::{MAX, MIN};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{Token, TokenScope};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Tokens {
    rows: BTreeMap<TokenId, Token>,
    of_actor: BTreeSet<(ActorId, TokenId)>,
}

impl Tokens {
    pub(super) fn get(&self, id: TokenId) -> Option<&Token> {
        self.rows.get(&id)
    }

    pub(super) fn of_actor(&self, actor: ActorId) -> impl Iterator<Item = TokenId> {
        let first = (actor, TokenId::from_bytes(MIN));
        let last = (actor, TokenId::from_bytes(MAX));
        let held = self.of_actor.range(first..=last);
        held.map(|(_, token)| *token)
    }

    /// Returns the row that it replaces.
    pub(super) fn insert(&mut self, token: Token) -> Option<Token> {
        if let TokenScope::Client { actor } = token.scope {
            self.of_actor.insert((actor, token.id));
        }
        self.rows.insert(token.id, token)
    }

    pub(super) fn remove(&mut self, id: TokenId) -> Option<Token> {
        let old = self.rows.remove(&id)?;
        if let TokenScope::Client { actor } = old.scope {
            self.of_actor.remove(&(actor, id));
        }
        Some(old)
    }
}

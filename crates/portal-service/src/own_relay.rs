//! The relay that a portal runs beside itself: its token and its state.

use super::Service;
use super::tokens::issue;
use culvert_ids::{AccountId, TokenId};
use culvert_portal_base::now;
use culvert_store::{Author, Mutation, Store, StoreError, TokenScope, TokenUses};
use culvert_wire::api::OwnRelayStatus;
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};

impl Service {
    /// The state of the relay beside this portal; none if it runs none.
    #[must_use]
    pub fn own_relay_status(&self) -> Option<OwnRelayStatus> {
        Some(self.own_relay.as_ref()?.borrow().clone())
    }
}

/// Makes a token for a relay beside the portal, which nobody stores: it is in the memory of the two alone. The token of
/// an earlier start, `before`, is deleted. It connects one machine, so it is of no use to another one.
///
/// # Errors
/// The store's, and [`StoreError::Unavailable`] where there are no random bytes.
pub async fn issue_relay_token(
    store: &dyn Store,
    account: AccountId,
    portal: Portal,
    before: Option<TokenId>,
) -> Result<Token, StoreError> {
    let no_random = |error: getrandom::Error| StoreError::Unavailable(Box::new(error));
    let issue = issue(TokenScope::Relay, String::new(), TokenUses::One, None);
    let mut issue = issue.map_err(no_random)?;
    let id = issue.row.id;
    issue.row.name = format!("relay beside the portal {id}");
    let (create, secret) = issue.split();
    if let Some(before) = before {
        let delete = Mutation::Delete {
            id: before.into(),
            expected_version: None,
            cascade: false,
        };
        let deleted = store.write(account, Author::PORTAL, now(), vec![delete]);
        match deleted.await {
            // Somebody else has deleted it.
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let created = store.write(account, Author::PORTAL, now(), vec![create]);
    created.await?;
    let bearer = Bearer {
        kind: TokenKind::Relay,
        id,
        secret,
    };
    Ok(Token {
        bearer,
        portal: Some(portal),
    })
}

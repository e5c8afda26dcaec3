//! Times at which API tokens were last used. They are noted in batches: a request does not wait for
//! that.

use super::database::Database;
use culvert_ids::{AccountId, TokenId};
use culvert_store::MAX_BATCH;
use culvert_wire::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Uses that wait to be noted: one for each token, and one batch of tokens.
const MAX_TOUCHED: usize = MAX_BATCH;

/// Uses of tokens that wait to be noted.
#[derive(Debug, Default)]
pub(super) struct Touched(Mutex<BTreeMap<(AccountId, TokenId), Timestamp>>);

impl Touched {
    /// A use that does not fit is noted with the token's next use.
    pub(super) fn note(&self, account: AccountId, token: TokenId, at: Timestamp) {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (account, token);
        if touched.len() < MAX_TOUCHED || touched.contains_key(&key) {
            touched.insert(key, at);
        }
    }

    fn take(&self) -> BTreeMap<AccountId, Vec<(TokenId, Timestamp)>> {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_account: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((account, token), at) in std::mem::take(&mut *touched) {
            by_account.entry(account).or_default().push((token, at));
        }
        by_account
    }

    /// Writes the uses that wait. A use that the database does not take is lost.
    pub(super) async fn write(&self, database: &Database) {
        for (account, uses) in self.take() {
            let noted = database.store.touch_tokens(account, uses);
            if let Err(error) = database.ask("touch_tokens", noted).await {
                tracing::warn!(%error, "noting when tokens were used");
            }
        }
    }
}

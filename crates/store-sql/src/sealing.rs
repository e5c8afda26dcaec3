//! Encryption of the columns of the database that are secrets.
//!
//! Every secret that is kept goes through [`Sealing::seal`], and every one that is read through
//! [`Sealing::open`], whatever database is below. [`SecretColumn`] has all columns that are secrets; a test of the
//! schema fails for a column that nobody has classified.
//!
//! Digests are not encrypted. Those of tokens and recovery codes have 80 random bits or more behind them, which
//! nobody guesses. A password's verifier is Argon2id with its own salt, which is made for the case that others read
//! it.

use culvert_ids::AccountId;
use culvert_secrets::{KeyId, MAX_PLAIN_LEN, NONCE_LEN, Place, SecretsKey};
use culvert_store::{
    MAX_PENDING_LEN, MAX_SECRET_LEN, MAX_STATE_SECRET_LEN, SecretBytes, StoreError,
};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

const _: () = assert!(MAX_SECRET_LEN <= MAX_PLAIN_LEN && MAX_STATE_SECRET_LEN <= MAX_PLAIN_LEN);
const _: () = assert!(MAX_PENDING_LEN <= MAX_PLAIN_LEN);

/// Fills a buffer with random bytes, or says why there are none.
pub type Randomness = fn(&mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;

/// Encrypts the secrets of a database.
#[derive(Clone)]
pub struct Sealer {
    key: Arc<SecretsKey>,
    random: Randomness,
}

impl Sealer {
    /// With the operator's key, and nonces of `random`.
    pub fn new(key: SecretsKey, random: Randomness) -> Self {
        let key = Arc::new(key);
        Self { key, random }
    }

    /// The id of its key.
    pub fn key_id(&self) -> KeyId {
        self.key.id()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sealer({})", self.key_id())
    }
}

/// The access to secrets with which a database is opened.
#[derive(Clone, Debug, Default)]
pub enum SecretsAccess {
    /// The secrets are not encrypted, or the database is refused.
    #[default]
    Plain,
    /// The secrets are encrypted with this key, or the database is refused. A database without an account begins
    /// to be so.
    Key(Sealer),
    /// Secrets are neither read nor written, whether they are encrypted or not.
    Nothing,
}

/// A column that holds secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretColumn {
    /// The portal's own: the key that signs grants, and what pre-shared keys are derived from.
    Portal,
    /// The portal's own of its state directory: certificate with key, and the key of browsers' marks. A
    /// SQLite database that is not encrypted leaves them in files.
    State,
    /// Secrets of authenticator apps, from which codes are made.
    Totp,
    /// The portal's secrets at identity providers.
    Provider,
    /// Bearer tokens of log sinks.
    Sink,
    /// Things that wait for a person's next step: secrets of apps that no code has confirmed, and forms.
    Pending,
}

impl SecretColumn {
    pub(crate) const ALL: [Self; 6] = [
        Self::Portal,
        Self::State,
        Self::Totp,
        Self::Provider,
        Self::Sink,
        Self::Pending,
    ];

    /// The names of its table, of the column, and of the column that tells rows of one account apart.
    pub(crate) const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Portal => ["secret", "value", "name"],
            Self::State => ["state_secret", "value", "name"],
            Self::Totp => ["totp", "secret", "actor_id"],
            Self::Provider => ["provider_secret", "secret", "provider_id"],
            Self::Sink => ["sink_secret", "value", "sink"],
            Self::Pending => ["pending", "value", "key"],
        }
    }

    /// True if its rows belong to an account each.
    pub(crate) const fn has_account(self) -> bool {
        !matches!(self, Self::State)
    }

    const fn max_len(self) -> usize {
        match self {
            Self::State => MAX_STATE_SECRET_LEN,
            Self::Pending => MAX_PENDING_LEN,
            Self::Portal | Self::Totp | Self::Provider | Self::Sink => MAX_SECRET_LEN,
        }
    }

    /// The name of its content, for people.
    pub(crate) const fn contents(self) -> &'static str {
        match self {
            Self::Portal => "keys of grants, of pre-shared keys and of challenges",
            Self::State => "TLS key and key of browsers' marks",
            Self::Totp => "secrets of authenticator apps",
            Self::Provider => "secrets at identity providers",
            Self::Sink => "tokens of log sinks",
            Self::Pending => "sign-ins and forms that wait",
        }
    }
}

/// The row that a secret is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretRow<'a> {
    pub(crate) column: SecretColumn,
    /// The bytes of the account's id; none where rows have no account.
    pub(crate) account: &'a [u8],
    pub(crate) row: &'a [u8],
}

impl<'a> SecretRow<'a> {
    pub(crate) const fn of(column: SecretColumn, account: &'a AccountId, row: &'a [u8]) -> Self {
        let account = account.as_bytes();
        Self {
            column,
            account,
            row,
        }
    }

    fn place(&self) -> Place<'a> {
        let [table, column, _] = self.column.names();
        Place {
            account: self.account,
            table,
            column,
            row: self.row,
        }
    }
}

impl fmt::Display for SecretRow<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [table, column, key] = self.column.names();
        write!(out, "table {table}, column {column}, {key} ")?;
        match std::str::from_utf8(self.row) {
            Ok(name) if name.chars().all(|letter| letter.is_ascii_graphic()) => out.write_str(name),
            _ => self
                .row
                .iter()
                .try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

/// The state of the secrets of an open database.
#[derive(Clone, Debug)]
pub(crate) enum Sealing {
    Plain,
    Key(Sealer),
    Nothing,
}

impl Sealing {
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Key(_))
    }

    /// The content of the row, as it is stored.
    pub(crate) fn seal(
        &self,
        row: &SecretRow<'_>,
        secret: &SecretBytes,
    ) -> Result<Vec<u8>, StoreError> {
        let plain = secret.expose();
        let limit = row.column.max_len();
        if plain.len() > limit {
            return Err(StoreError::TooMany {
                what: "bytes of a secret",
                limit: limit as u64,
            });
        }
        match self {
            Self::Plain => Ok(plain.to_vec()),
            Self::Key(sealer) => {
                let mut nonce = [0; NONCE_LEN];
                (sealer.random)(&mut nonce).map_err(StoreError::Unavailable)?;
                Ok(sealer.key.seal(&row.place(), plain, nonce))
            }
            Self::Nothing => Err(no_access()),
        }
    }

    /// The secret of what is kept in the row.
    pub(crate) fn open(
        &self,
        row: &SecretRow<'_>,
        stored: Vec<u8>,
    ) -> Result<SecretBytes, StoreError> {
        match self {
            Self::Plain => Ok(SecretBytes::new(stored)),
            Self::Key(sealer) => {
                // A secret in clear among encrypted ones is refused: somebody else has put it there.
                let opened = sealer.key.open(&row.place(), &stored);
                let plain = opened.map_err(|error| {
                    StoreError::corrupt(format_args!("the secret of {row} is not usable: {error}"))
                })?;
                Ok(SecretBytes::from(plain))
            }
            Self::Nothing => Err(no_access()),
        }
    }
}

fn no_access() -> StoreError {
    StoreError::Unavailable("the database was opened without access to secrets".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_row_is_told_by_its_name_or_by_its_bytes_in_hexadecimal() {
        let account = AccountId::from_bytes([1; 16]);
        let told = |row: &[u8]| SecretRow::of(SecretColumn::Sink, &account, row).to_string();
        assert_eq!(
            told(b"access"),
            "table sink_secret, column value, sink access"
        );
        assert!(told(b"a b").ends_with("sink 612062"), "a blank");
        assert!(told(&[0xFF, 0x0A]).ends_with("sink ff0a"));
    }

    #[test]
    fn each_column_says_in_words_of_its_own_what_it_holds() {
        let told: BTreeSet<_> = SecretColumn::ALL.map(SecretColumn::contents).into();
        assert_eq!(told.len(), SecretColumn::ALL.len());
        assert!(told.iter().all(|contents| contents.contains(' ')));
    }

    #[test]
    fn a_secret_has_as_many_bytes_as_its_kind_may_and_no_more() {
        let account = AccountId::from_bytes([1; 16]);
        let key = SecretsKey::from_bytes(&[1; 32]);
        let key = Sealing::Key(Sealer::new(key, |nonce| {
            nonce.fill(1);
            Ok(())
        }));
        for column in SecretColumn::ALL {
            let row = SecretRow::of(column, &account, b"row");
            let longest = match column {
                SecretColumn::State => MAX_STATE_SECRET_LEN,
                SecretColumn::Pending => MAX_PENDING_LEN,
                _ => MAX_SECRET_LEN,
            };
            for sealing in [&Sealing::Plain, &key] {
                for len in [0, 1, longest] {
                    let secret = SecretBytes::new(vec![7; len]);
                    let stored = sealing.seal(&row, &secret).unwrap();
                    assert_eq!(sealing.open(&row, stored).unwrap(), secret, "{column:?}");
                }
                let longer = SecretBytes::new(vec![7; longest + 1]);
                let refused = sealing.seal(&row, &longer);
                assert!(
                    matches!(refused, Err(StoreError::TooMany { .. })),
                    "{column:?}"
                );
            }
        }
    }
}

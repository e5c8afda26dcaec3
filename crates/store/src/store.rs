//! The interface of the portal's database.

use crate::{
    AccessEntry, AccessFilter, AccessSeq, Account, Actor, Author, Change, ChangeFilter, Client,
    Entity, EntityId, EntityKind, Found, Gateway, Grant, Identity, Kind, ListFilter, LoggedAccess,
    Logs, MachineId, Mutation, Owner, Page, PageLimit, Passkey, PendingStore, Portals, Position,
    Principal, Relay, SecretBytes, SecretName, Seen, Seq, Snapshot, StateSecret, StoreError,
};
use async_trait::async_trait;
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, ProviderId, RelayId, TokenId,
};
use culvert_wire::token::{SecretDigest, TokenKind};
use culvert_wire::{PublicKey, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;

/// The portal's database, as `Arc<dyn Store>`.
///
/// A call that is dropped before it returns has been done wholly or not at all. `now` and `at` are
/// the caller's clock.
///
/// # Errors
/// [`StoreError::NoAccount`] where the account does not exist, [`StoreError::NotFound`] where a row
/// is not in it, and any of the local faults ([`StoreError::is_local`]); more is said where there
/// is more.
#[async_trait]
pub trait Store: Logs + PendingStore + Portals + Debug + Send + Sync + 'static {
    /// Makes an account, as change 1 of its log.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::NameTaken`], [`StoreError::Invalid`].
    async fn create_account(
        &self,
        account: Account,
        author: Author,
        at: Timestamp,
    ) -> Result<Account, StoreError>;

    /// Makes the first account and what the mutations add to it, if there is no account yet. Of any number of callers one
    /// makes it; the others get none, and see that one from then on.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], and those of [`Self::write`].
    async fn create_first_account(
        &self,
        account: Account,
        author: Author,
        at: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Option<Account>, StoreError>;

    /// All accounts, in the order of their ids.
    async fn accounts(
        &self,
        after: Option<AccountId>,
        limit: PageLimit,
    ) -> Result<Page<Account, AccountId>, StoreError>;

    /// True if the account has an admin who is not disabled. Until then a set-up token makes one.
    async fn is_set_up(&self, account: AccountId) -> Result<bool, StoreError>;

    /// Does all mutations, in their order, or none. The answer is what the change log got, which
    /// lacks updates that changed nothing and has what cascades took along.
    ///
    /// # Errors
    /// All that a mutation can meet: [`StoreError::VersionConflict`], [`StoreError::NameTaken`],
    /// [`StoreError::Exists`], [`StoreError::InUse`], [`StoreError::Invalid`],
    /// [`StoreError::TooMany`]; [`StoreError::NotFound`] of what a new row refers to as well.
    /// [`StoreError::LastOwner`] where an owner could come in before and none could afterwards.
    async fn write(
        &self,
        account: AccountId,
        author: Author,
        at: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError>;

    /// One row; [`StoreExt::get_as`] gives its own type.
    async fn get(&self, account: AccountId, id: EntityId) -> Result<Entity, StoreError>;

    /// The names of rows of any kind, at most [`crate::MAX_BATCH`]. Ids of rows that are not there, or have no
    /// name, are left out.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn names(
        &self,
        account: AccountId,
        ids: &[EntityId],
    ) -> Result<BTreeMap<EntityId, String>, StoreError>;

    /// The number of members of groups, at most [`crate::MAX_BATCH`]. Groups without members are left out.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn member_counts(
        &self,
        account: AccountId,
        groups: &[GroupId],
    ) -> Result<BTreeMap<GroupId, u64>, StoreError>;

    /// The number of rows of a kind that refer to each of these and pass the filter, at most [`crate::MAX_BATCH`] of one
    /// kind. Those that none refers to are left out.
    ///
    /// # Errors
    /// [`StoreError::TooMany`]; [`StoreError::Invalid`] where rows of the kind refer to none of these.
    async fn reference_counts(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        to: &[EntityId],
    ) -> Result<BTreeMap<EntityId, u64>, StoreError>;

    /// The number of clients, gateways or relays, without those that are revoked, by the version of the software that they said
    /// when they last connected.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for another kind.
    async fn software_counts(
        &self,
        account: AccountId,
        kind: EntityKind,
    ) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Rows of a kind in the order of their ids, from the first after `after`.
    /// [`StoreExt::list_as`] gives their own type.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] where a filter does not go with the kind.
    async fn list(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        after: Option<EntityId>,
        limit: PageLimit,
    ) -> Result<Page<Entity, EntityId>, StoreError>;

    /// Rows of a kind in this order, after the first `skipped`, with the number of all.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] where the filter or the order does not go with the kind.
    async fn list_ordered(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        position: Position,
        limit: PageLimit,
    ) -> Result<Found<Entity>, StoreError>;

    /// The whole configuration, and up to which change.
    async fn snapshot(&self, account: AccountId) -> Result<Snapshot, StoreError>;

    /// The changes after `seq`, in order, at most `limit` and [`crate::MAX_CHANGES_READ`] of them.
    /// [`StoreError::WentBack`] if there never was that change, or is none any more.
    async fn changes_after(
        &self,
        account: AccountId,
        seq: Seq,
        limit: u32,
    ) -> Result<Vec<Change>, StoreError>;

    /// The change log for people: the newest first, from the first behind `before`. The order is that of time, and with
    /// `filter.after` that of numbers.
    async fn change_log(
        &self,
        account: AccountId,
        filter: &ChangeFilter,
        before: Option<Seq>,
        limit: PageLimit,
    ) -> Result<Page<Change, Seq>, StoreError>;

    /// Wakes after a commit that appended to a change log. It is a hint: whoever follows the feed
    /// also looks every second.
    fn watch(&self) -> Box<dyn CommitWatch>;

    /// The principal that a token stands for.
    ///
    /// # Errors
    /// [`StoreError::Denied`]. Other errors deny too, but say nothing about the token.
    async fn authenticate(
        &self,
        token: TokenId,
        digest: &SecretDigest,
        kind: TokenKind,
        now: Timestamp,
    ) -> Result<Principal, StoreError>;

    /// The principal that a token accepted before stands for now: for things that last longer than
    /// their request.
    ///
    /// # Errors
    /// As [`Self::authenticate`].
    async fn current_principal(
        &self,
        account: AccountId,
        token: TokenId,
        now: Timestamp,
    ) -> Result<Principal, StoreError>;

    /// All ways by which actors of the account are owners at that time: the sign-ins of owners, and their live API tokens.
    async fn owners(&self, account: AccountId, now: Timestamp) -> Result<Vec<Owner>, StoreError>;

    /// The actor that signs in under the name, whatever the case of its letters, and the verifier
    /// of the password. None if the actor is disabled or has no password.
    async fn password(
        &self,
        account: AccountId,
        name: &str,
    ) -> Result<Option<(ActorId, SecretBytes)>, StoreError>;

    /// The person whom a link invites. The secret is compared before anything is told.
    ///
    /// # Errors
    /// [`StoreError::Denied`] where the link has another secret or has ended, or the actor is disabled or no longer
    /// signs in.
    async fn invited(
        &self,
        account: AccountId,
        actor: ActorId,
        digest: &SecretDigest,
        now: Timestamp,
    ) -> Result<Actor, StoreError>;

    /// The portal's secret at a provider, where it has one there.
    async fn provider_secret(
        &self,
        account: AccountId,
        provider: ProviderId,
    ) -> Result<Option<SecretBytes>, StoreError>;

    /// The identity that the provider knows under the subject, as it is written.
    async fn identity(
        &self,
        account: AccountId,
        provider: ProviderId,
        subject: &str,
    ) -> Result<Option<Identity>, StoreError>;

    /// The secret of the codes of a person's authenticator app, if codes are asked for.
    async fn totp_secret(
        &self,
        account: AccountId,
        actor: ActorId,
    ) -> Result<Option<SecretBytes>, StoreError>;

    /// A person's passkeys, the oldest first.
    async fn passkeys(
        &self,
        account: AccountId,
        actor: ActorId,
    ) -> Result<Vec<Passkey>, StoreError>;

    /// The passkey that an authenticator calls so.
    async fn passkey(
        &self,
        account: AccountId,
        credential: &[u8],
    ) -> Result<Option<Passkey>, StoreError>;

    /// Uses up a set-up token, or another one-time token that no machine enrols with, and does the
    /// mutations, in one transaction: of any number of callers at once exactly one succeeds. If
    /// a mutation fails, the token is still unused.
    ///
    /// # Errors
    /// [`StoreError::Denied`], and those of [`Self::write`].
    async fn consume_one_time(
        &self,
        token: TokenId,
        digest: &SecretDigest,
        kind: TokenKind,
        now: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError>;

    /// Notes when tokens were last accepted. Returns how many rows that concerned: ids that are not
    /// in the account are passed over.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn touch_tokens(
        &self,
        account: AccountId,
        uses: Vec<(TokenId, Timestamp)>,
    ) -> Result<u64, StoreError>;

    /// The client that this machine of the principal's actor is: a new one with addresses of its
    /// own, or the one that it was before, with the key that it has now. A name that another client
    /// has gets a number behind it; a client that exists keeps the name that it has.
    ///
    /// One that comes again as it was writes nothing, and waits for no write. Its row says when it was seen before:
    /// [`Self::record_seen`] notes that it is here.
    ///
    /// # Errors
    /// [`StoreError::Denied`] where the token or the client was revoked or the principal is no
    /// client, [`StoreError::KeyTaken`], [`StoreError::NoAddress`], [`StoreError::Invalid`].
    async fn enrol_client(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: Enrolment<ClientId>,
        now: Timestamp,
    ) -> Result<Client, StoreError>;

    /// Adds a plain WireGuard device, with addresses of its own.
    ///
    /// # Errors
    /// [`StoreError::KeyTaken`], [`StoreError::NameTaken`], [`StoreError::NoAddress`], [`StoreError::Invalid`], and
    /// [`StoreError::TooMany`] beyond [`crate::MAX_PLAIN_CLIENTS`] or [`crate::MAX_PLAIN_CLIENTS_PER_ACTOR`].
    async fn add_plain_client(
        &self,
        account: AccountId,
        author: Author,
        new: NewPlainClient,
        now: Timestamp,
    ) -> Result<Client, StoreError>;

    /// Gives a plain WireGuard device another key, other gateways, or both. Addresses outside of the ranges of today are
    /// replaced. With `expected_version`, only that version of it.
    ///
    /// # Errors
    /// As [`Self::add_plain_client`], and [`StoreError::VersionConflict`].
    async fn rekey_plain_client(
        &self,
        account: AccountId,
        author: Author,
        rekey: PlainClientRekey,
        now: Timestamp,
    ) -> Result<Client, StoreError>;

    /// The same for a gateway of the principal's site.
    ///
    /// # Errors
    /// As [`Self::enrol_client`].
    async fn enrol_gateway(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: Enrolment<GatewayId>,
        now: Timestamp,
    ) -> Result<Gateway, StoreError>;

    /// The relay of the account that this machine is, with the addresses that it has now.
    ///
    /// # Errors
    /// [`StoreError::Denied`] where the token or the relay was revoked or the principal is no relay,
    /// [`StoreError::Invalid`].
    async fn enrol_relay(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: RelayEnrolment,
        now: Timestamp,
    ) -> Result<Relay, StoreError>;

    /// Notes what was last seen of machines. Returns how many rows that concerned: ids that are not
    /// in the account are passed over, and so is what is older than what is known.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn record_seen(
        &self,
        account: AccountId,
        machines: Vec<SeenMachine>,
    ) -> Result<u64, StoreError>;

    /// Keeps grants; of one that is there already, all is replaced. Returns how many were kept: a
    /// grant whose client, gateway or resource is not in the account is passed over.
    ///
    /// # Errors
    /// [`StoreError::TooMany`]; [`StoreError::NotLeading`].
    async fn save_grants(&self, account: AccountId, grants: Vec<Grant>) -> Result<u64, StoreError>;

    /// Forgets grants. Returns how many there were.
    ///
    /// # Errors
    /// [`StoreError::TooMany`]; [`StoreError::NotLeading`].
    async fn end_grants(&self, account: AccountId, grants: Vec<GrantId>)
    -> Result<u64, StoreError>;

    /// Grants that still hold at `now`, in the order of their ids, from the first after `after`.
    async fn live_grants(
        &self,
        account: AccountId,
        now: Timestamp,
        after: Option<GrantId>,
        limit: PageLimit,
    ) -> Result<Page<Grant, GrantId>, StoreError>;

    /// Forgets grants that no longer hold at `now`, at most [`crate::MAX_PRUNE_ROWS`]; returns how
    /// many.
    async fn prune_grants(&self, account: AccountId, now: Timestamp) -> Result<u64, StoreError>;

    /// Appends to the access log.
    ///
    /// # Errors
    /// [`StoreError::TooMany`].
    async fn append_access_log(
        &self,
        account: AccountId,
        entries: Vec<AccessEntry>,
    ) -> Result<(), StoreError>;

    /// The access log, the newest first, from the first behind `before`. The order is that of time, and with
    /// `filter.after` that of numbers.
    async fn access_log(
        &self,
        account: AccountId,
        filter: &AccessFilter,
        before: Option<AccessSeq>,
        limit: PageLimit,
    ) -> Result<Page<LoggedAccess, AccessSeq>, StoreError>;

    /// The secret of that name. If there is none, `candidate` becomes it; of several callers at
    /// once all get the same.
    ///
    /// # Errors
    /// [`StoreError::TooMany`] where the candidate is longer than [`crate::MAX_SECRET_LEN`].
    async fn secret(
        &self,
        account: AccountId,
        name: SecretName,
        candidate: SecretBytes,
    ) -> Result<SecretBytes, StoreError>;

    /// The portal's own secret of that name. If there is none yet, `candidate` becomes it. None where the database does
    /// not keep it, and it is in a file of the state directory: in a SQLite database that is not encrypted. Such a
    /// database still has what came from another one.
    ///
    /// # Errors
    /// [`StoreError::TooMany`] where the candidate is longer than [`crate::MAX_STATE_SECRET_LEN`].
    async fn state_secret(
        &self,
        name: StateSecret,
        candidate: Option<SecretBytes>,
    ) -> Result<Option<SecretBytes>, StoreError>;

    /// Puts another secret in the place of `current`, if that is what the database has. Of several at once, one
    /// replaces it. False where it has another one, or none.
    ///
    /// # Errors
    /// [`StoreError::TooMany`] where `next` is longer than [`crate::MAX_STATE_SECRET_LEN`].
    async fn replace_state_secret(
        &self,
        name: StateSecret,
        current: &SecretBytes,
        next: SecretBytes,
    ) -> Result<bool, StoreError>;

    /// Checks that the database answers and can be written. A second call within a second need not
    /// try anew. While others write, the result of the last write is the answer.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes what is under way and lets go of the database. Calls after it fail.
    async fn close(&self);
}

/// A machine that enrols, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment<I> {
    /// The id that it gets if it is new.
    pub new_id: I,
    /// The text that the machine keeps for itself.
    pub machine: String,
    /// The name that people give the machine.
    pub name: String,
    /// Its key.
    pub public_key: PublicKey,
    /// The address of its session, and its software.
    pub seen: Seen,
}

/// A plain WireGuard device that somebody adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPlainClient {
    /// Its id.
    pub id: ClientId,
    /// Its owner.
    pub actor: ActorId,
    /// The gateways whose keys are in its file, one of each site: at least one.
    pub gateways: Vec<GatewayId>,
    /// Its file has shares of the ranges for names, see [`Client::name_shares`].
    pub name_shares: bool,
    /// Its name.
    pub name: String,
    /// Its key.
    pub public_key: PublicKey,
}

/// Another key, or other gateways, of a plain WireGuard device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainClientRekey {
    /// The device.
    pub id: ClientId,
    /// The version that it has; any, if none.
    pub expected_version: Option<u64>,
    /// Its key from now on.
    pub public_key: PublicKey,
    /// The gateways whose keys are in its file from now on.
    pub gateways: Vec<GatewayId>,
    /// Its new file has shares of the ranges for names, see [`Client::name_shares`].
    pub name_shares: bool,
}

/// A relay that enrols, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayEnrolment {
    /// The id that it gets if it is new.
    pub new_id: RelayId,
    /// The text that the machine keeps for itself.
    pub machine: String,
    /// The name that people give the machine.
    pub name: String,
    /// The addresses at which it is reached.
    pub addresses: Vec<SocketAddr>,
    /// The address of its session, and its software.
    pub seen: Seen,
}

/// The last report of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMachine {
    /// The machine.
    pub id: MachineId,
    /// The report.
    pub seen: Seen,
}

/// Wakes after commits ([`Store::watch`]).
#[async_trait]
pub trait CommitWatch: Debug + Send {
    /// Returns at once if there was a commit since the last call, otherwise after the next one.
    /// Returns `false` when the store is gone.
    async fn changed(&mut self) -> bool;
}

/// [`Store`] with rows of their own types.
#[async_trait]
pub trait StoreExt: Store {
    /// One row.
    ///
    /// # Errors
    /// As [`Store::get`].
    async fn get_as<T: Kind>(&self, account: AccountId, id: T::Id) -> Result<T, StoreError> {
        let id = id.into();
        let entity = self.get(account, id).await?;
        T::from_entity(entity).ok_or(StoreError::NotFound(id))
    }

    /// Rows of a kind.
    ///
    /// # Errors
    /// As [`Store::list`].
    async fn list_as<T: Kind>(
        &self,
        account: AccountId,
        filter: &ListFilter,
        after: Option<T::Id>,
        limit: PageLimit,
    ) -> Result<Page<T, EntityId>, StoreError> {
        let page = self
            .list(account, T::KIND, filter, after.map(Into::into), limit)
            .await?;
        let next = page.next;
        let items = page.items.into_iter().filter_map(T::from_entity).collect();
        Ok(Page { items, next })
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

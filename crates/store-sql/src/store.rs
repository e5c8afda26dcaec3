//! The store: a connection that writes, connections that read, and the parts that do the work on them.

use super::commits::CommitSignal;
use super::connection::Transaction;
use super::open;
use super::options::StoreOptions;
use super::pool::Pool;
use super::postgres;
use super::readable::Readable;
use super::reports::Reports;
use super::sealing::Sealing;
use super::turn::Turn;
use super::writer::Writer;
use super::writing::Writing;
use super::{
    access, auth, changes, counts, enrol, enrol_relays, factors, grants, invitations, list, owners,
    passkeys, passwords, plain_clients, providers, read, secrets, seen,
};
use async_trait::async_trait;
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, ProviderId, TokenId};
use culvert_store::{
    AccessEntry, AccessFilter, AccessSeq, Account, Actor, Author, Change, ChangeFilter, Client,
    CommitWatch, Enrolment, Entity, EntityId, EntityKind, Found, Gateway, Grant, Identity,
    ListFilter, LoggedAccess, Mutation, NewPlainClient, Owner, Page, PageLimit, Passkey,
    PlainClientRekey, Position, Principal, Relay, RelayEnrolment, SecretBytes, SecretName,
    SeenMachine, Seq, Snapshot, StateSecret, Store, StoreError,
};
use culvert_wire::Timestamp;
use culvert_wire::token::{SecretDigest, TokenKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A [`Store`] in a database: SQLite's, in a file or in memory, or PostgreSQL's.
pub struct SqlStore {
    pub(super) writer: Writer,
    pub(super) reader: Pool,
    signal: CommitSignal,
    pub(super) sealing: Sealing,
    /// Reports of portals, where several may share the database.
    pub(super) reports: Option<Reports>,
    options: StoreOptions,
}

impl SqlStore {
    /// Opens the database; makes it where there is none, brings it up to date where it is older.
    ///
    /// # Errors
    /// [`StoreError::SecretsKeyMissing`], [`StoreError::OtherSecretsKey`] and [`StoreError::SecretsNotEncrypted`];
    /// [`StoreError::NewerSchema`], [`StoreError::Locked`] and [`StoreError::ReadOnly`]; [`StoreError::Corrupt`] where the
    /// file is no database or one of another program; [`StoreError::Unusable`] where a portal can't have the server's
    /// database. [`StoreError::Unavailable`] where it can't be opened. Nothing is written then.
    pub async fn open(options: impl Into<StoreOptions>) -> Result<Self, StoreError> {
        let options = options.into();
        let (writer, reader, sealing, reports) = match &options {
            StoreOptions::Sqlite(options) => {
                let opened = open::open(options).await?;
                let readable = Arc::new(Readable::new(options.known_schema().version()));
                let writer = Writer::new(Pool::Sqlite(opened.writer), options.path(), readable);
                (writer, Pool::Sqlite(opened.reader), opened.sealing, None)
            }
            StoreOptions::Postgres(options) => {
                let opened = postgres::open(options).await?;
                let readable = Arc::new(Readable::new(options.known_schema().version()));
                let pool = Pool::Postgres(opened.writer);
                let writer = Writer::new(pool, None, Arc::clone(&readable));
                let reports = Reports::new(opened.reports, options.is_portal, readable);
                let reader = Pool::Postgres(opened.reader);
                (writer, reader, opened.sealing, Some(reports))
            }
        };
        Ok(Self {
            writer,
            reader,
            sealing,
            reports,
            signal: CommitSignal::new(),
            options,
        })
    }

    pub(super) const fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// A transaction that sees one state, and writes nothing.
    pub(super) async fn reading(&self) -> Result<Transaction, StoreError> {
        self.reader.read().await
    }

    /// A transaction of a single statement that writes nothing.
    pub(super) async fn reading_once(&self) -> Result<Transaction, StoreError> {
        self.reader.read_once().await
    }

    /// A transaction that writes what is not configuration.
    pub(super) async fn writing(&self) -> Result<Transaction, StoreError> {
        self.writer.begin().await
    }

    /// A transaction that writes grants, which a portal may while it leads.
    async fn writing_grants(&self) -> Result<Transaction, StoreError> {
        let mut transaction = self.writing().await?;
        if let Some(reports) = &self.reports {
            reports.check_lead(&mut transaction).await?;
        }
        Ok(transaction)
    }

    /// A change of the configuration.
    async fn change(
        &self,
        account: AccountId,
        author: Author,
        at: Timestamp,
    ) -> Result<Writing, StoreError> {
        let transaction = self.writer.begin_change(Turn::Account(account)).await?;
        Writing::join(transaction, self.sealing.clone(), account, author, at).await
    }

    async fn enrol<M: enrol::Machine>(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: Enrolment<M::Id>,
        now: Timestamp,
    ) -> Result<M, StoreError> {
        let mut reading = self.reading_once().await?;
        let unchanged = enrol::unchanged(&mut reading, account, principal, &machine, now).await?;
        drop(reading);
        if let Some(unchanged) = unchanged {
            return Ok(unchanged);
        }
        let mut writing = self.change(account, principal.author(), now).await?;
        let enrolled = enrol::enrol(&mut writing, principal, machine).await?;
        self.finish(writing).await?;
        Ok(enrolled)
    }

    /// Commits a change of the configuration, and wakes who follows it.
    async fn finish(&self, writing: Writing) -> Result<Vec<Change>, StoreError> {
        let changes = writing.commit().await?;
        if !changes.is_empty() {
            self.signal.wake();
        }
        Ok(changes)
    }
}

impl fmt::Debug for SqlStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SqlStore")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn create_account(
        &self,
        account: Account,
        author: Author,
        at: Timestamp,
    ) -> Result<Account, StoreError> {
        let id = account.id;
        let written = async {
            let transaction = self.writer.begin_change(Turn::NewAccount).await?;
            let sealing = self.sealing.clone();
            let mut writing = Writing::new_account(transaction, sealing, id, author, at);
            let entity = writing.create(account.into()).await?;
            self.finish(writing).await?;
            Ok(entity)
        };
        match self.writer.note(written.await)? {
            Entity::Account(account) => Ok(account),
            _ => Err(StoreError::corrupt("an account that is none")),
        }
    }

    async fn create_first_account(
        &self,
        account: Account,
        author: Author,
        at: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Option<Account>, StoreError> {
        let written = async {
            let mut transaction = self.writer.begin_change(Turn::NewAccount).await?;
            let limit = PageLimit::new(1);
            if !read::accounts(&mut transaction, None, limit)
                .await?
                .items
                .is_empty()
            {
                return Ok(None);
            }
            let sealing = self.sealing.clone();
            let mut writing = Writing::new_account(transaction, sealing, account.id, author, at);
            let entity = writing.create(account.into()).await?;
            writing.apply_all(mutations).await?;
            self.finish(writing).await?;
            Ok(Some(entity))
        };
        match self.writer.note(written.await)? {
            None => Ok(None),
            Some(Entity::Account(account)) => Ok(Some(account)),
            Some(_) => Err(StoreError::corrupt("an account that is none")),
        }
    }

    async fn accounts(
        &self,
        after: Option<AccountId>,
        limit: PageLimit,
    ) -> Result<Page<Account, AccountId>, StoreError> {
        read::accounts(&mut self.reading().await?, after, limit).await
    }

    async fn is_set_up(&self, account: AccountId) -> Result<bool, StoreError> {
        read::is_set_up(&mut self.reading().await?, account).await
    }

    async fn write(
        &self,
        account: AccountId,
        author: Author,
        at: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError> {
        let written = async {
            let mut writing = self.change(account, author, at).await?;
            auth::check_author(&mut writing, author, &mutations).await?;
            writing.apply_all(mutations).await?;
            self.finish(writing).await
        };
        self.writer.note(written.await)
    }

    async fn get(&self, account: AccountId, id: EntityId) -> Result<Entity, StoreError> {
        read::get(&mut self.reading().await?, account, id).await
    }

    async fn names(
        &self,
        account: AccountId,
        ids: &[EntityId],
    ) -> Result<BTreeMap<EntityId, String>, StoreError> {
        read::names(&mut self.reading().await?, account, ids).await
    }

    async fn member_counts(
        &self,
        account: AccountId,
        groups: &[GroupId],
    ) -> Result<BTreeMap<GroupId, u64>, StoreError> {
        read::member_counts(&mut self.reading().await?, account, groups).await
    }

    async fn reference_counts(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        to: &[EntityId],
    ) -> Result<BTreeMap<EntityId, u64>, StoreError> {
        counts::references(&mut self.reading().await?, account, kind, filter, to).await
    }

    async fn software_counts(
        &self,
        account: AccountId,
        kind: EntityKind,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        counts::software(&mut self.reading().await?, account, kind).await
    }

    async fn owners(&self, account: AccountId, now: Timestamp) -> Result<Vec<Owner>, StoreError> {
        owners::owners(&mut self.reading().await?, account, now).await
    }

    async fn list(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        after: Option<EntityId>,
        limit: PageLimit,
    ) -> Result<Page<Entity, EntityId>, StoreError> {
        list::list(
            &mut self.reading().await?,
            account,
            kind,
            filter,
            after,
            limit,
        )
        .await
    }

    async fn list_ordered(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        position: Position,
        limit: PageLimit,
    ) -> Result<Found<Entity>, StoreError> {
        list::list_ordered(
            &mut self.reading().await?,
            account,
            kind,
            filter,
            position,
            limit,
        )
        .await
    }

    async fn snapshot(&self, account: AccountId) -> Result<Snapshot, StoreError> {
        read::snapshot(&mut self.reading().await?, account).await
    }

    async fn changes_after(
        &self,
        account: AccountId,
        seq: Seq,
        limit: u32,
    ) -> Result<Vec<Change>, StoreError> {
        changes::after(&mut self.reading().await?, account, seq, limit).await
    }

    async fn change_log(
        &self,
        account: AccountId,
        filter: &ChangeFilter,
        before: Option<Seq>,
        limit: PageLimit,
    ) -> Result<Page<Change, Seq>, StoreError> {
        changes::query_log(&mut self.reading().await?, account, filter, before, limit).await
    }

    fn watch(&self) -> Box<dyn CommitWatch> {
        self.signal.watch()
    }

    async fn authenticate(
        &self,
        token: TokenId,
        digest: &SecretDigest,
        kind: TokenKind,
        now: Timestamp,
    ) -> Result<Principal, StoreError> {
        let (principal, _) =
            auth::authenticate(&mut self.reading_once().await?, token, digest, kind, now).await?;
        Ok(principal)
    }

    async fn current_principal(
        &self,
        account: AccountId,
        token: TokenId,
        now: Timestamp,
    ) -> Result<Principal, StoreError> {
        let (principal, _) =
            auth::current_principal(&mut self.reading_once().await?, account, token, now).await?;
        Ok(principal)
    }

    async fn password(
        &self,
        account: AccountId,
        name: &str,
    ) -> Result<Option<(ActorId, SecretBytes)>, StoreError> {
        passwords::find(&mut self.reading().await?, account, name).await
    }

    async fn invited(
        &self,
        account: AccountId,
        actor: ActorId,
        digest: &SecretDigest,
        now: Timestamp,
    ) -> Result<Actor, StoreError> {
        invitations::find(&mut self.reading().await?, account, actor, digest, now).await
    }

    async fn provider_secret(
        &self,
        account: AccountId,
        provider: ProviderId,
    ) -> Result<Option<SecretBytes>, StoreError> {
        providers::secret(&mut self.reading().await?, &self.sealing, account, provider).await
    }

    async fn identity(
        &self,
        account: AccountId,
        provider: ProviderId,
        subject: &str,
    ) -> Result<Option<Identity>, StoreError> {
        providers::identity(&mut self.reading().await?, account, provider, subject).await
    }

    async fn totp_secret(
        &self,
        account: AccountId,
        actor: ActorId,
    ) -> Result<Option<SecretBytes>, StoreError> {
        factors::totp_secret(&mut self.reading().await?, &self.sealing, account, actor).await
    }

    async fn passkeys(
        &self,
        account: AccountId,
        actor: ActorId,
    ) -> Result<Vec<Passkey>, StoreError> {
        passkeys::of(&mut self.reading().await?, account, actor).await
    }

    async fn passkey(
        &self,
        account: AccountId,
        credential: &[u8],
    ) -> Result<Option<Passkey>, StoreError> {
        passkeys::called(&mut self.reading().await?, account, credential).await
    }

    async fn consume_one_time(
        &self,
        token: TokenId,
        digest: &SecretDigest,
        kind: TokenKind,
        now: Timestamp,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError> {
        let written = async {
            // Only who has the secret takes a turn in the account. Others may use the token until it is taken.
            let mut reading = self.reading().await?;
            let (principal, _) = auth::authenticate(&mut reading, token, digest, kind, now).await?;
            drop(reading);
            let (account, author) = (principal.account, principal.author());
            let mut writing = self.change(account, author, now).await?;
            let (_, row) =
                auth::authenticate(writing.connection().await?, token, digest, kind, now).await?;
            auth::consume(&mut writing, row, None).await?;
            writing.apply_all(mutations).await?;
            self.finish(writing).await
        };
        self.writer.note(written.await)
    }

    async fn touch_tokens(
        &self,
        account: AccountId,
        uses: Vec<(TokenId, Timestamp)>,
    ) -> Result<u64, StoreError> {
        let written = seen::touch_tokens(self.writing().await?, account, uses).await;
        self.writer.note(written)
    }

    async fn enrol_client(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: Enrolment<ClientId>,
        now: Timestamp,
    ) -> Result<Client, StoreError> {
        let written = self.enrol(account, principal, machine, now).await;
        self.writer.note(written)
    }

    async fn add_plain_client(
        &self,
        account: AccountId,
        author: Author,
        new: NewPlainClient,
        now: Timestamp,
    ) -> Result<Client, StoreError> {
        let written = async {
            let mut writing = self.change(account, author, now).await?;
            auth::check_author(&mut writing, author, &[]).await?;
            let added = plain_clients::add(&mut writing, new).await?;
            self.finish(writing).await?;
            Ok(added)
        };
        self.writer.note(written.await)
    }

    async fn rekey_plain_client(
        &self,
        account: AccountId,
        author: Author,
        rekey: PlainClientRekey,
        now: Timestamp,
    ) -> Result<Client, StoreError> {
        let written = async {
            let mut writing = self.change(account, author, now).await?;
            auth::check_author(&mut writing, author, &[]).await?;
            let changed = plain_clients::rekey(&mut writing, rekey).await?;
            self.finish(writing).await?;
            Ok(changed)
        };
        self.writer.note(written.await)
    }

    async fn enrol_gateway(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: Enrolment<GatewayId>,
        now: Timestamp,
    ) -> Result<Gateway, StoreError> {
        let written = self.enrol(account, principal, machine, now).await;
        self.writer.note(written)
    }

    async fn enrol_relay(
        &self,
        account: AccountId,
        principal: &Principal,
        machine: RelayEnrolment,
        now: Timestamp,
    ) -> Result<Relay, StoreError> {
        let written = async {
            let mut reading = self.reading().await?;
            let unchanged =
                enrol_relays::unchanged(&mut reading, account, principal, &machine, now).await?;
            drop(reading);
            if let Some(unchanged) = unchanged {
                return Ok(unchanged);
            }
            let mut writing = self.change(account, principal.author(), now).await?;
            let enrolled = enrol_relays::enrol(&mut writing, principal, machine).await?;
            self.finish(writing).await?;
            Ok(enrolled)
        };
        self.writer.note(written.await)
    }

    async fn record_seen(
        &self,
        account: AccountId,
        machines: Vec<SeenMachine>,
    ) -> Result<u64, StoreError> {
        let written = seen::record(self.writing().await?, account, machines).await;
        self.writer.note(written)
    }

    async fn save_grants(&self, account: AccountId, grants: Vec<Grant>) -> Result<u64, StoreError> {
        let written = grants::save(self.writing_grants().await?, account, grants).await;
        self.writer.note(written)
    }

    async fn end_grants(
        &self,
        account: AccountId,
        grants: Vec<GrantId>,
    ) -> Result<u64, StoreError> {
        let written = grants::end(self.writing_grants().await?, account, grants).await;
        self.writer.note(written)
    }

    async fn live_grants(
        &self,
        account: AccountId,
        now: Timestamp,
        after: Option<GrantId>,
        limit: PageLimit,
    ) -> Result<Page<Grant, GrantId>, StoreError> {
        grants::live(&mut self.reading().await?, account, now, after, limit).await
    }

    async fn prune_grants(&self, account: AccountId, now: Timestamp) -> Result<u64, StoreError> {
        let written = grants::prune(self.writing().await?, account, now).await;
        self.writer.note(written)
    }

    async fn append_access_log(
        &self,
        account: AccountId,
        entries: Vec<AccessEntry>,
    ) -> Result<(), StoreError> {
        let written = access::append(self.writing().await?, account, entries).await;
        self.writer.note(written)
    }

    async fn access_log(
        &self,
        account: AccountId,
        filter: &AccessFilter,
        before: Option<AccessSeq>,
        limit: PageLimit,
    ) -> Result<Page<LoggedAccess, AccessSeq>, StoreError> {
        access::query_log(&mut self.reading().await?, account, filter, before, limit).await
    }

    async fn secret(
        &self,
        account: AccountId,
        name: SecretName,
        candidate: SecretBytes,
    ) -> Result<SecretBytes, StoreError> {
        let transaction = self.writing().await?;
        let written = secrets::secret(transaction, &self.sealing, account, name, &candidate).await;
        self.writer.note(written)
    }

    async fn state_secret(
        &self,
        name: StateSecret,
        candidate: Option<SecretBytes>,
    ) -> Result<Option<SecretBytes>, StoreError> {
        let Some(candidate) = candidate else {
            return secrets::state_secret(&mut self.reading().await?, &self.sealing, name).await;
        };
        let transaction = self.writing().await?;
        let sealing = &self.sealing;
        let written = secrets::state_secret_or(transaction, sealing, name, &candidate).await;
        self.writer.note(written)
    }

    async fn replace_state_secret(
        &self,
        name: StateSecret,
        current: &SecretBytes,
        next: SecretBytes,
    ) -> Result<bool, StoreError> {
        let transaction = self.writing().await?;
        let sealing = &self.sealing;
        let written =
            secrets::replace_state_secret(transaction, sealing, name, current, &next).await;
        self.writer.note(written)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        read::ping(&mut self.reading().await?).await?;
        self.writer.probe().await
    }

    async fn close(&self) {
        if let Some(reports) = &self.reports {
            reports.close().await;
        }
        self.reader.close().await;
        self.writer.close().await;
    }
}

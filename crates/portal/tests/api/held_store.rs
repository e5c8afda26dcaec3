//! A store that counts what it is asked, and holds a request back from the moment at which the portal knows who
//! asks.

use crate::statements::Statements;
use async_trait::async_trait;
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, PortalId, ProviderId, TokenId,
};
use culvert_store::{
    AccessEntry, AccessFilter, AccessSeq, AccessTotals, Account, Activity, Actor, AttemptKey,
    AttemptLimit, Author, Change, ChangeFilter, Claim, Client, CommitWatch, DatabaseFacts,
    Enrolment, Entity, EntityId, EntityKind, FlowBatch, FlowFilter, FlowSeq, Found, Gateway, Grant,
    Identity, Leading, ListFilter, LogEntries, LoggedAccess, LoggedFlow, Logs, Mutation,
    NewPending, NewPlainClient, Owner, Page, PageLimit, Passkey, Pending, PendingBounds,
    PendingKey, PendingStore, PlainClientRekey, PortalReport, PortalRow, Portals, Position,
    Principal, PutPending, RecentUse, Relay, RelayEnrolment, SecretBytes, SecretName, SeenMachine,
    Seq, Snapshot, StateSecret, Store, StoreError, WhenThere,
};
use culvert_wire::Timestamp;
use culvert_wire::model::Log;
use culvert_wire::token::{SecretDigest, TokenKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

/// The portal's store. Tests change the rows by the one inside, which holds nobody back.
#[derive(Debug)]
pub(crate) struct HeldStore {
    inner: Arc<dyn Store>,
    held: Mutex<HashMap<TokenId, Held>>,
    /// By the name of who signs in.
    sign_ins: Mutex<HashMap<String, Held>>,
    /// Calls since they were last taken, by method.
    calls: Mutex<Calls>,
    /// Their statements, if a test counts these.
    statements: OnceLock<Statements>,
    rows: Mutex<Rows>,
}

/// The answer to who reads rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rows {
    #[default]
    Answered,
    /// Refused as soon as something is written.
    AnsweredUntilAWrite,
    Refused,
}

/// Feeds follow the logs, and uses of tokens are noted, whoever asks.
pub(crate) const BESIDE: [&str; 3] = ["changes_after", "log_after", "touch_tokens"];

/// The number of calls of each method of the store.
pub(crate) type Calls = BTreeMap<&'static str, usize>;

#[derive(Debug)]
struct Held {
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// The next request with a token, which is held back.
pub(crate) struct Hold {
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Hold {
    /// Waits until the portal has accepted the token, and does no more for the request.
    pub(crate) async fn reached(&mut self) {
        (&mut self.reached).await.unwrap();
    }

    /// Lets the request go on.
    pub(crate) fn release(self) {
        self.go.send(()).unwrap();
    }
}

impl HeldStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            held: Mutex::default(),
            sign_ins: Mutex::default(),
            calls: Mutex::default(),
            statements: OnceLock::new(),
            rows: Mutex::default(),
        }
    }

    /// The statements of calls from here on, but for those that authenticate and those beside all requests.
    pub(crate) fn statements(&self) -> &Statements {
        self.statements.get_or_init(Statements::begin)
    }

    fn span(&self, method: &'static str) -> Span {
        match self.statements.get() {
            Some(statements) if !BESIDE.contains(&method) => statements.span(method),
            _ => Span::none(),
        }
    }

    /// The calls since the last time.
    pub(crate) fn take_calls(&self) -> Calls {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Fails to read rows from the next write on.
    pub(crate) fn refuse_rows_after_a_write(&self) {
        *self.rows.lock().unwrap() = Rows::AnsweredUntilAWrite;
    }

    /// Reads rows again. True if a write came in between.
    pub(crate) fn answer_rows(&self) -> bool {
        std::mem::take(&mut *self.rows.lock().unwrap()) == Rows::Refused
    }

    fn may_read(&self) -> Answer<()> {
        match *self.rows.lock().unwrap() {
            Rows::Answered | Rows::AnsweredUntilAWrite => Ok(()),
            Rows::Refused => Err(StoreError::Unavailable("rows are refused".into())),
        }
    }

    fn count(&self, method: &'static str) {
        let mut rows = self.rows.lock().unwrap();
        if *rows == Rows::AnsweredUntilAWrite && ["write", "consume_one_time"].contains(&method) {
            *rows = Rows::Refused;
        }
        drop(rows);
        *self.calls.lock().unwrap().entry(method).or_default() += 1;
    }

    /// Holds back the next request that comes with the token.
    pub(crate) fn hold(&self, token: TokenId) -> Hold {
        let (held, hold) = pair();
        assert!(self.held.lock().unwrap().insert(token, held).is_none());
        hold
    }

    /// Holds back the next sign-in under the name, once the portal has what the password is checked by.
    pub(crate) fn hold_sign_in(&self, name: &str) -> Hold {
        let (held, hold) = pair();
        let mut sign_ins = self.sign_ins.lock().unwrap();
        assert!(sign_ins.insert(name.to_owned(), held).is_none());
        hold
    }
}

fn pair() -> (Held, Hold) {
    let (at, reached) = oneshot::channel();
    let (release, go) = oneshot::channel();
    let hold = Hold {
        reached,
        go: release,
    };
    (Held { reached: at, go }, hold)
}

async fn wait(held: Option<Held>) {
    if let Some(held) = held {
        held.reached.send(()).unwrap();
        // A test that fails lets go of it.
        let _ = held.go.await;
    }
}

/// Methods that the store inside answers, and others.
macro_rules! passed_on {
    (
        $trait:ident {
            $(async fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*
        }
        $($other:tt)*
    ) => {
        #[async_trait]
        impl $trait for HeldStore {
            $(async fn $name(&self, $($argument: $type),*) -> $answer {
                self.count(stringify!($name));
                let span = self.span(stringify!($name));
                self.inner.$name($($argument),*).instrument(span).await
            })*
            $($other)*
        }
    };
}

type Answer<T> = Result<T, StoreError>;

passed_on! {
    Store {
        async fn create_account(account: Account, author: Author, at: Timestamp) -> Answer<Account>;
        async fn create_first_account(account: Account, author: Author, at: Timestamp, mutations: Vec<Mutation>) -> Answer<Option<Account>>;
        async fn accounts(after: Option<AccountId>, limit: PageLimit) -> Answer<Page<Account, AccountId>>;
        async fn is_set_up(account: AccountId) -> Answer<bool>;
        async fn write(account: AccountId, author: Author, at: Timestamp, mutations: Vec<Mutation>) -> Answer<Vec<Change>>;
        async fn names(account: AccountId, ids: &[EntityId]) -> Answer<BTreeMap<EntityId, String>>;
        async fn snapshot(account: AccountId) -> Answer<Snapshot>;
        async fn changes_after(account: AccountId, seq: Seq, limit: u32) -> Answer<Vec<Change>>;
        async fn change_log(account: AccountId, filter: &ChangeFilter, before: Option<Seq>, limit: PageLimit) -> Answer<Page<Change, Seq>>;
        async fn current_principal(account: AccountId, token: TokenId, now: Timestamp) -> Answer<Principal>;
        async fn owners(account: AccountId, now: Timestamp) -> Answer<Vec<Owner>>;
        async fn invited(account: AccountId, actor: ActorId, digest: &SecretDigest, now: Timestamp) -> Answer<Actor>;
        async fn provider_secret(account: AccountId, provider: ProviderId) -> Answer<Option<SecretBytes>>;
        async fn identity(account: AccountId, provider: ProviderId, subject: &str) -> Answer<Option<Identity>>;
        async fn totp_secret(account: AccountId, actor: ActorId) -> Answer<Option<SecretBytes>>;
        async fn passkeys(account: AccountId, actor: ActorId) -> Answer<Vec<Passkey>>;
        async fn passkey(account: AccountId, credential: &[u8]) -> Answer<Option<Passkey>>;
        async fn member_counts(account: AccountId, groups: &[GroupId]) -> Answer<BTreeMap<GroupId, u64>>;
        async fn reference_counts(account: AccountId, kind: EntityKind, filter: &ListFilter, to: &[EntityId]) -> Answer<BTreeMap<EntityId, u64>>;
        async fn software_counts(account: AccountId, kind: EntityKind) -> Answer<BTreeMap<String, u64>>;
        async fn consume_one_time(token: TokenId, digest: &SecretDigest, kind: TokenKind, now: Timestamp, mutations: Vec<Mutation>) -> Answer<Vec<Change>>;
        async fn touch_tokens(account: AccountId, uses: Vec<(TokenId, Timestamp)>) -> Answer<u64>;
        async fn enrol_client(account: AccountId, principal: &Principal, machine: Enrolment<ClientId>, now: Timestamp) -> Answer<Client>;
        async fn add_plain_client(account: AccountId, author: Author, new: NewPlainClient, now: Timestamp) -> Answer<Client>;
        async fn rekey_plain_client(account: AccountId, author: Author, rekey: PlainClientRekey, now: Timestamp) -> Answer<Client>;
        async fn enrol_gateway(account: AccountId, principal: &Principal, machine: Enrolment<GatewayId>, now: Timestamp) -> Answer<Gateway>;
        async fn enrol_relay(account: AccountId, principal: &Principal, machine: RelayEnrolment, now: Timestamp) -> Answer<Relay>;
        async fn record_seen(account: AccountId, machines: Vec<SeenMachine>) -> Answer<u64>;
        async fn save_grants(account: AccountId, grants: Vec<Grant>) -> Answer<u64>;
        async fn end_grants(account: AccountId, grants: Vec<GrantId>) -> Answer<u64>;
        async fn live_grants(account: AccountId, now: Timestamp, after: Option<GrantId>, limit: PageLimit) -> Answer<Page<Grant, GrantId>>;
        async fn prune_grants(account: AccountId, now: Timestamp) -> Answer<u64>;
        async fn append_access_log(account: AccountId, entries: Vec<AccessEntry>) -> Answer<()>;
        async fn access_log(account: AccountId, filter: &AccessFilter, before: Option<AccessSeq>, limit: PageLimit) -> Answer<Page<LoggedAccess, AccessSeq>>;
        async fn secret(account: AccountId, name: SecretName, candidate: SecretBytes) -> Answer<SecretBytes>;
        async fn state_secret(name: StateSecret, candidate: Option<SecretBytes>) -> Answer<Option<SecretBytes>>;
        async fn replace_state_secret(name: StateSecret, current: &SecretBytes, next: SecretBytes) -> Answer<bool>;
        async fn ping() -> Answer<()>;
        async fn close() -> ();
    }

    fn watch(&self) -> Box<dyn CommitWatch> {
        self.inner.watch()
    }

    async fn get(&self, account: AccountId, id: EntityId) -> Answer<Entity> {
        self.count("get");
        self.may_read()?;
        let span = self.span("get");
        self.inner.get(account, id).instrument(span).await
    }

    async fn list(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        after: Option<EntityId>,
        limit: PageLimit,
    ) -> Answer<Page<Entity, EntityId>> {
        self.count("list");
        self.may_read()?;
        let list = self.inner.list(account, kind, filter, after, limit);
        list.instrument(self.span("list")).await
    }

    async fn list_ordered(
        &self,
        account: AccountId,
        kind: EntityKind,
        filter: &ListFilter,
        position: Position,
        limit: PageLimit,
    ) -> Answer<Found<Entity>> {
        self.count("list_ordered");
        self.may_read()?;
        let list = self.inner.list_ordered(account, kind, filter, position, limit);
        list.instrument(self.span("list_ordered")).await
    }

    async fn password(
        &self,
        account: AccountId,
        name: &str,
    ) -> Answer<Option<(ActorId, SecretBytes)>> {
        self.count("password");
        let answer = self.inner.password(account, name).await;
        let held = self.sign_ins.lock().unwrap().remove(name);
        wait(held).await;
        answer
    }

    async fn authenticate(
        &self,
        token: TokenId,
        digest: &SecretDigest,
        kind: TokenKind,
        now: Timestamp,
    ) -> Answer<Principal> {
        self.count("authenticate");
        let answer = self.inner.authenticate(token, digest, kind, now).await;
        let held = self.held.lock().unwrap().remove(&token);
        wait(held).await;
        answer
    }
}

passed_on! {
    Logs {
        async fn append_flows(account: AccountId, batches: Vec<FlowBatch>) -> Answer<()>;
        async fn flow_log(account: AccountId, filter: &FlowFilter, before: Option<FlowSeq>, limit: PageLimit) -> Answer<Page<LoggedFlow, FlowSeq>>;
        async fn flows_lost(account: AccountId) -> Answer<u64>;
        async fn log_after(account: AccountId, log: Log, seq: u64, limit: u32) -> Answer<LogEntries>;
        async fn log_ends(account: AccountId) -> Answer<BTreeMap<Log, u64>>;
        async fn prune_log(account: AccountId, log: Log, older_than: Timestamp, keep: u64) -> Answer<u64>;
        async fn record_traffic(account: AccountId, traffic: Vec<(Timestamp, u64)>) -> Answer<()>;
        async fn activity(account: AccountId, from: Timestamp, until: Timestamp, step: Duration) -> Answer<Vec<Activity>>;
        async fn access_totals(account: AccountId, from: Timestamp) -> Answer<AccessTotals>;
        async fn recent_use(account: AccountId, about: EntityId, from: Timestamp) -> Answer<RecentUse>;
        async fn prune_activity(account: AccountId, older_than: Timestamp) -> Answer<u64>;
        async fn sink_positions(account: AccountId, sink: &str) -> Answer<BTreeMap<Log, u64>>;
        async fn note_sink_positions(account: AccountId, sink: &str, positions: &BTreeMap<Log, u64>) -> Answer<()>;
        async fn sink_secret(account: AccountId, sink: &str) -> Answer<Option<SecretBytes>>;
    }
}

passed_on! {
    PendingStore {
        async fn put_pending(account: AccountId, new: NewPending, there: WhenThere, bounds: PendingBounds) -> Answer<PutPending>;
        async fn pending(account: AccountId, key: PendingKey) -> Answer<Option<Pending>>;
        async fn take_pending(account: AccountId, key: PendingKey) -> Answer<Option<Pending>>;
        async fn replace_pending(account: AccountId, key: PendingKey, version: u64, value: Option<SecretBytes>) -> Answer<bool>;
        async fn clock() -> Answer<Timestamp>;
        async fn take_attempt(account: AccountId, key: AttemptKey, limit: AttemptLimit) -> Answer<Option<Duration>>;
    }
}

passed_on! {
    Portals {
        async fn report(report: &PortalReport, claim: Claim) -> Answer<Leading>;
        async fn retire(portal: PortalId) -> Answer<()>;
        async fn portal_key(portal: PortalId) -> Answer<Option<SecretDigest>>;
        async fn database() -> Answer<DatabaseFacts>;
        async fn portals() -> Answer<Vec<PortalRow>>;
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
}

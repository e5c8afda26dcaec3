//! The portal's database.
//!
//! [`Store`] is all that the portal knows of it: the configuration of an account and its change
//! log, tokens, machines that enrol, grants that live, and the log of access. [`rules`] say what a row may be and
//! [`range`] which addresses are free: implementations ask them, so that all refuse alike. The crate `store-sql` is one.
//! Every implementation of the trait passes the suite in its `tests/conformance/`.
//!
//! Three rules hold everywhere:
//!
//! - **Nothing crosses an account.** Every method takes the account and looks no further: an id of
//!   another account is not found.
//! - **Every change of the configuration is in the change log**, in the same transaction, with what
//!   was before and after: it is the feed that sessions follow and the audit log at once. An
//!   account's changes are numbered 1, 2, 3… without a gap, in the order in which they were
//!   committed. Data that changes at a high rate is not configuration and never in it: the times at
//!   which machines were last seen, grants, and the access log. Nor are secrets and their digests.
//! - **Unreadable data is an error**, never an empty answer.
//!
//! Ids, instants and random bytes are arguments.

#![forbid(unsafe_code)]

mod access_log;
mod change;
mod entity;
mod error;
mod factor;
mod flow_log;
mod grant;
mod limits;
mod logs;
mod page;
mod pending;
mod portals;
mod principal;
mod proof;
pub mod range;
mod recent_use;
pub mod rules;
mod search;
mod secret;
mod snapshot;
mod store;

pub use access_log::{AccessEntry, AccessFilter, AccessSeq, AccessTotals, Decision, LoggedAccess};
pub use change::{Author, Change, ChangeFilter, Mutation, Operation, Seq};
pub use entity::{
    Account, AccountSettings, Actor, ActorKind, Client, EndedAccess, Entity, EntityId, EntityKind,
    Gateway, Group, GroupOfClaim, Identity, Kind, MachineId, Membership, NamedRow, PathRule,
    Policy, Provider, ProviderSettings, Relay, Resource, Role, SecondFactorRule, Seen, SignIn,
    Site, Stamp, Token, TokenScope, TokenUse, TokenUses, UnknownPeople,
};
pub use error::{Denial, StoreError};
pub use factor::{FactorChange, NewPasskey, Passkey};
pub use flow_log::{FlowBatch, FlowEntry, FlowFilter, FlowSeq, LoggedFlow};
pub use grant::Grant;
pub use limits::{
    ADDRESS_REST_MS, GRANT_LIFETIME_S, MAX_BATCH, MAX_CHANGES_PER_WRITE, MAX_CHANGES_READ,
    MAX_CREDENTIAL_LEN, MAX_DENIAL_CAUSES, MAX_MACHINE_LEN, MAX_MUTATIONS, MAX_NAME_CHARS,
    MAX_PAGE, MAX_PASSKEYS, MAX_PLAIN_CLIENT_GATEWAYS, MAX_PLAIN_CLIENTS,
    MAX_PLAIN_CLIENTS_PER_ACTOR, MAX_POLICY_TOTALS, MAX_PRUNE_ROWS, MAX_PUBLIC_KEY_LEN,
    MAX_REASON_LEN, MAX_RECOVERY_CODES, MAX_ROWS_PER_KIND, MAX_SECRET_LEN, MAX_SITE_RELAYS,
    MAX_SOFTWARE_LEN, MAX_STATE_SECRET_LEN, MAX_SUBJECT_LEN, MAX_TOTALS, MAX_USE_ROWS,
    MAX_USERS_NAMED, SESSION_IDLE_MS,
};
pub use logs::{ACTIVITY_BUCKET_MS, Activity, LogEntries, Logs};
pub use page::{Found, ListFilter, Order, OrderBy, Page, PageLimit, Part, Position};
pub use pending::{
    AttemptKey, AttemptLimit, MAX_PENDING_LEN, NewPending, Pending, PendingBounds, PendingKey,
    PendingKind, PendingStore, PutPending, WhenFull, WhenThere,
};
pub use portals::{
    Claim, DatabaseFacts, LEASE_MS, Leader, Leading, MAX_PORTALS, PORTAL_KEPT_MS,
    PORTAL_SILENCE_MS, PortalReport, PortalRow, Portals, REPORT_EVERY_MS,
};
pub use principal::{Holder, Owner, OwnerBy, Principal};
pub use proof::Proof;
pub use recent_use::{DenialCause, RecentUse};
pub use search::{MAX_SEARCH_LEN, SearchText, SearchTextError};
pub use secret::{SecretBytes, SecretName, StateSecret};
pub use snapshot::Snapshot;
pub use store::{
    CommitWatch, Enrolment, NewPlainClient, PlainClientRekey, RelayEnrolment, SeenMachine, Store,
    StoreExt,
};

//! Requests and responses of the portal's REST API, under [`PREFIX`].
//!
//! A thing that can be changed has three forms: as shown (`Group`), as asked for (`NewGroup`), and as
//! changed (`GroupPatch`, where a field that is left out stays as it is). A request with an unknown
//! field is refused, so that a typing error is not ignored. Responses may gain fields.

mod account;
mod activity;
mod actor;
mod apply;
mod client;
mod device;
mod explanation;
mod gateway;
mod group;
mod log;
mod page;
mod plain_client;
mod policy;
mod portal;
mod problem;
mod provider;
mod relay;
mod resource;
mod retention;
mod setup;
mod sink;
mod site;
mod status;
mod token;

pub use account::{
    Account, AccountPatch, DesiredDns, DesiredDnsDomain, EndedAccess, PathRule, SecondFactorRule,
};
pub use activity::{Activity, ActivitySpan, ActivityStep};
pub use actor::{
    Actor, ActorKind, ActorPatch, IssuedInvitation, NewActor, NewInvitation, NewPerson, NewSignIn,
    SignIn,
};
pub use apply::{
    ApplyChange, ApplyOptions, ApplyReport, Desired, DesiredActor, DesiredGroup, DesiredPolicy,
    DesiredResource, DesiredSite, FieldChange, Operation,
};
pub use client::{Client, ClientPatch};
pub use device::{DeviceAnswer, DeviceAsk, DeviceBegun, NewDevice};
pub use explanation::{Explanation, GatewayChoice, OutsideName, PolicyExplanation, Verdict};
pub use gateway::{Gateway, GatewayPatch};
pub use group::{Group, GroupPatch, Member, NewGroup, NewMember};
pub use log::{AccessDecision, AccessLogEntry, ChangeLogEntry, FlowLogEntry};
pub use page::{DEFAULT_PAGE_LEN, MAX_PAGE_LEN, Page};
pub use plain_client::{
    NewPlainClient, PRIVATE_KEY_PLACEHOLDER, PlainClientEndpoint, PlainClientFile, PlainClientPeer,
    PlainClientRekey,
};
pub use policy::{NewPolicy, Policy, PolicyPatch};
pub use portal::PortalOfDatabase;
pub use problem::{FieldProblem, PROBLEM_MEDIA_TYPE, Problem, ProblemKind};
pub use provider::{
    Identity, NewIdentity, NewProvider, Provider, ProviderGroup, ProviderPatch, UnknownPeople,
};
pub use relay::{ClientPath, Relay, RelayPatch, RelaySession};
pub use resource::{NewResource, Resource, ResourcePatch};
pub use retention::{Retention, RetentionPatch};
pub use setup::{SetupAnswer, SetupRequest};
pub use sink::{NewSink, SinkList, SinkPatch, SinkTest, SinkView};
pub use site::{NewSite, Site, SitePatch};
pub use status::{ClientSession, DatabaseStatus, GatewaySession, OwnRelayStatus, PortalStatus};
pub use token::{ApiRole, IssuedToken, NewToken, Token};

/// The prefix of every path of the API.
pub const PREFIX: &str = "/api/v1";

/// The path of the API's OpenAPI document.
pub const OPENAPI_PATH: &str = "/api/v1/openapi.json";

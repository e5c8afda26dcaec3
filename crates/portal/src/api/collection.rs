//! The operations that are the same for every kind of thing: list, create, show, change, delete and actions.
//!
//! A kind implements [`Collection`] for the type that shows one of it. Each function below makes one route of a
//! kind: its handler, and the part of the document that describes it.

use super::body::Json;
use super::described::Described;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown, Versioned};
use super::identity::Call;
use super::query::Query;
use super::state::Api;
use axum::http::StatusCode;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_wire::api::Page;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use utoipa::openapi::HttpMethod::{Delete, Get, Patch, Post};
use utoipa::openapi::Required;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// The outcome of an operation.
pub(super) type Answer<T> = Result<T, Fault>;

/// The version that an operation is about; none means any version.
pub(super) type Version = Option<u64>;

/// A kind of thing that the API lists, shows and deletes.
pub(super) trait Collection: Versioned + ToSchema + Send + Sized + 'static {
    /// The path below `/api/v1`, without slashes.
    const PATH: &'static str;
    /// The last word of the names of operations on one of it.
    const NOUN: &'static str;
    /// One of it, with its article.
    const ONE: &'static str;
    /// Several of it.
    const MANY: &'static str = Self::PATH;
    /// The group of its operations in the document.
    const TAG: &'static str = Self::PATH;
    /// The text on its deletion in the document.
    const DELETION: &'static str = "";

    /// The id in its paths.
    type Id: FromStr<Err: Display> + Display + Send + 'static;
    /// The filter of its list.
    type Query: IntoParams + DeserializeOwned + Into<ListRequest> + Send + 'static;
    /// The options of a deletion.
    type DeleteQuery: IntoParams + DeserializeOwned + Send + 'static;

    fn list(call: &Call, request: &ListRequest) -> impl Future<Output = Answer<Page<Self>>> + Send;

    fn show(call: &Call, id: Self::Id) -> impl Future<Output = Answer<Self>> + Send;

    fn delete(
        call: &Call,
        id: Self::Id,
        version: Version,
        query: Self::DeleteQuery,
    ) -> impl Future<Output = Answer<()>> + Send;
}

/// A kind that callers create.
pub(super) trait Create: Collection {
    /// The text on its creation in the document.
    const CREATION: &'static str = "";

    /// The body of the request.
    type New: ToSchema + DeserializeOwned + Send + 'static;

    fn create(call: &Call, new: Self::New) -> impl Future<Output = Answer<Self>> + Send;

    fn id(&self) -> Self::Id;
}

/// A kind that callers change.
pub(super) trait Change: Collection {
    /// The text on its change in the document.
    const CHANGE: &'static str = "";

    /// The body of the request.
    type Patch: ToSchema + DeserializeOwned + Send + 'static;

    fn change(
        call: &Call,
        id: Self::Id,
        version: Version,
        patch: Self::Patch,
    ) -> impl Future<Output = Answer<Self>> + Send;
}

/// A kind with actions: changes that have routes of their own, without a body.
pub(super) trait Act: Collection {
    type Action: Copy + Send + Sync + 'static;

    const ACTIONS: &'static [Action<Self::Action>];

    fn act(
        call: &Call,
        id: Self::Id,
        version: Version,
        action: Self::Action,
    ) -> impl Future<Output = Answer<Self>> + Send;
}

/// An action, and its words in the document.
pub(super) struct Action<A: 'static> {
    pub(super) action: A,
    /// The last part of its path, and the first of its name.
    pub(super) verb: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
}

/// The routes of a kind that has them all.
pub(super) fn complete<K: Create + Change>() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(list::<K>())
        .routes(create::<K>())
        .routes(show::<K>())
        .routes(change::<K>())
        .routes(delete::<K>())
}

/// The routes of machines, which enrol by themselves: nobody creates them.
pub(super) fn machines<K: Change + Act>() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(list::<K>())
        .routes(show::<K>())
        .routes(change::<K>())
        .routes(delete::<K>())
        .merge(actions::<K>())
}

pub(super) fn list<K: Collection>() -> UtoipaMethodRouter<Api> {
    let handler = |call: Call, Query(query): Query<K::Query>| async move {
        K::list(&call, &query.into()).await.map(axum::Json)
    };
    Described::new(Get, format!("/{}", K::PATH), K::TAG)
        .named(format!("list_{}", K::PATH), format!("List {}", K::MANY))
        .query::<K::Query>()
        .answers_page::<K>()
        .served_by(handler)
}

pub(super) fn create<K: Create>() -> UtoipaMethodRouter<Api> {
    let handler = |call: Call, Json(new): Json<K::New>| async move {
        K::create(&call, new).await.map(|shown| Made {
            at: format!("/api/v1/{}/{}", K::PATH, shown.id()),
            shown,
        })
    };
    Described::new(Post, format!("/{}", K::PATH), K::TAG)
        .named(format!("create_{}", K::NOUN), format!("Make {}", K::ONE))
        .about(K::CREATION)
        .takes::<K::New>()
        .answers::<K>("201", "Made")
        .served_by(handler)
}

pub(super) fn show<K: Collection>() -> UtoipaMethodRouter<Api> {
    let handler =
        |call: Call, Id(id): Id<K::Id>| async move { K::show(&call, id).await.map(Shown) };
    Described::new(Get, format!("/{}/{{id}}", K::PATH), K::TAG)
        .named(format!("show_{}", K::NOUN), format!("Show {}", K::ONE))
        .id()
        .answers::<K>("200", "As it is")
        .served_by(handler)
}

pub(super) fn change<K: Change>() -> UtoipaMethodRouter<Api> {
    let handler = |call: Call,
                   Id(id): Id<K::Id>,
                   IfMatch(version): IfMatch,
                   Json(patch): Json<K::Patch>| async move {
        K::change(&call, id, version, patch).await.map(Shown)
    };
    Described::new(Patch, format!("/{}/{{id}}", K::PATH), K::TAG)
        .named(format!("change_{}", K::NOUN), format!("Change {}", K::ONE))
        .about(K::CHANGE)
        .id()
        .if_match(Required::True, "Its `ETag`, or *")
        .takes::<K::Patch>()
        .answers::<K>("200", "As it is now")
        .served_by(handler)
}

pub(super) fn delete<K: Collection>() -> UtoipaMethodRouter<Api> {
    let handler = |call: Call,
                   Id(id): Id<K::Id>,
                   MaybeIfMatch(version): MaybeIfMatch,
                   Query(query): Query<K::DeleteQuery>| async move {
        K::delete(&call, id, version, query)
            .await
            .map(|()| StatusCode::NO_CONTENT)
    };
    Described::new(Delete, format!("/{}/{{id}}", K::PATH), K::TAG)
        .named(format!("delete_{}", K::NOUN), format!("Delete {}", K::ONE))
        .about(K::DELETION)
        .id()
        .if_match(Required::False, "Its `ETag`: only that version is deleted")
        .query::<K::DeleteQuery>()
        .answers_nothing("Gone")
        .served_by(handler)
}

/// The routes of all actions of a kind.
pub(super) fn actions<K: Act>() -> OpenApiRouter<Api> {
    let routes = K::ACTIONS.iter().map(act::<K>);
    routes.fold(OpenApiRouter::new(), OpenApiRouter::routes)
}

fn act<K: Act>(one: &Action<K::Action>) -> UtoipaMethodRouter<Api> {
    let action = one.action;
    let handler = move |call: Call, Id(id): Id<K::Id>, MaybeIfMatch(version): MaybeIfMatch| async move {
        K::act(&call, id, version, action).await.map(Shown)
    };
    Described::new(Post, format!("/{}/{{id}}/{}", K::PATH, one.verb), K::TAG)
        .named(format!("{}_{}", one.verb, K::NOUN), one.summary.into())
        .about(one.description)
        .id()
        .if_match(Required::False, "Its `ETag`: only that version is changed")
        .answers::<K>("200", "As it is now")
        .served_by(handler)
}

//! Query parameters: the part of an address behind the `?`.

use axum::extract::FromRequestParts;
use axum::extract::rejection::QueryRejection;
use axum::http::request::Parts;
use culvert_ids::{ActorId, GroupId, ProviderId, ResourceId, SiteId};
use culvert_portal_base::Fault;
use culvert_portal_service::ListRequest;
use culvert_store::ListFilter;
use culvert_wire::api::MAX_PAGE_LEN;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use utoipa::IntoParams;

/// A query that is a `T`.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        match query {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

/// The parser names the field in front of its reason.
fn refused(rejection: &QueryRejection) -> Fault {
    let reason = rejection
        .source()
        .map_or_else(|| rejection.body_text(), ToString::to_string);
    match reason.split_once(": ") {
        Some((field, reason)) => Fault::invalid(field, in_words(field, reason)),
        None => Fault::invalid("", reason),
    }
}

/// The reason in words. The standard library's reasons for a number name no range, so they are written anew. `limit` has
/// a range of its own; every other number of a query is a `u64`.
fn in_words(field: &str, reason: &str) -> String {
    let is_about_number = [
        "invalid digit",
        "number too large",
        "number too small",
        "cannot parse integer",
    ];
    match is_about_number
        .iter()
        .any(|begin| reason.starts_with(begin))
    {
        true if field == "limit" => format!("write a whole number from 1 to {MAX_PAGE_LEN}"),
        true => format!("write a whole number from 0 to {}", u64::MAX),
        false => reason.to_owned(),
    }
}

macro_rules! list_query {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $id:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(super) struct $name {
            /// The start of the page: `next_cursor` of the page before.
            cursor: Option<String>,
            /// Entries of a page, 1 to 200; 50 without.
            limit: Option<u16>,
            /// Only what has this name, whatever the case of its letters.
            name: Option<String>,
            /// Only what has this in its name, the name of what it belongs to, an address or its software.
            search: Option<String>,
            $(
                $(#[$field_doc])*
                #[param(value_type = Option<String>)]
                $field: Option<$id>,
            )*
        }

        impl From<$name> for ListRequest {
            fn from(query: $name) -> Self {
                let request = Self {
                    filter: ListFilter {
                        name: query.name,
                        text: query.search,
                        ..ListFilter::default()
                    },
                    cursor: query.cursor,
                    limit: query.limit,
                    position: None,
                    live: None,
                };
                $(let request = request.referring_to(query.$field);)*
                request
            }
        }
    };
}

list_query!(
    /// A filter of actors, groups or sites.
    NamedQuery {}
);
list_query!(
    /// A filter of resources or gateways.
    OfSiteQuery {
        /// Only those of this site.
        site: SiteId,
    }
);
list_query!(
    /// A filter of clients.
    OfActorQuery {
        /// Only those of this actor.
        actor: ActorId,
    }
);
list_query!(
    /// A filter of policies.
    PoliciesQuery {
        /// Only those for this group.
        group: GroupId,
        /// Only those for this resource.
        resource: ResourceId,
    }
);
list_query!(
    /// A filter of tokens.
    TokensQuery {
        /// Only those of this actor.
        actor: ActorId,
        /// Only those of this site.
        site: SiteId,
    }
);

/// A page of rows that have no names.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// The start of the page: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of a page, 1 to 200; 50 without.
    limit: Option<u16>,
}

impl From<PageQuery> for ListRequest {
    fn from(query: PageQuery) -> Self {
        Self {
            cursor: query.cursor,
            limit: query.limit,
            ..Self::default()
        }
    }
}

/// A filter of identities.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct IdentitiesQuery {
    /// The start of the page: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of a page, 1 to 200; 50 without.
    limit: Option<u16>,
    /// Only those of this actor.
    #[param(value_type = Option<String>)]
    actor: Option<ActorId>,
    /// Only those at this provider.
    #[param(value_type = Option<String>)]
    provider: Option<ProviderId>,
}

impl From<IdentitiesQuery> for ListRequest {
    fn from(query: IdentitiesQuery) -> Self {
        let request = Self {
            cursor: query.cursor,
            limit: query.limit,
            ..Self::default()
        };
        let request = request.referring_to(query.actor);
        request.referring_to(query.provider)
    }
}

/// Options of a deletion.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Delete what belongs to it as well; otherwise it is refused while there is any.
    #[serde(default)]
    pub(super) cascade: bool,
}

/// No options: query parameters are not read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct NoQuery {}

/// Options of draining a gateway.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DrainQuery {
    /// Move its clients to another gateway of its site at once; refused where no other can take them.
    #[serde(default)]
    pub(super) now: bool,
    /// With `now`: even where no other can take them, so that they lose their access.
    #[serde(default)]
    pub(super) force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_answered_with_the_range() {
        for reason in [
            "invalid digit found in string",
            "number too large to fit in target type",
            "cannot parse integer from empty string",
        ] {
            let limit = in_words("limit", reason);
            assert_eq!(limit, "write a whole number from 1 to 200");
            assert!(in_words("after", reason).starts_with("write a whole number from 0 to"));
        }
        let unknown = "unknown field `x`, expected `name`";
        assert_eq!(in_words("x", unknown), unknown);
    }
}

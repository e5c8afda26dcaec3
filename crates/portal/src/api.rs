//! The REST API under `/api/v1`. Its document is made of the very routes that serve, so neither can
//! know what the other does not.
//!
//! Handlers take requests apart and put answers together; who may do what is `service`'s.

mod account;
mod activity;
mod actors;
mod apply;
mod body;
mod clients;
mod collection;
mod described;
mod devices;
mod etag;
mod exports;
mod gateways;
mod groups;
mod identity;
mod invitations;
mod logs;
mod plain_clients;
mod policies;
mod portals;
mod problems;
mod providers;
mod query;
mod relays;
mod resources;
mod retention;
mod setup;
mod sinks;
mod sites;
mod state;
mod status;
mod tokens;

use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use collection::{actions, complete, delete, list, machines, show};
use culvert_wire::api::{
    Actor, Client, FieldProblem, Gateway, Group, Policy, Problem, Provider, Relay, Resource, Site,
    Token,
};
use utoipa::PartialSchema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use state::Api;

/// The document that describes the API, as JSON.
#[must_use]
pub fn openapi() -> String {
    described().1.to_json().unwrap_or_default()
}

/// The routes, and the document that describes them.
pub(crate) fn router(api: Api) -> (axum::Router, OpenApi) {
    let (routes, document) = described();
    let text = document.to_json().unwrap_or_default();
    let serve_document = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text).into_response() }
    };
    let routes = routes
        .with_state(api)
        .route(culvert_wire::api::OPENAPI_PATH, get(serve_document));
    (routes, document)
}

fn described() -> (axum::Router<Api>, OpenApi) {
    let routes = OpenApiRouter::new()
        .routes(routes!(account::show, account::change))
        .merge(complete::<Actor>())
        .routes(routes!(actors::set_sign_in, actors::end_sign_in))
        .routes(routes!(actors::end_sessions))
        .routes(routes!(invitations::invite_person))
        .routes(routes!(invitations::invite, invitations::withdraw))
        .merge(complete::<Provider>())
        .routes(routes!(
            providers::list_identities,
            providers::create_identity
        ))
        .routes(routes!(providers::delete_identity))
        .routes(routes!(devices::begin))
        .routes(routes!(devices::ask))
        .routes(routes!(actors::reset_second_factor))
        .merge(complete::<Group>())
        .routes(routes!(groups::members, groups::add_member))
        .routes(routes!(groups::remove_member))
        .merge(complete::<Site>())
        .routes(routes!(sites::gateways))
        .merge(machines::<Gateway>())
        .routes(routes!(gateways::drain))
        .merge(machines::<Relay>())
        .merge(machines::<Client>())
        .routes(routes!(plain_clients::add))
        .routes(routes!(plain_clients::show))
        .routes(routes!(plain_clients::endpoints))
        .routes(routes!(plain_clients::rekey))
        .merge(complete::<Resource>())
        .merge(complete::<Policy>())
        .routes(list::<Token>())
        .routes(routes!(tokens::create))
        .routes(show::<Token>())
        .routes(delete::<Token>())
        .merge(actions::<Token>())
        .routes(routes!(logs::changes))
        .routes(routes!(logs::access))
        .routes(routes!(logs::flows))
        .routes(routes!(exports::access))
        .routes(routes!(exports::changes))
        .routes(routes!(exports::flows))
        .routes(routes!(activity::show))
        .routes(routes!(sinks::list, sinks::create))
        .routes(routes!(sinks::show, sinks::change, sinks::delete))
        .routes(routes!(sinks::test))
        .routes(routes!(retention::show, retention::change))
        .routes(routes!(status::show))
        .routes(routes!(portals::list))
        .routes(routes!(status::clients))
        .routes(routes!(status::gateways))
        .routes(routes!(status::relays))
        .routes(routes!(status::explain))
        .routes(routes!(apply::apply))
        .routes(routes!(setup::set_up));
    OpenApiRouter::with_openapi(describe())
        .nest("/api/v1", routes)
        .split_for_parts()
}

fn describe() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Culvert portal")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Who may reach what through Culvert. Every error is a problem document (RFC 9457). \
             Lists come a page at a time: give `next_cursor` as `cursor` for what follows. What can \
             be changed has an `ETag`; a change names it in `If-Match`, so that nobody overwrites \
             what they have not seen.",
        ))
        .license(Some(
            LicenseBuilder::new()
                .name("Apache-2.0")
                .identifier(Some("Apache-2.0"))
                .build(),
        ));
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token of kind `api`; for `/api/v1/setup`, one of kind `setup`",
        ))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme("token", SecurityScheme::Http(bearer))
        .schema("Problem", Problem::schema())
        .schema("FieldProblem", FieldProblem::schema());
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(components.build()))
        .build()
}

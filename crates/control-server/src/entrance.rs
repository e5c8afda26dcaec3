//! The checks of a request before it becomes a session.

use super::http_refusal::Refused;
use super::portal_link;
use super::session;
use super::shared::Shared;
use super::upgrade::Upgrade;
use super::visitor::{Side, Visitor};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use culvert_portal_base::{Connection, Fault, PublicAddress, UnnamedClient};
use culvert_store::{Denial, StoreError};
use culvert_wire::messages::{FromClient, FromGateway, FromRelay};
use culvert_wire::token::{Bearer, Token, TokenKind};
use culvert_wire::{
    CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH, Message, PORTAL_LINK_PATH, RELAY_SESSION_PATH,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time until a machine comes back to a portal that has no room, or whose database does not
/// answer.
const COME_BACK: Duration = Duration::from_secs(5);

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let client = |State(shared), request| enter(shared, Side::Client, request);
    let gateway = |State(shared), request| enter(shared, Side::Gateway, request);
    let relay = |State(shared), request| enter(shared, Side::Relay, request);
    let portal = |State(shared), request| enter_portal(shared, request);
    Router::new()
        .route(PORTAL_LINK_PATH, any(portal))
        .route(CLIENT_SESSION_PATH, any(client))
        .route(GATEWAY_SESSION_PATH, any(gateway))
        .route(RELAY_SESSION_PATH, any(relay))
        .with_state(shared)
}

async fn enter_portal(shared: Arc<Shared>, request: Request) -> Response {
    let entered = portal_link::enter(shared, request).await;
    entered.unwrap_or_else(IntoResponse::into_response)
}

async fn enter(shared: Arc<Shared>, side: Side, request: Request) -> Response {
    match admit(shared, side, request).await {
        Ok(response) => response,
        Err(refused) => refused.into_response(),
    }
}

async fn admit(shared: Arc<Shared>, side: Side, mut request: Request) -> Result<Response, Refused> {
    if shared.stopping.load(Ordering::Relaxed) {
        return Err(Refused::later(COME_BACK, "the portal is stopping"));
    }
    let Some(PublicAddress(from)) = request.extensions().get().copied() else {
        return Err(Fault::internal("a request without the address that it comes from").into());
    };
    // Before the token, so that someone who looks for a fault without a token is told of it as
    // well.
    let upgrade = Upgrade::of(&mut request).map_err(|error| {
        if let Some(count) = shared.no_upgrade.due(Instant::now()) {
            tracing::warn!(count, %from, "a machine is refused: {error}");
        }
        Fault::Malformed(error.to_string())
    })?;
    let bearer = bearer(request.headers(), side).ok_or(Fault::Unauthenticated)?;
    shared
        .token_pace
        .take((from, bearer.id), Instant::now())
        .map_err(|wait| Refused::later(wait, "the token begins sessions too often"))?;
    let full = || Refused::later(COME_BACK, "the portal has as many sessions as it takes");
    let place = Arc::clone(&shared.places).try_acquire_owned();
    let place = place.map_err(|_| full())?;
    let now = culvert_portal_base::now();
    let authenticated = shared
        .store
        .authenticate(bearer.id, &bearer.secret.digest(), bearer.kind, now)
        .await;
    let principal = match authenticated {
        Ok(principal) if principal.account != shared.account => {
            return Err(Fault::Unauthenticated.into());
        }
        Ok(principal) => Some(principal),
        // Only someone who has the secret hears this.
        Err(StoreError::Denied(Denial::ActorDisabled(account)))
            if side == Side::Client && account == shared.account =>
        {
            None
        }
        Err(error) => return Err(refusal(&error, &bearer)),
    };
    let connection = request.extensions().get::<Arc<Connection>>();
    if connection.is_some_and(|connection| !connection.is_of_machine(from)) {
        return Err(full());
    }
    let is_named = request.extensions().get::<UnnamedClient>().is_none();
    let visitor = principal.map(|principal| Visitor {
        side,
        principal,
        from,
        address: is_named.then_some(from),
    });
    let (response, socket) = upgrade.accept(max_message_len(side));
    tokio::spawn(async move {
        match (socket.await, visitor) {
            (Some(socket), Some(visitor)) => session::serve(&shared, visitor, socket).await,
            (Some(socket), None) => session::turn_away(from, socket).await,
            (None, _) => {}
        }
        drop(place);
    });
    Ok(response)
}

/// Longest message of a machine, in bytes.
const fn max_message_len(side: Side) -> usize {
    match side {
        Side::Client => FromClient::MAX_LEN,
        Side::Gateway => FromGateway::MAX_LEN,
        Side::Relay => FromRelay::MAX_LEN,
    }
}

fn bearer(headers: &HeaderMap, side: Side) -> Option<Bearer> {
    let kind = match side {
        Side::Client => TokenKind::Client,
        Side::Gateway => TokenKind::Gateway,
        Side::Relay => TokenKind::Relay,
    };
    let text = culvert_portal_base::bearer(headers)?;
    let token = Token::parse_as(text, kind).ok()?;
    Some(token.bearer)
}

/// To the peer all that is wrong with a token is one.
fn refusal(error: &StoreError, bearer: &Bearer) -> Refused {
    match error {
        StoreError::Denied(denial) => {
            tracing::warn!(token = %bearer.id, cause = denial.cause(), "a token was refused");
            Fault::Unauthenticated.into()
        }
        error if error.is_local() => {
            tracing::error!(%error, "the database");
            Refused::later(COME_BACK, "the portal's database does not answer")
        }
        error => Fault::internal(error).into(),
    }
}

//! Tells pages that are open that something has happened (ADR 0020). The stream says nothing else: the script of
//! the page asks for the page again, as the person who sees it, and takes over what is different.

use super::asked::Asked;
use super::person::session;
use super::state::Console;
use super::streams::StreamPlace;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use culvert_control_server::Listener;
use culvert_portal_base::{Connection, Fault};
use culvert_portal_service::{Caller, ListRequest};
use culvert_store::Role;
use culvert_wire::api::Client;
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use zeroize::Zeroizing;

/// However much happens, a page is asked for again once in that time.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// The interval at which a stream without news shows that it lives, and checks that its session
/// does.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The beginning of a stream: browsers come back after five seconds.
const BEGIN: &str = "retry: 5000\n\n";
const CHANGED: &str = "data: changed\n\n";
const STILL_HERE: &str = ":\n\n";

pub(super) async fn follow(
    State(console): State<Console>,
    connection: Option<Extension<Arc<Connection>>>,
    headers: HeaderMap,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    let session = session(&headers).ok_or(Fault::Unauthenticated)?;
    let caller = console.service.resume_unused(&session).await?;
    caller.note_connection(connection.as_ref().map(|Extension(connection)| connection));
    caller.has_enrolled()?;
    let full = || Fault::TooMany { wait: KEEP_ALIVE };
    let place = console.streams.take(caller.token()).ok_or_else(full)?;
    let listener = console.service.listen();
    // The number of events when the page was made.
    let since: u64 = asked.parse("since")?;
    let is_late = since != listener.count();
    let mut watch = Watch {
        console,
        session,
        role: caller.role(),
        own: None,
        listener,
        next_at: Instant::now(),
        _place: place,
    };
    watch.own = watch.own_clients(&caller).await?;
    let begin = match is_late {
        true => format!("{BEGIN}{CHANGED}"),
        false => BEGIN.to_owned(),
    };
    let begin = stream::iter([Ok::<_, Infallible>(Bytes::from(begin))]);
    let news = stream::unfold(watch, |mut watch| async {
        let said = watch.next().await?;
        Some((Ok(Bytes::from_static(said.as_bytes())), watch))
    });
    let body = Body::from_stream(stream::StreamExt::chain(begin, news));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// One page that follows.
struct Watch {
    console: Console,
    session: Zeroizing<String>,
    role: Role,
    /// The clients of the last message, for a person who sees only their own.
    own: Option<Vec<Client>>,
    listener: Listener,
    /// The earliest time of the next message.
    next_at: Instant,
    _place: StreamPlace,
}

impl Watch {
    /// The next message; none if the session is over or the portal stops.
    async fn next(&mut self) -> Option<&'static str> {
        let beats = timeout(KEEP_ALIVE, self.listener.next()).await;
        match beats {
            Ok(false) => return None,
            Ok(true) => {
                // One message covers all events until then. A portal that stops waits a second for
                // it.
                sleep_until(self.next_at).await;
                self.listener.take();
            }
            Err(_) => {}
        }
        if self.listener.is_over() {
            return None;
        }
        let caller = match self.console.service.resume_unused(&self.session).await {
            Ok(caller) if caller.role() == self.role && !caller.must_enrol() => caller,
            // Another role sees other pages, and who must get a second factor first none.
            Ok(_) | Err(Fault::Unauthenticated) => return None,
            // The page shows what is wrong with the database.
            Err(_) => return Some(self.changed()),
        };
        if beats.is_err() {
            return Some(STILL_HERE);
        }
        let own = self.own_clients(&caller).await.ok()?;
        if self.role == Role::User && own == self.own {
            return Some(STILL_HERE);
        }
        self.own = own;
        Some(self.changed())
    }

    fn changed(&mut self) -> &'static str {
        self.next_at = Instant::now() + AT_MOST_EVERY;
        CHANGED
    }

    /// People who see only their own clients do not learn from the stream about changes of others.
    async fn own_clients(&self, caller: &Caller) -> Result<Option<Vec<Client>>, Fault> {
        if self.role != Role::User {
            return Ok(None);
        }
        let request = ListRequest::default();
        let clients = self.console.service.clients(caller, &request).await?;
        Ok(Some(clients.items))
    }
}

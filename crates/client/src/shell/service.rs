//! The life of a client. With an administrator's token it is connected as long as it runs; without one,
//! commands bring it up and down.

use super::base::Base;
use super::clock::Now;
use super::device_sign_in::SignInEvent;
use super::event_loop::{Closing, EventLoop, LoopExit};
use super::persisted::PersistedState;
use super::rest::Stand;
use super::service_sign_in::ServiceSignIn;
use super::service_socket::ServiceSocket;
use super::watching::{Compared, Watching};
use crate::observer::StatusRequest;
use crate::status::{ServiceState, SettingsStatus, Status};
use crate::{ClientError, Enrolment, Observed, Request, SecretText, SettingsChange, SignIn};
use culvert_base::BootTime;
use culvert_client_core::{Approved, ChangedResources};
use culvert_host::{
    ErrorCode, HostError, ResolverChoice, ResolverMode, Shutdown, SocketError, StateDir,
    WatchRequest, notify_ready, notify_status,
};
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::sleep;

/// The answer to a command if an administrator's token decides.
const ADMINISTRATORS: &str = "it does as the administrator's token says and is up as long as it runs: \
                              stop the service instead (`systemctl stop culvert-client`), or take the \
                              token away";

/// The answer to a process that wants to join an application if there are none.
const NO_APPLICATIONS: &str =
    "the client is down, and knows no rules about applications: `culvert up`";

/// A client.
pub(super) struct Service<R> {
    base: Base,
    socket: ServiceSocket,
    ready: R,
    /// True if `ready` was called.
    is_announced: bool,
    /// The state that it keeps, if it takes commands.
    persisted_state: Option<PersistedState>,
    /// Leftovers of a crash on the host that could not be removed.
    leftovers: Vec<String>,
}

impl<R: FnMut(&str) + Send> Service<R> {
    pub(super) fn new(
        base: Base,
        state: StateDir,
        observed: Observed,
        ready: R,
    ) -> Result<Self, HostError> {
        let persisted_state = match base.settings.enrolment {
            Some(_) => None,
            None => Some(PersistedState::read(state)?),
        };
        let socket = ServiceSocket {
            observed,
            watching: Watching::new(Now::read()),
            sign_in: ServiceSignIn::new(&base),
            settings: persisted_state
                .as_ref()
                .map(|persisted| settings_of(&base, persisted)),
        };
        Ok(Self {
            base,
            socket,
            ready,
            is_announced: false,
            persisted_state,
            leftovers: Vec::new(),
        })
    }

    /// Goes on until `stop` is done. With the administrator's token it ends by itself too.
    pub(super) async fn run(
        mut self,
        stop: impl Future<Output = Shutdown>,
    ) -> Result<(), ClientError> {
        let mut stop = pin!(stop);
        if let Some(enrolment) = self.base.settings.enrolment.clone() {
            let ended = self.session(&enrolment, false, stop.as_mut()).await;
            return ended.map(drop);
        }
        let mut stand = self.first().await;
        while let Some(next) = match stand {
            Stand::Up { is_awaited } => self.be_up(is_awaited, stop.as_mut()).await,
            stand => self.rest(stand, stop.as_mut()).await,
        } {
            stand = next;
        }
        Ok(())
    }

    /// The first state of a run: up if the last run was to be up. Its leftovers on the host are
    /// removed if it is not to be up. Otherwise they stay and keep packets out of the clear until
    /// it is up again.
    async fn first(&mut self) -> Stand {
        let persisted_state = self.persisted_state.as_ref();
        if persisted_state.is_some_and(PersistedState::wants_up) {
            let stand = Stand::Up { is_awaited: false };
            self.announce(&stand.line());
            return stand;
        }
        let is_signed_in =
            persisted_state.is_some_and(|persisted_state| persisted_state.enrolment().is_some());
        self.leftovers = self.base.clean_up().await;
        Stand::after(&Request::Down, is_signed_in)
    }

    /// Says how things are, where they don't say it themselves.
    fn announce(&mut self, line: &str) {
        match self.is_announced {
            false => {
                (self.ready)(line);
                notify_ready(line);
            }
            true => {
                tracing::info!("{line}");
                notify_status(line);
            }
        }
        self.is_announced = true;
    }

    /// Is up until a command says otherwise, or it fails; nothing if it is to end.
    async fn be_up<F: Future<Output = Shutdown>>(
        &mut self,
        is_awaited: bool,
        stop: Pin<&mut F>,
    ) -> Option<Stand> {
        let enrolment = self
            .persisted_state
            .as_ref()
            .and_then(PersistedState::enrolment)
            .cloned();
        let Some(enrolment) = enrolment else {
            return Some(Stand::SignedOut);
        };
        let ended = self.session(&enrolment, is_awaited, stop).await;
        ended.unwrap_or_else(|error| Some(Stand::after_error(&error)))
    }

    /// Goes up and, in the end, down. Says where to it was told to go; nothing where it is to end.
    async fn session<F: Future<Output = Shutdown>>(
        &mut self,
        enrolment: &Enrolment,
        is_awaited: bool,
        mut stop: Pin<&mut F>,
    ) -> Result<Option<Stand>, ClientError> {
        let takes_commands = self.persisted_state.is_some();
        let mut log = |summary: &str| tracing::info!("{summary}");
        let ready: &mut (dyn FnMut(&str) + Send) = match takes_commands {
            true => &mut log,
            false => &mut self.ready,
        };
        let base = &self.base;
        let socket = &mut self.socket;
        let mut event_loop =
            EventLoop::start(base, enrolment, is_awaited, takes_commands, socket, ready).await?;
        let mut closing = Closing::Over;
        let ended = loop {
            let asked = match event_loop.run(stop.as_mut()).await {
                Ok(LoopExit::Stop(Shutdown::ForGood)) => break Ok(None),
                Ok(LoopExit::Stop(Shutdown::ForRestart)) => {
                    closing = Closing::Restart;
                    break Ok(None);
                }
                Err(error) => {
                    // A client that ended by a fault is to run again, and one that the portal will not have has lost its
                    // access: nothing goes past the tunnel that belongs into it.
                    if !(error.is_of_portal() && event_loop.releases_ended_access()) {
                        closing = Closing::Fault;
                    }
                    break Err(error);
                }
                Ok(LoopExit::SignedIn(approved)) => {
                    let taken = take_approved(self.persisted_state.as_mut(), approved);
                    let next = taken.as_ref().ok().cloned();
                    event_loop.sign_in().finish(taken.map(drop));
                    match next {
                        Some(next) => break Ok(Some(next)),
                        None => continue,
                    }
                }
                Ok(LoopExit::Command(asked)) => asked,
            };
            let taken = allows(&self.base, &asked.request).and_then(|()| {
                let next = take(self.persisted_state.as_mut(), &asked.request)?;
                event_loop.sign_in().take(&asked.request)?;
                if let Some(persisted) = &self.persisted_state {
                    event_loop.set_settings(settings_of(&self.base, persisted));
                }
                Ok(next)
            });
            match taken {
                Err(why) => refuse(asked, why),
                Ok(_) if stays_up(&asked.request) => event_loop.answer(asked),
                Ok(next) => {
                    let status = going_down(event_loop.status());
                    let _unheard = asked.answer.send(Ok(status));
                    break Ok(Some(next));
                }
            }
        };
        let status = going_down(event_loop.status());
        let devices = event_loop.into_devices();
        let answering = answer_all(&mut self.socket, &status);
        tokio::select! {
            () = devices.close(closing, &self.base.settings.interface) => {}
            () = answering => {}
        }
        ended
    }

    /// Waits for a command that leads elsewhere; nothing where it is to end.
    async fn rest<F: Future<Output = Shutdown>>(
        &mut self,
        stand: Stand,
        mut stop: Pin<&mut F>,
    ) -> Option<Stand> {
        let line = stand.line();
        self.announce(&line);
        // Everything that was told of resources is void.
        let mut resources = ChangedResources::All;
        loop {
            self.socket.observed.beat(Some(line.clone()));
            self.look_at(&stand, &mut resources);
            // Frequent requests must not delay the next attempt.
            let wait = stand
                .again()
                .map(|at| at.saturating_since(Now::read().boot));
            if wait == Some(Duration::ZERO) {
                return Some(Stand::Up { is_awaited: false });
            }
            let longest = self.socket.observed.longest_rest();
            let look = self.socket.watching.due();
            let look = look.map(|at| at.saturating_since(Now::read().boot));
            let waits = [wait, look].into_iter().flatten();
            let wait = waits.fold(longest, Duration::min);
            let asked = tokio::select! {
                biased;
                // Nothing is set up: however it ends, it leaves the same.
                _ = stop.as_mut() => return None,
                asked = self.socket.observed.next() => asked,
                event = self.socket.sign_in.next() => match self.signed_in(event) {
                    Some(next) => return Some(next),
                    None => continue,
                },
                () = sleep(wait) => continue,
            };
            if let Some(request) = asked.watcher {
                self.answer_watcher(request, &stand, &mut resources);
                continue;
            }
            let next = self.take_at_rest(&asked.request, &stand);
            match next {
                Err(why) => refuse(asked, why),
                Ok(next) => {
                    let goes_up = matches!(next, Stand::Up { .. });
                    if next != stand && !goes_up {
                        self.leftovers = self.base.clean_up().await;
                    }
                    let _unheard = asked.answer.send(Ok(self.status(&next)));
                    if next != stand {
                        return Some(next);
                    }
                }
            }
        }
    }

    /// Takes a request, and says where it leads; otherwise why it is not taken.
    fn take_at_rest(&mut self, request: &Request, stand: &Stand) -> Result<Stand, SocketError> {
        match request {
            Request::Status | Request::Watch(_) | Request::Ask(_) | Request::Log => {
                return Ok(stand.clone());
            }
            Request::Join(_) => return Err(ErrorCode::Down.because(NO_APPLICATIONS)),
            _ => {}
        }
        allows(&self.base, request)?;
        let next = take(self.persisted_state.as_mut(), request)?;
        self.socket.sign_in.take(request)?;
        let persisted = self.persisted_state.as_ref();
        self.socket.settings = persisted.map(|persisted| settings_of(&self.base, persisted));
        Ok(
            match ServiceSignIn::is_for(request) || is_of_settings(request) {
                true => stand.clone(),
                false => next,
            },
        )
    }

    /// Goes up with the account that somebody signed in as.
    fn signed_in(&mut self, event: SignInEvent) -> Option<Stand> {
        let SignInEvent::Approved(approved) = event else {
            return None;
        };
        let taken = take_approved(self.persisted_state.as_mut(), approved);
        let next = taken.as_ref().ok().cloned();
        self.socket.sign_in.finish(taken.map(drop));
        next
    }

    /// Looks for changes if somebody watches. `resources` is taken then.
    fn look_at(&mut self, stand: &Stand, resources: &mut ChangedResources) {
        let now = Now::read().boot;
        if self
            .socket
            .watching
            .begin_look(self.socket.observed.watchers(), now)
        {
            self.look(stand, resources, now);
        }
    }

    fn look(&mut self, stand: &Stand, resources: &mut ChangedResources, now: BootTime) {
        let compared = Compared::at_rest(&self.status(stand), resources.take());
        self.socket
            .watching
            .look(self.socket.observed.watchers(), compared, now);
    }

    fn answer_watcher(
        &mut self,
        request: WatchRequest,
        stand: &Stand,
        resources: &mut ChangedResources,
    ) {
        let now = Now::read().boot;
        let is_due = self
            .socket
            .watching
            .begin_look(self.socket.observed.watchers(), now);
        if is_due || request.watch.after.is_none() {
            self.look(stand, resources, now);
        }
        self.socket
            .watching
            .answer_at_rest(request, &self.status(stand));
    }

    fn status(&self, stand: &Stand) -> Status {
        let mut status = self.base.status_at_rest(stand.state(), stand.line());
        status.service.trouble = stand.trouble().cloned();
        self.socket.report(&mut status.service);
        let persisted_state = self
            .persisted_state
            .as_ref()
            .and_then(PersistedState::enrolment);
        if let Some(enrolment) = persisted_state {
            status.portal_url.clone_from(&enrolment.portal.url);
            status.portal_pin = enrolment.portal.pin.map(|pin| pin.to_string());
        }
        status.problems.clone_from(&self.leftovers);
        status
    }
}

/// Takes a command, and says where it leads; otherwise why it is not taken.
fn take(
    persisted_state: Option<&mut PersistedState>,
    request: &Request,
) -> Result<Stand, SocketError> {
    let persisted_state =
        persisted_state.ok_or_else(|| ErrorCode::ControlledByToken.because(ADMINISTRATORS))?;
    persisted_state
        .take(request)
        .map_err(|error| error.code().because(error.to_string()))?;
    Ok(Stand::after(request, persisted_state.enrolment().is_some()))
}

/// Takes the account that somebody signed in as.
fn take_approved(
    persisted_state: Option<&mut PersistedState>,
    approved: Approved,
) -> Result<Stand, String> {
    let token = SecretText::new(approved.token);
    let request = Request::SignIn(SignIn::Token(token));
    take(persisted_state, &request).map_err(|error| error.text)
}

/// True for commands that leave a client that is up as it is.
const fn stays_up(request: &Request) -> bool {
    matches!(request, Request::Up) || ServiceSignIn::is_for(request) || is_of_settings(request)
}

const fn is_of_settings(request: &Request) -> bool {
    matches!(request, Request::Settings(_))
}

/// The settings as they are in force: the administrator's options come first.
fn settings_of(base: &Base, persisted: &PersistedState) -> SettingsStatus {
    SettingsStatus {
        dns: persisted.wants_dns() && !rules_names_out(base),
    }
}

fn rules_names_out(base: &Base) -> bool {
    base.settings.dns == ResolverChoice::Mode(ResolverMode::Off)
}

/// Checks that a command does not ask for more than the administrator's options leave open.
fn allows(base: &Base, request: &Request) -> Result<(), SocketError> {
    let wants_dns = matches!(
        request,
        Request::Settings(SettingsChange { dns: Some(true) })
    );
    match wants_dns && rules_names_out(base) {
        true => Err(ErrorCode::DnsOff
            .because("the client was started with `--dns off`: an administrator changes that")),
        false => Ok(()),
    }
}

fn refuse(asked: StatusRequest, why: SocketError) {
    let _unheard = asked.answer.send(Err(why));
}

fn going_down(status: Status) -> Status {
    let mut status = status;
    status.service.state = ServiceState::GoingDown;
    status.ready = false;
    status.not_ready_because = Some("it is going down".to_owned());
    status
}

/// Answers until this is dropped: requests for the state with the state, and commands with the advice to
/// repeat them in a moment.
async fn answer_all(socket: &mut ServiceSocket, status: &Status) {
    let ServiceSocket {
        observed, watching, ..
    } = socket;
    if observed.watchers().is_watched() {
        let compared = Compared::at_rest(status, ChangedResources::All);
        watching.look(observed.watchers(), compared, Now::read().boot);
    }
    loop {
        observed.beat(status.not_ready_because.clone());
        let rest = observed.longest_rest();
        let asked = tokio::select! {
            asked = observed.next() => asked,
            () = sleep(rest) => continue,
        };
        match (asked.watcher, &asked.request) {
            (Some(request), _) => watching.answer_at_rest(request, status),
            (None, Request::Status | Request::Watch(_) | Request::Ask(_)) => {
                let _unheard = asked.answer.send(Ok(status.clone()));
            }
            (None, _) => {
                let why = "it is going down: try again in a moment";
                let _unheard = asked.answer.send(Err(ErrorCode::GoingDown.because(why)));
            }
        }
    }
}

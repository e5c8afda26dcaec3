//! Sign-in of this machine with a browser, with its requests to the portal.

use super::clock::Now;
use super::portal_api::PortalApi;
use culvert_client_core::{
    Approved, BrowserSignIn, SignInFailure, SignInFault, SignInRequest, SignInStatus,
};
use culvert_link::Way;
use culvert_policy::readable_name;
use culvert_wire::api::{DeviceAnswer, DeviceAsk, DeviceBegun, NewDevice};
use culvert_wire::token::Portal;
use std::future::pending;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;

/// Characters of the machine's name that a portal takes.
const MAX_MACHINE_CHARS: usize = 60;

/// Signs this machine in with a browser: at one portal at a time, by one request at a time.
#[derive(Debug)]
pub struct DeviceSignIn {
    core: BrowserSignIn,
    machine: String,
    way: Way,
    /// The connection to the portal, between two requests.
    api: Option<PortalApi>,
    running: Option<Running>,
}

/// An event of a sign-in.
#[derive(Debug)]
pub enum SignInEvent {
    /// The state is another.
    Changed,
    /// Somebody has approved the machine. [`DeviceSignIn::finish`] is to follow.
    Approved(Approved),
}

/// A request that is under way. It ends when this is dropped.
#[derive(Debug)]
struct Running(JoinHandle<(PortalApi, Reply)>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
enum Reply {
    Begun(Result<DeviceBegun, SignInFault>),
    Answer(Result<DeviceAnswer, SignInFault>),
}

impl DeviceSignIn {
    /// Without a sign-in. `name` is shown to the person who approves the machine.
    #[must_use]
    pub fn new(name: &str, way: Way) -> Self {
        Self {
            core: BrowserSignIn::default(),
            machine: machine(name),
            way,
            api: None,
            running: None,
        }
    }

    /// Begins, and gives up an earlier one.
    pub fn begin(&mut self, portal: Portal) {
        self.running = None;
        self.core.begin(portal, Now::read().boot);
    }

    /// Gives it up.
    pub fn cancel(&mut self) {
        self.running = None;
        self.api = None;
        self.core.cancel();
    }

    /// The state; none if there is nothing to report.
    #[must_use]
    pub fn status(&self) -> Option<SignInStatus> {
        self.core.status(Now::read().boot)
    }

    /// The next event; it never comes without a sign-in. May be dropped and called again without loss. It must be called
    /// again every few seconds, because timers stand still while the machine sleeps.
    pub async fn next(&mut self) -> SignInEvent {
        loop {
            if let Some(running) = &mut self.running {
                let replied = (&mut running.0).await;
                self.running = None;
                return self.handle(replied);
            }
            let now = Now::read().boot;
            if self.core.handle_timeout(now) {
                return SignInEvent::Changed;
            }
            if let Some(request) = self.core.poll_request(now) {
                self.send(request);
                continue;
            }
            match self.core.poll_timeout() {
                Some(at) => sleep(at.saturating_since(now)).await,
                None => pending().await,
            }
        }
    }

    /// Ends a sign-in that was approved: its token is in use, or the reason why it can't be.
    pub fn finish(&mut self, used: Result<(), String>) {
        let used = used.map_err(|text| SignInFault {
            code: SignInFailure::NotAPortal,
            text,
        });
        self.api = None;
        self.core.finish(used);
    }

    fn send(&mut self, request: SignInRequest) {
        let Some(portal) = self.core.portal() else {
            return;
        };
        let retained = self.api.take().filter(|api| api.portal() == portal);
        let mut api = retained.unwrap_or_else(|| PortalApi::new(portal.clone(), self.way.clone()));
        let machine = self.machine.clone();
        let task = tokio::spawn(async move {
            let reply = match request {
                SignInRequest::Begin => {
                    Reply::Begun(api.post("/device-sign-ins", &NewDevice { machine }).await)
                }
                SignInRequest::Poll(code) => {
                    let device_code = code.to_string();
                    let ask = DeviceAsk { device_code };
                    let answer = api.post("/device-sign-ins/ask", &ask).await;
                    drop(zeroize::Zeroizing::new(ask.device_code));
                    Reply::Answer(answer)
                }
            };
            (api, reply)
        });
        self.running = Some(Running(task));
    }

    fn handle(&mut self, replied: Result<(PortalApi, Reply), JoinError>) -> SignInEvent {
        let now = Now::read().boot;
        let reply = match replied {
            Ok((api, reply)) => {
                self.api = Some(api);
                reply
            }
            Err(error) => {
                let fault = SignInFault {
                    code: SignInFailure::Unreachable,
                    text: format!("the request to the portal ended: {error}; sign in again"),
                };
                self.core.finish(Err(fault));
                return SignInEvent::Changed;
            }
        };
        let approved = match reply {
            Reply::Begun(begun) => {
                self.core.handle_begun(begun, now);
                None
            }
            Reply::Answer(answer) => self.core.handle_answer(answer, now),
        };
        approved.map_or(SignInEvent::Changed, SignInEvent::Approved)
    }
}

/// The machine's name as the portal takes it.
fn machine(name: &str) -> String {
    let name = readable_name(name.trim());
    let name: String = name.chars().take(MAX_MACHINE_CHARS).collect();
    match name.trim().is_empty() {
        true => "a machine without a name".to_owned(),
        false => name,
    }
}

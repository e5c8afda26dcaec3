//! The relay beside a portal (`--relay`): a process of its own, which is started again whenever it ends.
//!
//! It is `culvert relay run` with a token that the portal makes for it and gives it through a pipe. The pipe stays open:
//! the relay ends when the portal closes it, and also when the portal is killed.

mod child;

use crate::exit::{Failure, Status};
use crate::log_level::LogLevel;
use child::{Child, Command};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use culvert_host::StateDir;
use culvert_ids::{AccountId, TokenId};
use culvert_portal::Portal;
use culvert_portal_service::issue_relay_token;
use culvert_relay::{PortRange, RelayError, TlsListen, ask_status};
use culvert_store::Store;
use culvert_wire::api::OwnRelayStatus;
use culvert_wire::token::Portal as PortalUrl;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use zeroize::Zeroizing;

/// The directory of the relay's machine id and status socket, inside the portal's state directory.
const DIRECTORY: &str = "relay";

/// The file with the id of the token that the relay has had last. It holds no secret.
const TOKEN_ID_FILE: &str = "token-id";

/// The pause before a relay that ended is started again: the first one, and the longest, to which it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// After this time without an end, the pause is the first one again.
const STEADY: Duration = Duration::from_secs(60);

/// The interval at which the relay is asked for its state.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The time that a relay has to become ready before the reason is a problem: longer than two attempts to connect.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// For how long a relay drains before it ends: the leading portal gives its gateways another relay meanwhile, if
/// there is one.
const DRAIN: Duration = Duration::from_secs(1);

/// The exit status of a relay whose token is not accepted.
const NOT_ENROLLED: i32 = 3;

/// The options of the relay beside a portal.
#[derive(Debug, Args)]
pub(super) struct OwnRelayArguments {
    /// Run a relay beside the portal, for clients and gateways that are both behind NAT
    ///
    /// It is a process of its own. It makes no token necessary, and is started again if it ends. A firewall must let
    /// its UDP ports in: 3478 and 3479-3542, unless they are others.
    #[arg(long, env = "CULVERT_PORTAL_RELAY", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    relay: bool,

    /// Main UDP port of that relay
    #[arg(long, value_name = "PORT", env = "CULVERT_PORTAL_RELAY_PORT", default_value_t = 3_478, value_parser = crate::whole_number::whole_number(1..=u16::MAX))]
    relay_port: u16,

    /// UDP ports of gateways at that relay, one for each gateway that uses it; at most 1024
    #[arg(
        long,
        value_name = "FIRST-LAST",
        env = "CULVERT_PORTAL_RELAY_GATEWAY_PORTS",
        default_value = "3479-3542"
    )]
    relay_gateway_ports: PortRange,

    /// Address at which clients and gateways reach that relay; may be repeated
    ///
    /// Otherwise the address in --url if no interface of this machine has it, and else those of its interfaces.
    #[arg(
        long,
        value_name = "IP",
        env = "CULVERT_PORTAL_RELAY_ADDRESS",
        value_delimiter = ','
    )]
    relay_address: Vec<IpAddr>,

    /// TCP port of that relay for TLS, or ADDR:PORT, or "off" [default: 443 where it can be had]
    ///
    /// Clients and gateways whose networks block UDP reach the relay there. If the portal has port 443, choose another
    /// one, such as 8444.
    #[arg(long, value_name = "PORT", env = "CULVERT_PORTAL_RELAY_TLS")]
    relay_tls: Option<TlsListen>,
}

impl OwnRelayArguments {
    /// The relay that was asked for.
    pub(super) fn plan(self, log_level: LogLevel) -> Result<Option<PlannedRelay>, Failure> {
        if !self.relay {
            return Ok(None);
        }
        if self.relay_gateway_ports.contains(self.relay_port) {
            let error = RelayError::SamePort(self.relay_port).to_string();
            let error = error
                .replace("--port", "--relay-port")
                .replace("--gateway-ports", "--relay-gateway-ports");
            return Err(Failure::new(Status::Usage, error));
        }
        let ports = format!("{} and {}", self.relay_port, self.relay_gateway_ports);
        let status = OwnRelayStatus {
            ports,
            ..OwnRelayStatus::default()
        };
        Ok(Some(PlannedRelay {
            arguments: self,
            log_level,
            status: watch::Sender::new(status),
        }))
    }
}

/// A relay that is to run once the portal does.
pub(super) struct PlannedRelay {
    arguments: OwnRelayArguments,
    log_level: LogLevel,
    status: watch::Sender<OwnRelayStatus>,
}

impl PlannedRelay {
    /// Its state, for the portal.
    pub(super) fn status(&self) -> watch::Receiver<OwnRelayStatus> {
        self.status.subscribe()
    }

    /// A line for the person who starts the portal.
    pub(super) fn greeting(&self) -> String {
        let ports = &self.status.borrow().ports;
        let tls = self.arguments.relay_tls.and_then(TlsListen::port);
        let tls = tls.map_or_else(String::new, |port| format!(" and TCP port {port}"));
        format!(
            "Relay: UDP ports {ports}{tls}, which a firewall must let in beside the portal's own\n"
        )
    }

    /// Starts it beside a portal that runs.
    pub(super) fn start(
        self,
        portal: &Portal,
        store: Arc<dyn Store>,
        state_dir: &Path,
    ) -> Result<OwnRelay, Failure> {
        let directory = std::path::absolute(state_dir)
            .map_err(|error| Failure::io(state_dir.display(), &error))?
            .join(DIRECTORY);
        let state =
            StateDir::open(&directory).map_err(|error| Failure::new(Status::Failed, error))?;
        let command = Command {
            port: self.arguments.relay_port,
            gateway_ports: self.arguments.relay_gateway_ports,
            addresses: self.addresses(portal, store.is_shared()),
            tls: self.arguments.relay_tls.unwrap_or_else(usual_tls),
            log_level: self.log_level,
            status_socket: directory.join("relay.sock"),
            directory,
        };
        let supervisor = Supervisor {
            state,
            store,
            account: portal.account(),
            portal: reached_here(portal),
            status: self.status,
            command,
        };
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(supervisor.run(stopped));
        Ok(OwnRelay { stop, task })
    }

    /// The addresses that the relay is to tell, if not those of its interfaces. A URL that several portals have in common
    /// may lead to another one.
    fn addresses(&self, portal: &Portal, is_shared: bool) -> Vec<IpAddr> {
        let given = &self.arguments.relay_address;
        if !given.is_empty() || is_shared {
            return given.clone();
        }
        let in_url = address_in(&portal.whereabouts().url);
        let is_elsewhere = |ip: &IpAddr| UdpSocket::bind((*ip, 0)).is_err();
        in_url.filter(is_elsewhere).into_iter().collect()
    }
}

/// A relay that runs, or is about to.
pub(super) struct OwnRelay {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl OwnRelay {
    /// Ends it: it drains first.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        // It ends within seconds, whatever the relay does.
        let _panicked = self.task.await;
    }
}

/// Starts the relay again and again, and tells how it is.
struct Supervisor {
    state: StateDir,
    store: Arc<dyn Store>,
    account: AccountId,
    /// The portal as a process of this machine reaches it.
    portal: PortalUrl,
    status: watch::Sender<OwnRelayStatus>,
    command: Command,
}

/// The reason why a relay no longer runs.
enum Ended {
    /// The portal ends.
    Asked,
    /// By itself, or it did not start; `token_is_refused` if it needs another one.
    Failed { why: String, token_is_refused: bool },
}

impl Supervisor {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut pause = PAUSE_FIRST;
        let mut token = None;
        loop {
            let began = Instant::now();
            let (why, token_is_refused) = match self.run_once(&mut token, &mut stop).await {
                Ended::Asked => return,
                Ended::Failed {
                    why,
                    token_is_refused,
                } => (why, token_is_refused),
            };
            if token_is_refused {
                token = None;
            }
            if began.elapsed() >= STEADY {
                pause = PAUSE_FIRST;
            }
            let again_s = pause.as_secs();
            tracing::error!(
                why,
                again_s,
                "the relay beside the portal has ended and is started again"
            );
            self.status.send_modify(|status| {
                status.ready = false;
                status.problems = vec![why];
            });
            tokio::select! {
                () = sleep(pause) => {}
                () = asked(&mut stop) => return,
            }
            pause = (pause * 2).min(PAUSE_MOST);
        }
    }

    async fn run_once(
        &self,
        token: &mut Option<Zeroizing<String>>,
        stop: &mut watch::Receiver<bool>,
    ) -> Ended {
        let failed = |why: String| Ended::Failed {
            why,
            token_is_refused: false,
        };
        if token.is_none() {
            match self.issue_token().await {
                Ok(issued) => *token = Some(issued),
                Err(why) => return failed(why),
            }
        }
        let token = token.as_ref().map_or("", |token| token.as_str());
        let mut child = match self.command.start(token).await {
            Ok(child) => child,
            Err(error) => return failed(format!("it can't be started: {error}")),
        };
        let began = Instant::now();
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = child.ended() => {
                    return Ended::Failed {
                        token_is_refused: ended.status == Some(NOT_ENROLLED),
                        why: ended.why,
                    };
                }
                () = asked(stop) => {
                    stop_child(child).await;
                    return Ended::Asked;
                }
                _ = look.tick() => self.look(began).await,
            }
        }
    }

    /// A token for the relay. The one of an earlier start is deleted.
    async fn issue_token(&self) -> Result<Zeroizing<String>, String> {
        let before = self.state.read(TOKEN_ID_FILE).ok().flatten();
        let before = before.and_then(|id| {
            let id = std::str::from_utf8(id.expose()).ok()?;
            id.trim().parse::<TokenId>().ok()
        });
        let store = self.store.as_ref();
        let issued = issue_relay_token(store, self.account, self.portal.clone(), before);
        let issued = issued
            .await
            .map_err(|error| format!("it gets no token: {error}"))?;
        let id = issued.bearer.id.to_string();
        if let Err(error) = self.state.write(TOKEN_ID_FILE, id.as_bytes()) {
            tracing::warn!(%error, "the relay's token will stay after its end; revoke it then");
        }
        Ok(issued.expose())
    }

    /// Asks the relay how it is.
    async fn look(&self, began: Instant) {
        let Ok(told) = ask_status(&self.command.status_socket).await else {
            if began.elapsed() >= READY_WITHIN {
                let path = self.command.status_socket.display();
                let problem = format!("it does not answer at {path}");
                self.status.send_modify(|status| {
                    status.ready = false;
                    status.problems = vec![problem];
                });
            }
            return;
        };
        let mut problems = told.problems;
        let is_late = began.elapsed() >= READY_WITHIN;
        let why = told.not_ready_because.filter(|_| is_late);
        problems.extend(why.map(|why| format!("it is not ready: {why}")));
        self.status.send_if_modified(|status| {
            let now = OwnRelayStatus {
                relay: told.relay,
                ready: told.ready,
                addresses: told.addresses,
                ports: status.ports.clone(),
                problems,
            };
            let is_other = *status != now;
            *status = now;
            is_other
        });
    }
}

/// Has the relay drain, and then end.
async fn stop_child(mut child: Child) {
    child.drain();
    tokio::select! {
        () = sleep(DRAIN) => {}
        _ = child.ended() => return,
    }
    child.end().await;
}

/// Returns once the portal ends.
async fn asked(stop: &mut watch::Receiver<bool>) {
    // The portal is gone if nobody can ask any more.
    let _gone = stop.wait_for(|stop| *stop).await;
}

/// Port 443 if it can be had. A portal without privileges has no TLS then, which is no fault of the relay.
fn usual_tls() -> TlsListen {
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, TlsListen::USUAL_PORT)) {
        Ok(_) => TlsListen::Port(TlsListen::USUAL_PORT),
        Err(_) => TlsListen::Off,
    }
}

/// The portal as a process of this machine reaches it: where others find it, it may not reach itself.
fn reached_here(portal: &Portal) -> PortalUrl {
    let address = match portal.address() {
        any if any.ip().is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), any.port())
        }
        address => address,
    };
    PortalUrl {
        url: format!("https://{address}"),
        pin: Some(portal.pin()),
    }
}

/// The address in `https://ADDRESS[:PORT]`, if it has no name.
fn address_in(url: &str) -> Option<IpAddr> {
    let authority = url.strip_prefix("https://")?;
    let address = authority.parse::<SocketAddr>().map(|at| at.ip());
    let alone = authority.trim_start_matches('[').trim_end_matches(']');
    address.or_else(|_| alone.parse()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_url_is_found_with_and_without_a_port() {
        for (url, address) in [
            ("https://203.0.113.7", Some("203.0.113.7")),
            ("https://203.0.113.7:8443", Some("203.0.113.7")),
            ("https://[2001:db8::7]", Some("2001:db8::7")),
            ("https://[2001:db8::7]:8443", Some("2001:db8::7")),
            ("https://portal.example:8443", None),
            ("https://portal.example", None),
        ] {
            let expected = address.map(|address| address.parse().unwrap());
            assert_eq!(address_in(url), expected, "{url}");
        }
    }
}

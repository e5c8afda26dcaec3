//! The one task that owns the core, and its parts. The files with `impl EventLoop` carry out one kind of event each.

mod announcer;
mod answering;
mod devices;
mod host_events;
mod host_wish;
mod packets;
mod portal_events;
mod report;
mod streams;
mod watchers;

pub(super) use devices::Closing;

use super::applications::{GuardEvent, Joining};
use super::base::{Base, core, resolver_control};
use super::clock::Now;
use super::destinations_file;
use super::device_sign_in::SignInEvent;
use super::dns::{DnsEvent, Server, ask_upstream};
use super::resolver::routed;
use super::service_sign_in::ServiceSignIn;
use super::service_socket::ServiceSocket;
use crate::observer::StatusRequest;
use crate::status::SettingsStatus;
use crate::{ClientError, Enrolment, Request};
use announcer::Announcer;
use answering::Answering;
use culvert_client_core::{Approved, Client, Ending, Output};
use culvert_control::Repeats;
use culvert_datapath::Unrouted;
use culvert_dns::Via;
use culvert_host::{NetworkChange, Shutdown};
use culvert_ids::GatewayId;
use culvert_link::{PortalEvent, write_log};
use culvert_relay_tls::StreamNews;
use devices::Devices;
use host_wish::HostWish;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

/// The core and everything that it speaks with, from going up to going down.
pub(super) struct EventLoop<'a> {
    base: &'a Base,
    socket: &'a mut ServiceSocket,
    core: Client<Unrouted>,
    devices: Devices,
    portal: PortalState,
    host_wish: HostWish,
    answering: Answering,
    announcer: Announcer<'a>,
}

/// The portal as this loop knows it.
struct PortalState {
    enrolment: Enrolment,
    /// Somebody waits for the client to come up.
    is_awaited: bool,
    /// Troubles that were logged.
    repeats: Repeats,
}

/// The reason for which the loop was left.
pub(super) enum LoopExit {
    /// The client is to end.
    Stop(Shutdown),
    /// It is told to do something else.
    Command(StatusRequest),
    /// Somebody has signed this machine in.
    SignedIn(Approved),
}

/// An event that woke the loop.
enum Event {
    Stop(Shutdown),
    Portal(PortalEvent),
    Packet(Unrouted),
    Dns(DnsEvent),
    Asked(StatusRequest),
    SignIn(SignInEvent),
    Network(NetworkChange),
    HostApplied,
    /// The portal's name was looked up.
    PortalAddresses,
    Resolver,
    Guard(GuardEvent),
    /// IPv4 addresses are reached in another way.
    Nat64,
    /// Messages about paths may wait.
    Paths,
    /// A stream to a relay is open, or has ended.
    Stream(StreamNews<GatewayId>),
    DeviceEnded(Option<culvert_engine::EngineError>),
    BootTime,
}

impl<'a> EventLoop<'a> {
    /// Goes up: makes the interface, and sets out to the portal. `is_awaited` says that somebody waits to
    /// hear what comes of it, `is_announced` that the service manager knows that the client has started.
    pub(super) async fn start(
        base: &'a Base,
        enrolment: &Enrolment,
        is_awaited: bool,
        is_announced: bool,
        socket: &'a mut ServiceSocket,
        ready: &'a mut (dyn FnMut(&str) + Send),
    ) -> Result<Self, ClientError> {
        culvert_host::require_net_admin()?;
        culvert_host::require_tun_device()?;
        let control = resolver_control(&base.settings).await?;
        let answering = Answering::new();
        let devices = Devices::start(base, enrolment, control, answering.events()).await?;
        let mut core = core(base, &devices.portal.urls(), Now::read())?;
        core.set_remembered(destinations_file::read(&devices.state, enrolment));
        let waits_for_ready = base.settings.exit_when_unreachable;
        Ok(Self {
            base,
            socket,
            core,
            devices,
            portal: PortalState {
                enrolment: enrolment.clone(),
                is_awaited,
                repeats: Repeats::default(),
            },
            host_wish: HostWish::default(),
            answering,
            announcer: Announcer::new(ready, waits_for_ready, is_announced),
        })
    }

    /// True if destinations of access that ended leave by the host's own routes.
    pub(super) const fn releases_ended_access(&self) -> bool {
        self.core.releases_ended_access()
    }

    /// The sign-in that the users of the socket command.
    pub(super) const fn sign_in(&mut self) -> &mut ServiceSignIn {
        &mut self.socket.sign_in
    }

    /// Works by these settings from now on.
    pub(super) fn set_settings(&mut self, settings: SettingsStatus) {
        self.socket.settings = Some(settings);
        self.want_resolver();
    }

    /// The devices, which are to be closed.
    pub(super) fn into_devices(self) -> Devices {
        self.devices
    }

    /// Goes on until `stop` is done, until it is told to do something else, or until the client can't go
    /// on. It may be called again where it was told something that is not done.
    pub(super) async fn run(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = Shutdown>>,
    ) -> Result<LoopExit, ClientError> {
        self.core.handle_timeout(Now::read().boot);
        loop {
            self.execute()?;
            self.tell();
            let rest = self.rest();
            let event = tokio::select! {
                biased;
                shutdown = stop.as_mut() => Event::Stop(shutdown),
                ended = &mut self.devices.tunnel.ended => Event::DeviceEnded(ended.unwrap_or(None)),
                event = self.devices.portal.next() => Event::Portal(event),
                Some(change) = self.devices.host.changed.recv() => Event::Network(change),
                Ok(()) = self.devices.host.state.changed() => Event::HostApplied,
                Ok(()) = self.devices.portal_addresses.changed() => Event::PortalAddresses,
                Ok(()) = self.devices.resolver.state.changed() => Event::Resolver,
                Ok(()) = self.devices.nat64.found.changed() => Event::Nat64,
                Some(event) = self.devices.firewall.events.recv() => Event::Guard(event),
                asked = self.socket.observed.next() => Event::Asked(asked),
                event = self.socket.sign_in.next() => Event::SignIn(event),
                () = sleep(rest) => Event::BootTime,
                () = self.devices.tunnel.path_messages.woken() => Event::Paths,
                news = self.devices.streams.next() => Event::Stream(news),
                Some(packet) = self.devices.tunnel.unrouted.recv() => Event::Packet(packet),
                Some(event) = self.answering.received.recv() => Event::Dns(event),
            };
            match event {
                Event::Stop(shutdown) => {
                    self.keep_news();
                    return Ok(LoopExit::Stop(shutdown));
                }
                Event::DeviceEnded(Some(error)) => return Err(error.into()),
                Event::DeviceEnded(None) => return Err(ClientError::InterfaceGone),
                Event::Portal(event) => self.handle_portal(event)?,
                Event::Paths => self.handle_path_messages(),
                Event::Stream(news) => self.handle_stream(news),
                Event::Packet(packet) => self.handle_packets(packet),
                Event::Dns(event) => self.handle_dns(event),
                Event::Asked(asked) => {
                    if let Some(command) = self.handle_asked(asked)? {
                        self.keep_news();
                        return Ok(LoopExit::Command(command));
                    }
                }
                Event::SignIn(SignInEvent::Approved(approved)) => {
                    return Ok(LoopExit::SignedIn(approved));
                }
                Event::SignIn(SignInEvent::Changed) => {}
                Event::Network(change) => self.handle_network(change),
                Event::HostApplied => {
                    self.devices.host.state.mark_unchanged();
                    // The interface may have come up, and the sockets with it.
                    self.note_port(self.devices.tunnel.port()?);
                    self.bind_dns().await;
                }
                Event::PortalAddresses => {
                    self.devices.portal_addresses.mark_unchanged();
                    self.want_host();
                }
                Event::Resolver => self.take_upstreams(),
                Event::Nat64 => {
                    let prefix = *self.devices.nat64.found.borrow_and_update();
                    self.core.handle_nat64(prefix, Now::read().boot);
                }
                Event::Guard(GuardEvent { rules, result }) => {
                    self.host_wish.set_awaits_guard(false);
                    self.core.handle_guard(rules, result, Now::read().boot);
                    // With the routes that these let the core ask for.
                    self.execute()?;
                    self.want_host();
                }
                Event::BootTime => self.handle_time().await?,
            }
        }
    }

    /// Does what is asked for, and returns what leads out of the loop.
    fn handle_asked(&mut self, asked: StatusRequest) -> Result<Option<StatusRequest>, ClientError> {
        if let Some(request) = asked.watcher {
            self.answer_watcher(request);
            return Ok(None);
        }
        // The answer is about this moment, not about the last report of up to 250 ms ago.
        self.hear_of_peers(Now::read())?;
        match &asked.request {
            Request::Status | Request::Watch(_) | Request::Log => self.answer(asked),
            Request::Ask(resource) => {
                self.core.handle_ask(*resource, Now::read().boot);
                self.answer(asked);
            }
            Request::Join(application) => {
                let joining = Joining {
                    application: application.clone(),
                    peer: asked.peer,
                    process: asked.process,
                    status: self.status(),
                    answer: asked.answer,
                };
                self.devices
                    .firewall
                    .join(joining, &self.core.applications());
            }
            Request::Up
            | Request::Down
            | Request::SignIn(_)
            | Request::CancelSignIn
            | Request::SignOut
            | Request::Settings(_) => {
                return Ok(Some(asked));
            }
        }
        Ok(None)
    }

    /// Answers with the state, whatever was asked for.
    pub(super) fn answer(&self, asked: StatusRequest) {
        self.devices.firewall.answer(self.status(), asked.answer);
    }

    async fn handle_time(&mut self) -> Result<(), ClientError> {
        let now = Now::read();
        let is_due = |due| due <= now.boot;
        // Before the time: a path is judged by what was answered until now.
        if self.core.poll_report(now.boot).is_some_and(is_due) {
            self.hear_of_peers(now)?;
        }
        if self.core.poll_timeout().is_some_and(is_due) {
            self.core.handle_timeout(now.boot);
        }
        if self.answering.retry().is_some_and(is_due) {
            self.bind_dns().await;
        }
        Ok(())
    }

    fn hear_of_peers(&mut self, now: Now) -> Result<(), ClientError> {
        let (reports, port) = self.devices.tunnel.reports()?;
        self.note_port(port);
        let places = self.core.counted_places();
        self.core
            .handle_traffic(&self.devices.tunnel.traffic(places));
        self.core.handle_peers(&reports, now.boot);
        Ok(())
    }

    /// The next output of the core. Its log is written before.
    fn next_output(&mut self) -> Option<Output<Unrouted>> {
        while let Some(line) = self.core.poll_log() {
            write_log(&line);
        }
        self.core.poll_output()
    }

    /// Does what the core says, in its order.
    fn execute(&mut self) -> Result<(), ClientError> {
        let mut ended = None;
        while let Some(output) = self.next_output() {
            match output {
                Output::Connect => self.devices.portal.connect(),
                Output::Disconnect => self.disconnect(),
                Output::ToPortal(message) => self.say(&message),
                Output::Portals(portals) => self.learn_portals(&portals),
                Output::Remember(remembered) => self.keep(&remembered),
                Output::End(ending) => ended = Some(ending),
                Output::Interface(interface) => {
                    self.host_wish.set_interface(interface);
                    self.devices.address_guard.want(self.host_wish.addresses());
                    if let Err(error) = self.devices.tunnel.set_inside(interface) {
                        tracing::warn!(%error, "ICMP errors from behind gateways do not pass");
                    }
                    self.want_host();
                }
                Output::Routes(routes) => {
                    self.host_wish.set_routes(routes);
                    self.want_host();
                }
                Output::Guard(rules) => {
                    self.host_wish.set_awaits_guard(true);
                    self.devices.firewall.want(rules);
                }
                Output::Domains { asked, search } => {
                    self.answering.domains = routed(&asked);
                    self.answering.search = search;
                    self.want_resolver();
                }
                Output::Engine {
                    peers,
                    services,
                    inbound,
                    resume,
                } => {
                    let tunnel = &self.devices.tunnel;
                    tunnel.apply(peers, services, inbound.map(|rules| *rules), resume)?;
                    self.devices.host.set_destinations(self.core.destinations());
                }
                Output::SendPathMessage { datagram, to } => {
                    self.devices.tunnel.send_path_message(&datagram, to);
                }
                Output::UsePath { key, address } => self.devices.tunnel.use_path(key, address)?,
                Output::OpenTls {
                    gateway,
                    relay,
                    place,
                } => self.open_stream(gateway, relay, place),
                Output::CloseTls { gateway, relay } => self.close_stream(gateway, relay),
                Output::RepeatInitiation { key, to } => {
                    self.devices.tunnel.repeat_initiation(key, to)?;
                }
                Output::Refuse { packets, refusal } => self.devices.tunnel.refuse(packets, refusal),
                Output::Answer {
                    bytes,
                    to,
                    transport,
                } => self.devices.listeners.answer(bytes, to, transport),
                Output::Forward {
                    id,
                    query,
                    upstream,
                    transport,
                    via,
                } => {
                    let (device, tls) = match via {
                        Via::Network => (None, self.devices.tls_servers.get(upstream)),
                        Via::Tunnel => (Some(self.base.settings.interface.clone()), None),
                    };
                    let server = Server {
                        at: upstream,
                        device,
                        tls,
                    };
                    let events = self.answering.events();
                    tokio::spawn(ask_upstream(id, query, server, transport, events));
                }
            }
        }
        match ended {
            None => Ok(()),
            Some(Ending::NotEnrolled(why)) => Err(ClientError::NotEnrolled(why)),
            Some(Ending::Denied(why)) => Err(ClientError::Denied(why)),
            Some(Ending::Failed(why)) => Err(ClientError::Refused(why)),
        }
    }

    /// Tells whoever started the client how it stands, where that has changed, and that the loop goes on.
    fn tell(&mut self) {
        let not_ready = self.not_ready();
        let summary = self.core.summary(self.devices.portal.url());
        let is_connected = self.core.is_connected();
        if is_connected {
            self.devices.portal.welcomed();
        }
        if self.core.is_owner_disabled() {
            self.announcer.wait_no_longer();
        }
        self.announcer
            .tell(summary, is_connected, not_ready.as_deref());
        self.socket.observed.beat(not_ready);
        self.look_for_changes();
    }

    /// The time for which nothing has to be done by itself. Timers stand still while the machine sleeps, and the
    /// boot-time clock does not: no rest is long.
    fn rest(&self) -> Duration {
        let now = Now::read().boot;
        let (core, retry) = (&self.core, self.answering.retry());
        let watching = self.socket.watching.due();
        let due = [core.poll_timeout(), core.poll_report(now), retry, watching];
        let longest = self.socket.observed.longest_rest();
        let due = due.into_iter().flatten().min();
        let span = due.map_or(longest, |due| due.saturating_since(now));
        span.min(longest)
    }
}

//! The client with I/O around its core: one task owns the core and carries out what it says.

mod clock;
mod dns;
mod event_loop;
mod network;
mod portal;
mod resolver;
mod tunnel;

use crate::core;
use crate::status::SCHEMA_VERSION;
use crate::{ClientError, Observed, Settings};
use clock::Now;
use culvert_host::{Identity, ResolverControl, RoutedDomains, StateDir, TableClaim, WatchOptions};
use culvert_link::Destination;
use culvert_policy::DomainName;
use culvert_session::{PrivateKey, Suite};
use culvert_wire::Cipher;
use dns::Listeners;
use event_loop::EventLoop;
use network::Host;
use portal::Portal;
use resolver::Resolver;
use std::collections::BTreeSet;
use std::future::Future;
use tokio::sync::mpsc;
use tunnel::Tunnel;

/// Runs a client until `stop` is done, or until it can't go on. `ready` is called once, when the
/// portal has said welcome and the host is set up for it. Who asks how the client is, through
/// `observed` or at its socket, is answered meanwhile.
///
/// Must be called in a tokio runtime with timers and I/O. What was set up on the host is removed at
/// an orderly end; after a crash, resources stay unreachable until a client runs again.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn run(
    settings: Settings,
    observed: Observed,
    stop: impl Future<Output = ()>,
    ready: impl FnMut(&str),
) -> Result<(), ClientError> {
    culvert_host::require_net_admin()?;
    culvert_host::require_tun_device()?;
    let state = StateDir::open(&settings.state_dir)?;
    let _lock = state.lock()?;
    let _tables = TableClaim::take(&settings.routing)?;
    let control = resolver_control(&settings).await?;
    let identity = Identity::load(&state, settings.id.as_deref())?;
    let now = Now::read();
    let key = PrivateKey::from_bytes(*identity.key.expose());
    let public_key = core::Options::key_of(&key.public_key());
    let core = core(&settings, identity.machine.clone(), public_key, now)?;
    let status_socket = observed.bind(&settings.status_socket, SCHEMA_VERSION)?;
    let (dns_events, dns_received) = mpsc::channel(dns::MAX_WAITING_MESSAGES);
    let mut listeners = Listeners::new(dns_events.clone());
    for address in &settings.dns_listen {
        let bound = listeners.bind(*address, dns::Admit::Everybody).await;
        bound.map_err(|source| ClientError::DnsListen {
            address: *address,
            source,
        })?;
    }
    let tunnel = Tunnel::start(
        settings.interface.as_str(),
        settings.workers,
        settings.mtu,
        settings.routing.mark.get(),
        key,
    )?;
    let host = Host::start(WatchOptions {
        own_interfaces: vec![settings.interface.clone()],
        routing: settings.routing,
        destinations: Vec::new(),
        debounce: culvert_host::DEBOUNCE,
    });
    let resolver = Resolver::start(control);
    let portal = Portal::new(Destination {
        portal: settings.enrolment.portal.clone(),
        path: culvert_wire::CLIENT_SESSION_PATH,
        bearer: settings.enrolment.bearer.clone(),
        mark: Some(settings.routing.mark.get()),
    });
    let mut event_loop = EventLoop {
        core,
        tunnel,
        host,
        resolver,
        portal,
        listeners,
        dns_events,
        dns_received,
        observed,
        machine: identity.machine,
        public_key,
        began_ms: now.boot_ms,
        interface: None,
        routes: None,
        domains: RoutedDomains::Within(BTreeSet::new()),
        dns_problem: None,
        dns_retry_ms: None,
        ending: None,
        is_ready: false,
        ready,
        summary: String::new(),
        settings,
    };
    let ended = event_loop.run(stop).await;
    drop(status_socket);
    // What ended by a fault is to run again: until then nothing goes past the tunnel that belongs
    // into it.
    let is_over = match &ended {
        Ok(()) => true,
        Err(error) => error.is_of_portal(),
    };
    event_loop.close(is_over).await;
    ended
}

fn core<P>(
    settings: &Settings,
    machine: String,
    public_key: culvert_wire::PublicKey,
    now: Now,
) -> Result<core::Client<P>, ClientError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(std::io::Error::other)
        .map_err(ClientError::system("draw random bytes"))?;
    let options = core::Options {
        machine,
        name: settings.name.clone(),
        version: settings.version.clone(),
        public_key,
        ciphers: fast_ciphers(),
        dns_listen: settings.dns_listen.clone(),
        dns_upstreams: settings.dns_upstreams.clone(),
        portal: portal_name(&settings.enrolment.portal.url),
    };
    Ok(core::Client::new(options, seed, now.boot_ms))
}

/// What has the system ask here. What a crash left of it is undone first: the portal's name may have to
/// be found.
async fn resolver_control(settings: &Settings) -> Result<ResolverControl, ClientError> {
    let mut control = ResolverControl::new(settings.dns, StateDir::open(&settings.state_dir)?);
    if let Err(error) = control.clean_up().await {
        tracing::error!(%error, "the system's resolver is not as it was before a crash");
    }
    control.check().await?;
    Ok(control)
}

/// The portal's host, where it is known by name.
fn portal_name(url: &str) -> Option<DomainName> {
    let host = url.strip_prefix("https://")?.split([':', '/']).next()?;
    host.parse().ok()
}

/// Suites for which this processor has instructions.
fn fast_ciphers() -> Vec<Cipher> {
    let mut ciphers = vec![Cipher::ChaCha20Poly1305];
    if Suite::Aes256Gcm.is_fast() {
        ciphers.push(Cipher::Aes256Gcm);
    }
    ciphers
}

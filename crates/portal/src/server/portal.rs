//! A running portal.

use super::address::{
    Whereabouts, also, check_tokens, is_behind_another, reachable_address, whereabouts,
};
use super::address_port::AddressPort;
use super::certificate::{Certificate, FileLook, Given};
use super::health::{Health, guarded_metrics, health_routes, open_metrics};
use super::hello::HelloNotices;
use super::home::Home;
use super::listener::{Server, serve, stopped, tls};
use super::options::Options;
use super::publisher::{self, Publisher};
use super::request::{Gatekeeper, around};
use crate::PortalError;
use crate::api::{self, Api};
use axum::Router;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use culvert_console::{self as console, Console};
use culvert_control_server::{Countries, CountryFile, NoCountries, Reach, Sessions};
use culvert_ids::AccountId;
use culvert_log_sinks::Sinks;
use culvert_policy::Prefix;
use culvert_portal_base::{Bounds, DESCRIPTORS_NEEDED, Limits, Metrics, birth, now};
use culvert_portal_service::{Service, SetupToken, new_setup_token};
use culvert_store::{Account, AccountSettings, Author, PageLimit, Stamp, Store, StoreError};
use culvert_wire::UDP_PORT_HEADER;
use culvert_wire::token::{CertificatePin, Portal as PortalUrl};
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// The interval of checks for changes to the files of a given certificate and of countries. A
/// renewed file is in use within that time, without any other action.
const FILE_LOOK: Duration = Duration::from_secs(30);

/// Connections that the kernel holds until they are accepted; fewer where `net.core.somaxconn` says so. 4,096 is its
/// default. Machines that come back together fit in, and nobody waits a second because a SYN was dropped.
const MAX_TO_ACCEPT: u32 = 4_096;

/// The interval at which last uses of API tokens are written down.
const NOTE_USES_EVERY: Duration = Duration::from_secs(10);

/// The name of an account until someone names it.
const FIRST_ACCOUNT: &str = "culvert";

/// A running portal. Dropped, it ends at once; [`Portal::stop`] lets it finish.
#[derive(Debug)]
pub struct Portal {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    files: Files,
    account: AccountId,
    setup: SetupState,
    sessions: Sessions,
    service: Arc<Service>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    router: Router,
    publisher: Publisher,
}

/// Values read from files that others renew.
#[derive(Clone, Debug)]
struct Files {
    certificate: Arc<Certificate>,
    countries: Option<Arc<CountryFile>>,
}

/// The progress of set-up.
#[derive(Debug)]
pub enum SetupState {
    /// This was the first start: here is the token that makes the owner.
    Begun(SetupToken),
    /// The token of the first start was not used yet.
    Open,
    /// There is an owner.
    Done,
}

impl Portal {
    /// Starts a portal on a database. An empty one gets its account and a set-up token.
    ///
    /// # Errors
    /// [`PortalError`] says what of the options, the state directory or the database is in the way.
    pub async fn start(
        options: Options,
        home: Home,
        store: Arc<dyn Store>,
    ) -> Result<Self, PortalError> {
        let listener = bind(options.listen)?;
        let address = local_address(&listener, options.listen)?;
        let metrics_listener = match options.metrics {
            Some(address) => Some(bind(address)?),
            None => None,
        };
        // A damaged file is written anew.
        let before = home.whereabouts().ok().flatten();
        let others = also(&options.also_urls)?;
        let Whereabouts { url, warnings } =
            whereabouts(options.url.as_deref(), &others, address, before.as_ref())?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let home = Arc::new(home);
        home.seal_files(store.as_ref()).await?;
        let urls = std::iter::once(url).chain(others.iter().cloned()).collect();
        let given = Given {
            files: options.certificate,
            next: options.next_certificate,
        };
        let certificate = Certificate::open(given, &home, store.as_ref(), urls).await?;
        let certificate = Arc::new(certificate);
        let has_proxies = !options.trusted_proxies.is_empty();
        if options.sets_up && !is_set_up(store.as_ref()).await? {
            check_tokens(&certificate, has_proxies)?;
        }
        let also: Vec<String> = others.into_iter().map(|other| other.url).collect();
        let handed_out = home.published().ok().flatten();
        let handed_out = handed_out.and_then(|published| published.next);
        publisher::note(&home, &certificate, &also, handed_out)?;
        let countries = match options.geoip.as_deref() {
            Some(file) => Some(Arc::new(CountryFile::open(file)?)),
            None => None,
        };
        let files = Files {
            certificate: Arc::clone(&certificate),
            countries: countries.clone(),
        };
        let countries = countries.map_or_else(
            || Arc::new(NoCountries) as Arc<dyn Countries>,
            |file| file as Arc<dyn Countries>,
        );
        let tls = tls(Arc::clone(&certificate))?;
        let browser_key = home.browser_key(store.as_ref()).await?;
        // A failure before this loses no set-up token. After it, only `Sessions::start` can fail: it needs the account.
        let (account, setup) = prepare(store.as_ref(), &certificate.portal()).await?;

        let metrics = Arc::new(Metrics::new());
        let pinned = Arc::clone(&certificate);
        let reach = Reach {
            address: reached_at(address, options.reach),
            pin: Box::new(move || pinned.pin()),
        };
        let sessions = Sessions::start(Arc::clone(&store), account, countries, reach).await?;
        let publisher = Publisher {
            certificate: Arc::clone(&certificate),
            home: Arc::clone(&home),
            store: Arc::clone(&store),
            sessions: sessions.clone(),
            also,
            last: Arc::default(),
        };
        if let Err(error) = publisher.publish().await {
            tracing::warn!(%error, "commands on this machine do not know since when machines are told of the next certificate");
        }
        let whereabouts = Arc::clone(&certificate);
        let sinks = Sinks::new(Arc::clone(&store), account, home.sink_dir());
        let sinks = Arc::new(sinks);
        let service = Service::new(
            store,
            Arc::clone(&metrics),
            sessions.clone(),
            account,
            Arc::clone(&sinks),
            &browser_key,
            move || whereabouts.portal(),
        );
        let service = Arc::new(service.with_own_relay(options.own_relay));
        let health = Health {
            service: Arc::clone(&service),
            metrics: Arc::clone(&metrics),
        };
        let gatekeeper = Gatekeeper::new(Arc::clone(&metrics), options.trusted_proxies.clone());
        let whereabouts = Arc::clone(&certificate);
        let looked_after = Arc::clone(&certificate);
        let console = Console {
            service: Arc::clone(&service),
            portal: Arc::new(move || whereabouts.portal()),
            certificate: Arc::new(move || looked_after.state()),
            streams: console::Streams::default(),
            refusals: Arc::default(),
        };
        let address_port = AddressPort::open(address).unwrap_or_else(|why| {
            tracing::warn!(
                why,
                "UDP port {} does not tell machines from which address they come; those behind NAT learn it from relays \
                 alone",
                address.port()
            );
            None
        });
        let udp_port = address_port.as_ref().map(AddressPort::port);
        let router = main_router(&sessions, health.clone(), gatekeeper, console, udp_port);
        let server = Server {
            router: router.clone(),
            tls: Some(tls),
            bounds: Bounds::new(limits(options.descriptors), Arc::clone(&metrics)),
            metrics,
            is_proxy: Box::new(proxies(options.trusted_proxies)),
            hello_notices: HelloNotices::default(),
        };

        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.clone().watch(stopped.clone()));
        if certificate.is_own() {
            let warning = warn_of_own_certificate(certificate.portal(), address, has_proxies);
            let mut stopped = stopped.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = warning => {}
                    () = self::stopped(&mut stopped) => {}
                }
            });
        }
        tasks.spawn(serve(listener, Arc::new(server), stopped.clone()));
        if let Some(port) = address_port {
            let stopped = stopped.clone();
            tasks.spawn_blocking(move || port.serve(&stopped));
        }
        tasks.spawn(note_uses(Arc::clone(&service), stopped.clone()));
        tasks.spawn(run_sinks(sinks, sessions.leading(), stopped.clone()));
        let metrics_address = metrics_listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok());
        if let Some(listener) = metrics_listener {
            tasks.spawn(serve_metrics(listener, health, stopped.clone()));
        }
        tasks.spawn(watch_files(files.clone(), publisher.clone(), stopped));
        Ok(Self {
            address,
            metrics_address,
            files,
            account,
            setup,
            sessions,
            service,
            stop,
            tasks,
            router,
            publisher,
        })
    }

    /// The address at which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it shows metrics without authentication.
    #[must_use]
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The portal's URL, as tokens tell it to machines.
    #[must_use]
    pub fn whereabouts(&self) -> PortalUrl {
        self.files.certificate.portal()
    }

    /// True if it leads, and false if another portal of the database does; none while neither can be reached.
    #[must_use]
    pub fn leads(&self) -> Option<bool> {
        self.sessions.leads()
    }

    /// SHA-256 of its certificate.
    #[must_use]
    pub fn pin(&self) -> CertificatePin {
        self.files.certificate.pin()
    }

    /// Its account.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.account
    }

    /// The router as `Debug` shows it, every route with its methods: for tests that try all of them.
    #[doc(hidden)]
    #[must_use]
    pub fn describe_routes(&self) -> String {
        format!("{:?}", self.router)
    }

    /// The progress of set-up when the portal started.
    #[must_use]
    pub const fn setup(&self) -> &SetupState {
        &self.setup
    }

    /// Reads its certificate and the file of countries again.
    ///
    /// # Errors
    /// [`PortalError::Certificate`], [`PortalError::Countries`]; what could not be read is what it
    /// was, and the other has been read.
    pub async fn reload(&self) -> Result<(), PortalError> {
        let certificate = self.publisher.reload().await;
        let countries = reload_countries(self.files.countries.as_deref());
        certificate.and(countries)
    }

    /// Accepts nothing more, finishes what is under way, and ends.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        self.sessions.stop().await;
        while self.tasks.join_next().await.is_some() {}
        self.service.note_uses().await;
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, PortalError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // Connections of a portal that has ended do not keep the next one from its address.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(MAX_TO_ACCEPT)
    };
    listen().map_err(|source| PortalError::Listen { address, source })
}

fn local_address(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, PortalError> {
    listener
        .local_addr()
        .map_err(|source| PortalError::Listen { address, source })
}

/// The address at which other portals of the database reach this one.
fn reached_at(listening: SocketAddr, outward: Option<IpAddr>) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let own = outward.or_else(|| reachable_address(listening.ip()));
    SocketAddr::new(
        own.unwrap_or_else(|| Ipv4Addr::LOCALHOST.into()),
        listening.port(),
    )
}

/// Writes the logs to their sinks while this portal leads, so that each entry is written by one.
async fn run_sinks(
    sinks: Arc<Sinks>,
    mut leading: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
) {
    while !*stop.borrow() {
        tokio::select! {
            led = leading.wait_for(|leads| *leads) => if led.is_err() { return },
            () = stopped(&mut stop) => return,
        }
        let (end, ended) = watch::channel(false);
        let run = Arc::clone(&sinks).run(ended);
        tokio::pin!(run);
        let has_ended = tokio::select! {
            () = &mut run => true,
            _ = leading.wait_for(|leads| !*leads) => false,
            () = stopped(&mut stop) => false,
        };
        end.send_replace(true);
        if !has_ended {
            run.await;
        }
    }
}

/// True if there is an owner already.
async fn is_set_up(store: &dyn Store) -> Result<bool, PortalError> {
    let accounts = store.accounts(None, PageLimit::new(1)).await?;
    match accounts.items.first() {
        Some(account) => Ok(store.is_set_up(account.id).await?),
        None => Ok(false),
    }
}

/// The account that this portal serves, made now if there is none, and how far its set-up is.
async fn prepare(
    store: &dyn Store,
    portal: &PortalUrl,
) -> Result<(AccountId, SetupState), PortalError> {
    if let Some(there) = there(store).await? {
        return Ok(there);
    }
    let (born, random) = birth()?;
    let account = Account {
        id: AccountId::new(born, random),
        name: FIRST_ACCOUNT.to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    // One write makes both, and of several portals that start at once one does: the others serve its account.
    let (create, token) = new_setup_token(portal.clone())?;
    let made = store.create_first_account(account, Author::PORTAL, now(), vec![create]);
    match made.await? {
        Some(account) => Ok((account.id, SetupState::Begun(token))),
        None => there(store).await?.ok_or_else(|| {
            StoreError::corrupt("an account that is there, and is not found").into()
        }),
    }
}

/// The account that is there, and how far its set-up is.
async fn there(store: &dyn Store) -> Result<Option<(AccountId, SetupState)>, PortalError> {
    let accounts = store.accounts(None, PageLimit::new(1)).await?;
    let Some(account) = accounts.items.first() else {
        return Ok(None);
    };
    let setup = match store.is_set_up(account.id).await? {
        true => SetupState::Done,
        false => SetupState::Open,
    };
    Ok(Some((account.id, setup)))
}

fn main_router(
    sessions: &Sessions,
    health: Health,
    gatekeeper: Gatekeeper,
    console: Console,
    udp_port: Option<u16>,
) -> Router {
    let api = Api {
        service: Arc::clone(&health.service),
    };
    let (routes, _document) = api::router(api.clone());
    routes
        .merge(tell_udp_port(sessions.router(), udp_port))
        .merge(health_routes(health.clone()))
        .merge(guarded_metrics(api, health))
        .merge(console::router(console.clone()))
        .fallback(console::nowhere(console.clone()))
        .method_not_allowed_fallback(console::other_method(console))
        .layer(from_fn_with_state(Arc::new(gatekeeper), around))
}

/// Has each answer that opens a session name the port of [`AddressPort`].
fn tell_udp_port(sessions: Router, port: Option<u16>) -> Router {
    let Some(port) = port else {
        return sessions;
    };
    let name = HeaderName::from_static(UDP_PORT_HEADER);
    let value = HeaderValue::from(port);
    sessions.layer(map_response(move |mut response: Response| {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        ready(response)
    }))
}

/// Metrics and health for everyone who reaches the listener.
async fn serve_metrics(listener: TcpListener, health: Health, stop: watch::Receiver<bool>) {
    let server = Server {
        metrics: Arc::clone(&health.metrics),
        bounds: Bounds::new(Limits::METRICS, Arc::clone(&health.metrics)),
        router: health_routes(health.clone()).merge(open_metrics(health)),
        tls: None,
        is_proxy: Box::new(|_| false),
        hello_notices: HelloNotices::default(),
    };
    serve(listener, Arc::new(server), stop).await;
}

/// The limits on connections, with a warning if descriptors allow fewer than the full number.
fn limits(descriptors: Option<u64>) -> Limits {
    let Some(descriptors) = descriptors else {
        return Limits::FULL;
    };
    let limits = Limits::within(descriptors);
    if limits != Limits::FULL {
        tracing::warn!(
            descriptors,
            connections = limits.connections(),
            "the limit of open files is too low for all connections that the portal could take: allow \
             {DESCRIPTORS_NEEDED} (`LimitNOFILE=` of a systemd service, `ulimit -n` of a shell)"
        );
    }
    limits
}

/// Warns where tokens name the portal's own certificate, and machines would see another.
async fn warn_of_own_certificate(portal: PortalUrl, listening: SocketAddr, has_proxies: bool) {
    if is_behind_another(&portal, listening, has_proxies).await {
        tracing::warn!(
            url = portal.url,
            "tokens name the certificate that the portal made for itself. A proxy that ends TLS in front of it shows \
             another, and machines refuse that: give the portal the proxy's certificate by --cert and --key, and \
             then make tokens. A router or proxy that passes TLS on as it is changes nothing"
        );
    }
}

fn proxies(trusted: Vec<Prefix>) -> impl Fn(IpAddr) -> bool {
    move |address| trusted.iter().any(|prefix| prefix.contains(address))
}

fn reload_countries(countries: Option<&CountryFile>) -> Result<(), PortalError> {
    if let Some(countries) = countries {
        countries.reload()?;
        tracing::info!(file = %countries.path().display(), "read the countries again");
    }
    Ok(())
}

async fn note_uses(service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let mut note = interval(NOTE_USES_EVERY);
    note.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = note.tick() => service.note_uses().await,
            () = stopped(&mut stop) => return,
        }
    }
}

async fn watch_files(files: Files, publisher: Publisher, mut stop: watch::Receiver<bool>) {
    let mut look = interval(FILE_LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let certificate = files.certificate.files();
    let countries = files.countries.as_deref().map(CountryFile::path);
    let countries: Vec<_> = countries.map(Path::to_owned).into_iter().collect();
    let mut seen = (FileLook::of(&certificate), FileLook::of(&countries));
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = stopped(&mut stop) => return,
        }
        let now = (FileLook::of(&certificate), FileLook::of(&countries));
        if now.0 != seen.0
            && let Err(error) = publisher.reload().await
        {
            tracing::error!(%error, "the certificate stays as it was");
        }
        if now.1 != seen.1
            && let Err(error) = reload_countries(files.countries.as_deref())
        {
            tracing::error!(%error, "the countries stay as they were");
        }
        seen = now;
    }
}

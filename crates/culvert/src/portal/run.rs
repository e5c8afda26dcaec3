//! `culvert portal run`: the portal from its start to its end.

use super::common::{EXIT_STATUS, StateArguments, failure};
use super::own_relay::{self, PlannedRelay};
use super::setup_token::invitation;
use super::{database, secrets};
use crate::admin::FirstStart;
use crate::exit::{Failure, Status, print};
use crate::log_level::LogLevel;
use clap::Args;
use culvert_host::{notify_ready, notify_status, notify_stopping};
use culvert_policy::Prefix;
use culvert_portal::{CertificateFiles, Options, Portal, SetupState};
use culvert_portal_service::issue_setup_token;
use culvert_store::Store;
use culvert_store_sql::SecretsAccess;
use culvert_wire::token::Portal as PortalUrl;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The port of a portal unless it is told otherwise: it needs no privilege.
const DEFAULT_PORT: u16 = 8443;

/// Run the portal
///
/// Clients, gateways and administrators connect to it. On its first start it makes its database
/// and its certificate, and prints the one-time token that makes you its owner. It needs neither a
/// domain nor a certificate authority: tokens name its certificate. It runs in the foreground until
/// SIGTERM or SIGINT; SIGHUP makes it read the files of --cert, --key and --geoip again.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
pub(super) struct RunArguments {
    /// Address at which to listen for clients, gateways and the API (otherwise port 8443 of all addresses)
    ///
    /// On a machine without IPv6 the default is 0.0.0.0:8443.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_PORTAL_LISTEN", value_parser = crate::listen_address::listen_address)]
    listen: Option<SocketAddr>,

    /// URL at which machines reach it: https://HOST or https://HOST:PORT
    ///
    /// Tokens carry it. Without it, the address that this machine uses towards the Internet.
    #[arg(long, value_name = "URL", env = "CULVERT_PORTAL_URL")]
    url: Option<String>,

    /// Another URL at which machines find it: the new one before it moves, the former one after that; may be repeated
    ///
    /// Machines are told of all URLs and keep them. If one does not answer, they go on to the next.
    #[arg(
        long,
        value_name = "URL",
        env = "CULVERT_PORTAL_ALSO_URL",
        value_delimiter = ','
    )]
    also_url: Vec<String>,

    #[command(flatten)]
    state: StateArguments,

    #[command(flatten)]
    database: database::DatabaseArguments,

    /// On the first start, become the owner and set the portal up as FILE says
    ///
    /// As "culvert admin setup", "apply -f FILE" and "token create" do: FILE is declared, and a one-time
    /// token for each of its sites and service accounts is written into this directory, mode 0600. The
    /// commands that use them are printed. A portal that has an owner is left as it is.
    #[arg(long, value_name = "FILE", env = "CULVERT_PORTAL_SET_UP")]
    set_up: Option<PathBuf>,

    /// A certificate of your own: the chain in PEM, the portal's first
    ///
    /// It is read again when it changes. If no authority that this machine trusts vouches for
    /// it, tokens name it by its SHA-256, and end their service when it is replaced.
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_PORTAL_CERT",
        requires = "key"
    )]
    cert: Option<PathBuf>,

    /// The private key of --cert, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_PORTAL_KEY",
        requires = "cert"
    )]
    key: Option<PathBuf>,

    /// The certificate of --cert from the next time on, in PEM: machines are told of it before it is in use
    ///
    /// It is needed unless authorities vouch for both, before and after. FILE may be missing until there is one, and is read again when it
    /// changes. "culvert portal certificate" says which machines know it.
    #[arg(long, value_name = "FILE", env = "CULVERT_PORTAL_NEXT_CERT")]
    next_cert: Option<PathBuf>,

    /// Serve metrics and health at http://ADDR, for example 127.0.0.1:9587
    ///
    /// There is no authentication: bind to an address that only the collector reaches. /metrics of
    /// the portal itself takes a token of any role.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_PORTAL_METRICS", value_parser = crate::listen_address::listen_address)]
    metrics: Option<SocketAddr>,

    /// A proxy in front of the portal, whose X-Forwarded-For is believed; may be repeated
    ///
    /// An address such as 127.0.0.1, or a network such as 10.0.0.0/8.
    #[arg(
        long,
        value_name = "ADDR|CIDR",
        env = "CULVERT_PORTAL_TRUSTED_PROXY",
        value_delimiter = ',',
        value_parser = parse_proxy
    )]
    trusted_proxy: Vec<Prefix>,

    #[command(flatten)]
    own_relay: own_relay::OwnRelayArguments,

    #[command(flatten)]
    secrets: secrets::KeySource,

    /// A database of countries (.mmdb), for policies with a condition on the country
    ///
    /// It is read again when it changes, for sessions that begin from then on.
    #[arg(long, value_name = "FILE", env = "CULVERT_PORTAL_GEOIP")]
    geoip: Option<PathBuf>,

    /// Log level, on standard error
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_PORTAL_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    pub(super) log_level: LogLevel,
}

const RUN_EXAMPLES: &str = "\
Examples:
  Try it, in a directory of your own:
    culvert portal run --state-dir ./portal

  From nothing to a portal that knows who may use what, with tokens for its machines:
    culvert portal run --state-dir ./portal --set-up access.toml

  Behind a name, with a certificate of a public authority:
    culvert portal run --listen [::]:443 --url https://portal.example \\
      --cert /etc/culvert/portal.pem --key /etc/culvert/portal.key

  Behind a reverse proxy on the same machine, which has the same certificate:
    culvert portal run --listen 127.0.0.1:8443 --url https://portal.example --trusted-proxy 127.0.0.1 \\
      --cert /etc/culvert/portal.pem --key /etc/culvert/portal.key

  With a relay on the same machine, for clients and gateways that are both behind NAT:
    culvert portal run --relay

  With metrics for a collector on the same machine:
    culvert portal run --metrics 127.0.0.1:9587

  With its data on a PostgreSQL server, whose password is in the file:
    culvert portal run --database-file /etc/culvert/database-url

Exit status:
  0  done, or the portal ended as asked
  1  something failed
  2  the command line is wrong";

pub(super) async fn serve(
    arguments: RunArguments,
    descriptors: Option<u64>,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let access = arguments.secrets.access()?;
    let planned_relay = arguments.own_relay.plan(arguments.log_level)?;
    let database::Opened {
        home,
        store,
        outward,
    } = arguments
        .database
        .open(&arguments.state.state_dir, access.clone())
        .await?;
    let options = Options {
        listen: arguments.listen.unwrap_or_else(default_listen),
        url: arguments.url,
        reach: outward,
        also_urls: arguments.also_url,
        certificate: arguments
            .cert
            .zip(arguments.key)
            .map(|(certificate, key)| CertificateFiles { certificate, key }),
        next_certificate: arguments.next_cert,
        metrics: arguments.metrics,
        trusted_proxies: arguments.trusted_proxy,
        geoip: arguments.geoip,
        descriptors,
        sets_up: arguments.set_up.is_some(),
        own_relay: planned_relay.as_ref().map(PlannedRelay::status),
    };
    let state_dir = arguments.state.state_dir;
    let portal = Portal::start(options, home, Arc::clone(&store)).await;
    let portal = portal.map_err(failure)?;
    match &arguments.set_up {
        Some(file) => set_up(&portal, store.as_ref(), file).await?,
        None => greet(&portal, &state_dir)?,
    }
    let relay = match planned_relay {
        Some(planned) => {
            print(planned.greeting().as_bytes())?;
            Some(planned.start(&portal, Arc::clone(&store), &state_dir)?)
        }
        None => None,
    };
    let serving = format!("serving {}", portal.whereabouts().url);
    tracing::info!(
        listening = %portal.address(),
        metrics = ?portal.metrics_address(),
        url = portal.whereabouts().url,
        secrets_key = key_of(&access),
        "ready"
    );
    notify_ready(&serving);
    while let Wish::Reload = signals.next().await {
        match portal.reload().await {
            Ok(()) => tracing::info!("read its files again"),
            Err(error) => tracing::error!(%error, "what could not be read stays as it was"),
        }
        notify_status(&serving);
    }
    notify_stopping("finishing what is under way");
    tracing::info!("ending");
    // While this portal serves still, so that machines hear of another relay.
    if let Some(relay) = relay {
        relay.stop().await;
    }
    portal.stop().await;
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// The key that encrypts secrets, for the log.
fn key_of(access: &SecretsAccess) -> Option<String> {
    match access {
        SecretsAccess::Key(key) => Some(key.key_id().to_string()),
        _ => None,
    }
}

/// Every address of both families, or of the one that there is.
fn default_listen() -> SocketAddr {
    let any = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Err(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, DEFAULT_PORT)
}

/// Greets the person who starts the portal on standard output, because the log has other readers.
fn greet(portal: &Portal, state_dir: &Path) -> Result<(), Failure> {
    let at = portal.whereabouts();
    let mut text = format!("Portal: {}\n", at.url);
    if at.pin.is_some() {
        text += &format!("Certificate (SHA-256): {}\n", portal.pin());
    }
    match portal.setup() {
        SetupState::Begun(token) => text += &invitation(token),
        SetupState::Open => {
            text += &format!(
                "\nIt is not set up yet. For another set-up token:\n  culvert portal setup-token \
                 --state-dir {}\n",
                state_dir.display()
            );
        }
        SetupState::Done => {}
    }
    print(text.as_bytes())
}

/// The first start with `--set-up`. The portal is asked as anybody would ask it, at the address where it
/// listens: where others find it, it may not reach itself.
async fn set_up(portal: &Portal, store: &dyn Store, file: &Path) -> Result<(), Failure> {
    let at = portal.whereabouts();
    print(format!("Portal: {}\n", at.url).as_bytes())?;
    // Of several that start at once one does it: each set-up token ends the one before.
    if !matches!(portal.setup(), SetupState::Done) && portal.leads() == Some(false) {
        let text = "Another portal of the database leads. It does what --set-up says if it was started with it, too.\n";
        return print(text.as_bytes());
    }
    let token = match portal.setup() {
        SetupState::Begun(token) => token.token.clone(),
        SetupState::Open => {
            let issued = issue_setup_token(store, portal.account(), at).await;
            issued
                .map_err(|error| Failure::new(Status::Failed, error))?
                .token
        }
        SetupState::Done => {
            let file = file.display();
            let text = format!(
                "It has an owner, so --set-up does nothing. To declare {file}:\n  culvert admin apply -f {file}\n"
            );
            return print(text.as_bytes());
        }
    };
    let first = FirstStart::prepare(file, Path::new(""))?;
    let here = match portal.address() {
        any if any.ip().is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), any.port())
        }
        address => address,
    };
    let here = PortalUrl {
        url: format!("https://{here}"),
        pin: Some(portal.pin()),
    };
    first.execute(&here, &token).await
}

/// An address is the network of itself alone.
fn parse_proxy(text: &str) -> Result<Prefix, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Prefix::host(address.to_canonical()));
    }
    let prefix = text.parse::<Prefix>();
    prefix.map_err(|error| {
        format!("{error}; write an address such as 127.0.0.1, or a network such as 10.0.0.0/8")
    })
}

/// The action that a signal asks for.
enum Wish {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let watch = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(
                    Status::Failed,
                    format_args!("watching for signals: {error}"),
                )
            })
        };
        Ok(Self {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
            hang_up: watch(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::End,
            _ = self.interrupt.recv() => Wish::End,
            _ = self.hang_up.recv() => Wish::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::DEFAULT_STATE_DIR;
    use super::super::{PortalArguments, PortalCommand};
    use super::*;
    use crate::arguments::{Arguments, Command};

    fn parse(words: &[&str]) -> Result<RunArguments, clap::Error> {
        let words = ["culvert", "portal", "run"].iter().chain(words);
        let parsed = Arguments::of(words.map(Into::into))?;
        let Command::Portal(PortalArguments {
            command: PortalCommand::Run(run),
        }) = parsed.command
        else {
            panic!("the run command");
        };
        Ok(*run)
    }

    #[test]
    fn a_portal_runs_without_any_option() {
        let run = parse(&[]).unwrap();
        assert_eq!(run.state.state_dir, Path::new(DEFAULT_STATE_DIR));
        assert_eq!((run.listen, run.url, run.metrics), (None, None, None));
        assert_eq!(default_listen().port(), DEFAULT_PORT);
    }

    #[test]
    fn a_certificate_comes_with_its_key() {
        assert!(parse(&["--cert", "a"]).is_err());
        assert!(parse(&["--key", "a"]).is_err());
        assert!(parse(&["--cert", "a", "--key", "b"]).is_ok());
    }

    #[test]
    fn proxies_are_ranges_and_may_be_several() {
        let run = parse(&["--trusted-proxy", "10.0.0.0/8,fd00::/8"]).unwrap();
        assert_eq!(run.trusted_proxy.len(), 2);
        let run = parse(&["--trusted-proxy", "127.0.0.1,::1,::ffff:192.0.2.7"]).unwrap();
        let written: Vec<String> = run.trusted_proxy.iter().map(Prefix::to_string).collect();
        assert_eq!(written, ["127.0.0.1/32", "::1/128", "192.0.2.7/32"]);
        for wrong in ["localhost", "127.0.0.1:80", "127.0.0", "", "[::1]"] {
            let error = parse(&["--trusted-proxy", wrong]).unwrap_err().to_string();
            assert!(error.contains("such as 127.0.0.1"), "{error}");
        }
        let error = parse(&["--trusted-proxy", "10.0.0.1/8"]).unwrap_err();
        assert!(error.to_string().contains("10.0.0.0/8"), "{error}");
    }
}

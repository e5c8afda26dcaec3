//! The relay's TLS listener and its certificate.

use crate::RelayError;
use crate::settings::{TlsListen, TlsSettings};
use crate::status::TlsStatus;
use culvert_base::UnixTime;
use culvert_host::StateDir;
use culvert_relay_tls::{Acceptor, AcceptorSettings, Certificates, Limits, Report};
use culvert_relay_tls::{listen, listen_everywhere};
use culvert_wire::messages::RelayTls;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// The file with the relay's own certificate and its key, in PEM.
const OWN_FILE: &str = "tls-certificate.pem";

/// The most bytes of that file. A certificate with its key has about one kilobyte.
const OWN_FILE_MOST: usize = 16 * 1_024;

/// The age at which the relay makes itself another certificate. Ends know it by its hash, and not by its dates.
const RENEW_AFTER: Duration = Duration::from_secs(180 * 86_400);

/// The listening sockets, opened before the relay gives up any right.
#[derive(Debug, Default)]
pub(crate) struct TlsSockets {
    listeners: Vec<TcpListener>,
    /// The reason why there is none, although there should be.
    problem: Option<String>,
}

impl TlsSockets {
    /// Opens them. The relay goes on without the usual port if nobody asked for it.
    pub(crate) fn bind(at: TlsListen) -> Result<Self, RelayError> {
        let bound = match at {
            TlsListen::Off => return Ok(Self::default()),
            TlsListen::Usual => listen_everywhere(TlsListen::USUAL_PORT),
            TlsListen::Port(port) => listen_everywhere(port),
            TlsListen::Address(address) => listen(address).map(|listener| vec![listener]),
        };
        match (bound, at) {
            (Ok(listeners), _) => Ok(Self {
                listeners,
                problem: None,
            }),
            (Err(error), TlsListen::Usual) => Ok(Self {
                listeners: Vec::new(),
                problem: Some(format!(
                    "ends behind networks that block UDP do not reach this relay: {}",
                    refused(&error, TlsListen::USUAL_PORT)
                )),
            }),
            (Err(error), _) => {
                let port = at.port().unwrap_or_default();
                Err(RelayError::Tls(refused(&error, port)))
            }
        }
    }

    fn port(&self) -> Option<u16> {
        let first = self.listeners.first()?;
        Some(first.local_addr().ok()?.port())
    }
}

/// The reason why a port can't be had, with its fix.
fn refused(error: &io::Error, port: u16) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "TCP port {port} is taken (`ss -tlnp sport = :{port}` shows by whom): choose another one by --tls PORT, or none by --tls off"
        ),
        ErrorKind::PermissionDenied => format!(
            "TCP port {port} needs CAP_NET_BIND_SERVICE, as the unit of the package gives it: choose a port from 1024 up by --tls PORT, or none by --tls off"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "TCP port {port}: the address of --tls is not one of this machine; name the port alone for all of them"
        ),
        _ => format!(
            "TCP port {port}: {error}; choose another one by --tls PORT, or none by --tls off"
        ),
    }
}

/// The listener that runs, or the reason why there is none.
pub(crate) struct Tls {
    running: Option<Running>,
    pub(crate) problem: Option<String>,
}

struct Running {
    acceptor: Acceptor,
    certificates: Arc<Certificates>,
    port: u16,
    own: Option<Own>,
}

/// The relay's own certificate.
struct Own {
    state: StateDir,
    renew_at: UnixTime,
}

impl Tls {
    /// Starts the listener, if there is one.
    pub(crate) fn start(
        settings: &TlsSettings,
        sockets: TlsSockets,
        state: StateDir,
        gateway_ports: RangeInclusive<u16>,
        threads: NonZeroUsize,
    ) -> Result<Self, RelayError> {
        if let Some(problem) = &sockets.problem {
            tracing::warn!("{problem}");
        }
        let Some(port) = sockets.port() else {
            return Ok(Self {
                running: None,
                problem: sockets.problem,
            });
        };
        let (certificates, own) = match &settings.certificates {
            Some(given) => (Arc::clone(given), None),
            None => {
                let (certificates, own) = Own::open(state)?;
                (Arc::new(certificates), Some(own))
            }
        };
        let acceptor = Acceptor::start(AcceptorSettings {
            listeners: sockets.listeners,
            certificates: Arc::clone(&certificates),
            gateway_ports,
            limits: Limits::default(),
            threads,
        });
        let acceptor = acceptor.map_err(RelayError::system("listen for TLS"))?;
        Ok(Self {
            running: Some(Running {
                acceptor,
                certificates,
                port,
                own,
            }),
            problem: None,
        })
    }

    /// The port and the pin, as the portal is told of them.
    pub(crate) fn place(&self) -> Option<RelayTls> {
        self.running.as_ref().map(|running| RelayTls {
            port: running.port,
            pin: running.certificates.pin(),
        })
    }

    /// The numbers of its streams.
    pub(crate) fn report(&self) -> Report {
        let running = self.running.as_ref();
        running.map_or_else(Report::default, |running| running.acceptor.report())
    }

    pub(crate) fn status(&self) -> Option<TlsStatus> {
        let place = self.place()?;
        let report = self.report();
        Some(TlsStatus {
            port: place.port,
            pin: place.pin,
            streams: report.streams,
            newcomers: report.newcomers,
        })
    }

    /// Makes another certificate where that is due. True if the portal has to be told of it.
    pub(crate) fn renew(&mut self, now: UnixTime) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        let Some(own) = running.own.as_mut().filter(|own| own.renew_at <= now) else {
            return false;
        };
        match own.renew(&running.certificates, now) {
            Ok(()) => {
                tracing::info!(pin = %running.certificates.pin(), "made another certificate for TLS");
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the certificate for TLS stays as it is");
                // Once a day.
                own.renew_at = now.saturating_add(Duration::from_secs(86_400));
                false
            }
        }
    }

    pub(crate) fn stop(self) {
        if let Some(running) = self.running {
            running.acceptor.stop();
        }
    }
}

impl Own {
    /// Reads the certificate, or makes it.
    fn open(state: StateDir) -> Result<(Certificates, Self), RelayError> {
        let now = unix_time(SystemTime::now());
        let mut made_at = now;
        let stored = state.read_at_most(OWN_FILE_MOST, OWN_FILE)?;
        let usable =
            stored.and_then(
                |pem| match Certificates::from_pem(pem.expose(), pem.expose()) {
                    Ok(certificates) => Some(certificates),
                    Err(error) => {
                        tracing::warn!(%error, file = OWN_FILE, "made another certificate for TLS");
                        None
                    }
                },
            );
        let certificates = match usable {
            Some(certificates) => {
                let about = state.path().join(OWN_FILE).metadata();
                let written = about.and_then(|about| about.modified());
                made_at = written.map_or(now, unix_time).min(now);
                certificates
            }
            None => {
                let pem = make()?;
                state.write(OWN_FILE, &pem)?;
                Certificates::from_pem(&pem, &pem).map_err(made_badly)?
            }
        };
        let renew_at = made_at.saturating_add(RENEW_AFTER);
        Ok((certificates, Self { state, renew_at }))
    }

    fn renew(&mut self, certificates: &Certificates, now: UnixTime) -> Result<(), RelayError> {
        let pem = make()?;
        self.state.write(OWN_FILE, &pem)?;
        certificates.replace(&pem, &pem).map_err(made_badly)?;
        self.renew_at = now.saturating_add(RENEW_AFTER);
        Ok(())
    }
}

/// A certificate with its key, in PEM.
fn make() -> Result<Zeroizing<Vec<u8>>, RelayError> {
    let failed = |error: rcgen::Error| {
        RelayError::system("make a certificate for TLS")(io::Error::other(error))
    };
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "Culvert relay");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let mut pem = Zeroizing::new(certificate.pem().into_bytes());
    let key = Zeroizing::new(key.serialize_pem());
    pem.extend_from_slice(key.as_bytes());
    Ok(pem)
}

fn made_badly(error: culvert_relay_tls::CertificateError) -> RelayError {
    RelayError::system("use the certificate for TLS")(io::Error::other(error))
}

fn unix_time(time: SystemTime) -> UnixTime {
    let since = time.duration_since(UNIX_EPOCH);
    UnixTime::after_epoch(since.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(at: TlsListen, path: &std::path::Path) -> Result<Tls, RelayError> {
        let settings = TlsSettings {
            listen: at,
            certificates: None,
        };
        let state = StateDir::open(path)?;
        let sockets = TlsSockets::bind(at)?;
        Tls::start(&settings, sockets, state, 1..=2, NonZeroUsize::MIN)
    }

    #[test]
    fn the_certificate_stays_the_same_until_it_is_old() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay");
        let at: TlsListen = "127.0.0.1:0".parse().unwrap();
        let first = start(at, &path).unwrap();
        let place = first.place().unwrap();
        assert_ne!(place.port, 0);
        first.stop();

        let mut second = start(at, &path).unwrap();
        assert_eq!(second.place().unwrap().pin, place.pin);
        let now = unix_time(SystemTime::now());
        assert!(!second.renew(now.saturating_add(RENEW_AFTER - Duration::from_secs(3_600))));
        assert!(second.renew(now.saturating_add(RENEW_AFTER)));
        let renewed = second.place().unwrap().pin;
        assert_ne!(renewed, place.pin);
        assert!(
            !second.renew(now.saturating_add(RENEW_AFTER)),
            "once is enough"
        );
        second.stop();

        let third = start(at, &path).unwrap();
        assert_eq!(third.place().unwrap().pin, renewed);
        third.stop();
        std::fs::write(path.join(OWN_FILE), "broken").unwrap();
        let fourth = start(at, &path).unwrap();
        assert_ne!(fourth.place().unwrap().pin, renewed);
        fourth.stop();
    }

    #[test]
    fn a_port_that_was_asked_for_and_is_taken_is_an_error_with_its_fix() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let error = TlsSockets::bind(TlsListen::Address(address)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("is taken") && text.contains("--tls"),
            "{text}"
        );
        let off = TlsSockets::bind(TlsListen::Off).unwrap();
        assert!(off.port().is_none() && off.problem.is_none());
    }

    #[test]
    fn each_refusal_is_one_line_with_a_fix() {
        for kind in [
            ErrorKind::AddrInUse,
            ErrorKind::PermissionDenied,
            ErrorKind::AddrNotAvailable,
            ErrorKind::Other,
        ] {
            let text = refused(&kind.into(), 443);
            assert!(text.contains("443") && !text.contains('\n'), "{text}");
        }
    }
}

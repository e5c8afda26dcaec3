//! The sockets of a relay, opened before it gives up any right.

use crate::RelayError;
use crate::settings::{PortRange, Settings, TlsListen};
use crate::tls::TlsSockets;
use culvert_base::Family;
use culvert_udp::{Socket, UdpError};

/// All sockets of a relay: those of its main port, then those of each gateway port, of each family that the machine
/// has.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) main: Vec<Socket>,
    pub(crate) gateway_ports: Vec<(u16, Vec<Socket>)>,
    pub(crate) tls: TlsSockets,
}

impl Sockets {
    /// Opens them.
    ///
    /// # Errors
    /// [`RelayError::Socket`] and [`RelayError::Tls`] name the port, and [`RelayError::SamePort`].
    pub fn bind(settings: &Settings) -> Result<Self, RelayError> {
        Self::bind_ports(settings.port, settings.gateway_ports)?.with_tls(settings.tls.listen)
    }

    /// Listens for TLS too.
    ///
    /// # Errors
    /// [`RelayError::Tls`].
    pub fn with_tls(self, at: TlsListen) -> Result<Self, RelayError> {
        let tls = TlsSockets::bind(at)?;
        Ok(Self { tls, ..self })
    }

    /// The same for given UDP ports, without TLS.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_ports(main: u16, gateway_ports: PortRange) -> Result<Self, RelayError> {
        if gateway_ports.contains(main) {
            return Err(RelayError::SamePort(main));
        }
        let main = bind(main)?;
        let ports = gateway_ports.iter().map(|port| Ok((port, bind(port)?)));
        let gateway_ports = ports.collect::<Result<_, RelayError>>()?;
        Ok(Self {
            main,
            gateway_ports,
            tls: TlsSockets::default(),
        })
    }
}

/// Sockets of both families, or of the one that there is.
fn bind(port: u16) -> Result<Vec<Socket>, RelayError> {
    let failed = |source| RelayError::Socket { port, source };
    let v4 = Socket::bind(Family::V4, port, 0).map_err(failed)?;
    match Socket::bind(Family::V6, port, 0) {
        Ok(v6) => Ok(vec![v4, v6]),
        Err(UdpError::NoSuchFamily { .. }) => Ok(vec![v4]),
        Err(error) => Err(failed(error)),
    }
}

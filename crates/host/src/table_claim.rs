//! One tunnel for a routing table.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::HostError;
use crate::retry::retry_until_released;
use crate::routing::{Routing, Table};

/// Keeps the routing tables of a tunnel for this process: two that share one would each remove what the
/// other has set up, again and again.
///
/// It is an abstract Unix socket for each table: those belong to the network namespace, as tables do, and
/// end with the process however that ends. Any user of the host can take such a name, and keep a tunnel
/// from starting by that, but not from running.
#[derive(Debug)]
pub struct TableClaim {
    _names: [UnixDatagram; 2],
}

impl TableClaim {
    /// Takes the tables for as long as this lives.
    ///
    /// # Errors
    /// [`HostError::TableInUse`] where another process has one of them, and has it still 2 s later, or the
    /// system's.
    pub fn take(routing: &Routing) -> Result<Self, HostError> {
        let [table, default_table] = routing.tables();
        Ok(Self {
            _names: [claim(table)?, claim(default_table)?],
        })
    }
}

fn claim(table: Table) -> Result<UnixDatagram, HostError> {
    let taken = retry_until_released(|| {
        let bound = SocketAddr::from_abstract_name(format!("culvert/table/{table}"))
            .and_then(|name| UnixDatagram::bind_addr(&name));
        match bound {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(HostError::system("claim a routing table", error)),
        }
    })?;
    taken.ok_or(HostError::TableInUse {
        number: table.get(),
    })
}

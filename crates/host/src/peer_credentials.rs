//! The process at the other end of a Unix socket.

use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;

/// The process that connected a Unix socket, as the kernel remembers it from that moment
/// (`SO_PEERCRED`, unix(7)).
///
/// `uid` and `gid` can't be forged. The process of `pid` may have ended since, and its number be
/// another's: [`PeerProcess`](crate::PeerProcess) tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCredentials {
    /// The process.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group; the others that it has are not told.
    pub gid: u32,
}

impl PeerCredentials {
    /// The process at the other end of `socket`.
    ///
    /// # Errors
    /// The system's, where it is no connected Unix socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(socket)?;
        Ok(Self {
            pid: peer.pid.as_raw_nonzero().get().unsigned_abs(),
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = PeerCredentials::of(&here).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
    }
}

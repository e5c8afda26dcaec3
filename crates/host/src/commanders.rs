//! The processes that may command a running program: those of root, of the user as whom it runs,
//! and of members of a group.

use crate::command_group::COMMAND_GROUP;
use crate::system_helper::access::SystemAccess;
use crate::{ErrorCode, PeerCredentials, SocketError};
use std::path::Path;

/// Gives a socket to the group, where there is one and this process may.
pub(crate) fn give(socket: &Path) {
    let Ok(Some(group)) = SystemAccess::of_process().command_group() else {
        return;
    };
    if let Err(error) = std::os::unix::fs::chown(socket, None, Some(group)) {
        tracing::warn!(
            "{} is not for the group {COMMAND_GROUP}: {error}; make the user who runs this a member of it",
            socket.display()
        );
    }
}

/// Admits a command of `peer`; the error says why it is refused, and how to mend it.
pub(crate) fn admit(peer: PeerCredentials) -> Result<(), SocketError> {
    match SystemAccess::of_process().admit(peer) {
        Ok(judged) => judged.map_err(|why| ErrorCode::NotPermitted.because(why)),
        Err(error) => {
            Err(ErrorCode::Failed.because(format!("who asks can't be found out: {error}")))
        }
    }
}

//! Errors of a relay as exit statuses.

use crate::exit::{Failure, Status};
use culvert_host::HostError;
use culvert_relay::RelayError;

/// The failure that ends a command.
pub(super) fn failure(error: &RelayError) -> Failure {
    let status = match error {
        RelayError::BadToken(_)
        | RelayError::NoPortal
        | RelayError::BadUrl(_)
        | RelayError::NotEnrolled(_) => Status::NotEnrolled,
        RelayError::Unreachable(_) => Status::PortalUnreachable,
        RelayError::Revoked(_) => Status::Denied,
        RelayError::SamePort(_) | RelayError::Host(HostError::InvalidMachineId { .. }) => {
            Status::Usage
        }
        _ => Status::Failed,
    };
    Failure::new(status, error)
}

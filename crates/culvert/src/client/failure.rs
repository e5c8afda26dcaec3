//! Errors of a client as exit statuses.

use crate::exit::{Failure, Status};
use culvert_client::ClientError;
use culvert_host::HostError;

/// The failure that ends a command.
pub(crate) fn failure(error: &ClientError) -> Failure {
    let status = match error {
        ClientError::BadToken(_)
        | ClientError::NoPortal
        | ClientError::BadUrl(_)
        | ClientError::SignedOut
        | ClientError::NotEnrolled(_) => Status::NotEnrolled,
        ClientError::Unreachable(_) => Status::PortalUnreachable,
        ClientError::Denied(_) => Status::Denied,
        ClientError::Host(HostError::InvalidMachineId { .. }) | ClientError::Dns(_) => {
            Status::Usage
        }
        _ => Status::Failed,
    };
    Failure::new(status, error)
}

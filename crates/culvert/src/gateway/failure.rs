//! Errors of a gateway as exit statuses.

use crate::exit::{Failure, Status};
use culvert_gateway::GatewayError;
use culvert_host::HostError;

/// The failure that ends a command.
pub(super) fn failure(error: &GatewayError) -> Failure {
    let status = match error {
        GatewayError::BadToken(_)
        | GatewayError::NoPortal
        | GatewayError::BadUrl(_)
        | GatewayError::NotEnrolled(_) => Status::NotEnrolled,
        GatewayError::Unreachable(_) => Status::PortalUnreachable,
        GatewayError::Revoked(_) => Status::Denied,
        GatewayError::Host(HostError::InvalidMachineId { .. }) => Status::Usage,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}

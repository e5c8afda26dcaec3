//! The client with I/O around its core: one task owns the core and carries out what it says.

mod address_guard;
mod applications;
mod base;
mod clock;
mod destinations_file;
mod device_sign_in;
mod dns;
mod event_loop;
mod network;
mod os_release;
mod persisted;
mod portal_api;
mod portals_file;
mod resolver;
mod rest;
mod service;
mod service_sign_in;
mod service_socket;
mod tunnel;
mod watching;

pub use device_sign_in::{DeviceSignIn, SignInEvent};

use crate::status::{SCHEMA_VERSION, Status};
use crate::{ClientError, Observed, Settings};
use base::Base;
use culvert_host::{Restricted, Shutdown, SocketForm, StateDir, TableClaim};
use service::Service;
use std::future::Future;

/// Runs a client until `stop` is done, or until it can't go on. `ready` is called once, with how
/// things are: when the portal has said welcome and the host is set up for it, or, without a token
/// of the administrator's, when commands are taken. Requests for the client's state, through
/// `observed` or at its socket, are answered meanwhile.
///
/// Must be called in a tokio runtime with timers and I/O. The set-up of the host is removed at an
/// orderly end; after a crash, resources stay unreachable until a client runs again. One that ends
/// for a restart leaves everything but the system's resolver as it is.
///
/// # Errors
/// [`ClientError`] names the remedy. A client that takes commands does not end by an error of the portal:
/// it reports the error and waits for the next command.
pub async fn run(
    settings: Settings,
    observed: Observed,
    stop: impl Future<Output = Shutdown>,
    ready: impl FnMut(&str) + Send,
) -> Result<(), ClientError> {
    if settings.enrolment.is_some() {
        culvert_host::require_net_admin()?;
        culvert_host::require_tun_device()?;
    }
    let state = StateDir::open(&settings.state_dir)?;
    let _lock = state.lock()?;
    let _tables = TableClaim::take(&settings.routing)?;
    let base = Base::load(settings, &state)?;
    let form = SocketForm {
        schema_version: SCHEMA_VERSION,
        restricted: Some(Restricted {
            is_confidential: Status::is_confidential,
            conceal: Status::conceal,
        }),
        log: base.settings.log.clone(),
    };
    let socket = observed.bind_with(&base.settings.status_socket, form)?;
    if let Some(confinement) = &base.settings.confinement {
        confinement.log();
    }
    if let Some(sandbox) = &base.settings.sandbox {
        sandbox.log();
    }
    let ended = Service::new(base, state, observed, ready)?.run(stop).await;
    drop(socket);
    ended
}

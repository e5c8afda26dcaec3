//! The sign-in with a browser of a client that takes commands.

use super::base::Base;
use super::device_sign_in::{DeviceSignIn, SignInEvent};
use crate::status::{Control, ServiceStatus, SignInStatus};
use crate::{Request, SignIn};
use culvert_host::{ErrorCode, SocketError};
use culvert_link::{LookUp, Way, check_url};
use std::fmt;

/// The sign-in, and the number of those that succeeded.
#[derive(Debug)]
pub(super) struct ServiceSignIn {
    device: DeviceSignIn,
    takes_commands: bool,
    succeeded: u64,
}

impl ServiceSignIn {
    pub(super) fn new(base: &Base) -> Self {
        let settings = &base.settings;
        let look_up: LookUp = |host, port| Box::pin(culvert_host::look_up(host, port));
        // Without the right to mark sockets there is no tunnel to keep out of.
        let may_mark = culvert_host::require_net_admin().is_ok();
        let way = Way {
            proxy: settings.proxy.clone(),
            mark: may_mark.then(|| settings.routing.mark.get()),
            look_up,
        };
        Self {
            device: DeviceSignIn::new(&settings.name, way),
            takes_commands: base.control() == Control::Commands,
            succeeded: 0,
        }
    }

    /// True for the requests that [`Self::take`] carries out alone.
    pub(super) const fn is_for(request: &Request) -> bool {
        matches!(
            request,
            Request::SignIn(SignIn::Portal(_)) | Request::CancelSignIn
        )
    }

    /// Takes a request that was admitted: begins or gives up. Another account and none end a sign-in too.
    ///
    /// # Errors
    /// The reason why it can't begin.
    pub(super) fn take(&mut self, request: &Request) -> Result<(), SocketError> {
        match request {
            Request::SignIn(SignIn::Portal(wanted)) => {
                let invalid =
                    |why: &dyn fmt::Display| ErrorCode::InvalidPortal.because(why.to_string());
                let portal = wanted.portal().map_err(|error| invalid(&error))?;
                check_url(&portal).map_err(|error| invalid(&error))?;
                tracing::info!(portal = portal.url, "a sign-in with a browser begins");
                self.device.begin(portal);
            }
            Request::SignIn(SignIn::Token(_)) | Request::SignOut | Request::CancelSignIn => {
                self.device.cancel();
            }
            _ => {}
        }
        Ok(())
    }

    /// The next event; see [`DeviceSignIn::next`].
    pub(super) async fn next(&mut self) -> SignInEvent {
        let event = self.device.next().await;
        self.log_failure();
        event
    }

    /// Ends a sign-in that was approved.
    pub(super) fn finish(&mut self, used: Result<(), String>) {
        self.succeeded += u64::from(used.is_ok());
        self.device.finish(used);
        self.log_failure();
    }

    /// Adds its state.
    pub(super) fn report(&self, service: &mut ServiceStatus) {
        service.signs_in = self.takes_commands;
        service.sign_in = self.device.status();
        service.sign_ins = self.succeeded;
    }

    fn log_failure(&self) {
        if let Some(SignInStatus::Failed { portal, text, .. }) = self.device.status() {
            tracing::warn!(portal, "a sign-in with a browser failed: {text}");
        }
    }
}

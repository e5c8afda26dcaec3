//! The session with the portal, and what the portal is told of this machine.

use culvert_base::Random;
use culvert_base::{BootTime, UnixTime};
use culvert_control::{ControlSession, ControlState, OutOfOrder, PortalStatus};
use culvert_policy::conditions::OperatingSystem;
use culvert_wire::messages::{ClientFeature, FromClient};
use culvert_wire::{Cipher, PROTOCOL, PublicKey, Timestamp};

/// This machine as `hello` tells of it.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) machine: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) public_key: PublicKey,
    pub(super) ciphers: Vec<Cipher>,
}

/// The client's side of the session with the portal.
#[derive(Debug)]
pub(super) struct Portal {
    session: ControlSession,
    identity: Identity,
    os: Option<OperatingSystem>,
}

impl Portal {
    pub(super) fn new(identity: Identity, now: BootTime) -> Self {
        Self {
            session: ControlSession::new(now),
            identity,
            os: None,
        }
    }

    /// The connection is there. The message that begins the session, where one was asked for.
    pub(super) fn handle_connected(
        &mut self,
        portal: UnixTime,
        now: BootTime,
    ) -> Option<FromClient> {
        if !self.session.connected(portal, now) {
            return None;
        }
        Some(FromClient::Hello {
            protocols: vec![PROTOCOL],
            version: self.identity.version.clone(),
            machine: self.identity.machine.clone(),
            name: self.identity.name.clone(),
            public_key: self.identity.public_key,
            ciphers: self.identity.ciphers.clone(),
            features: vec![
                ClientFeature::Applications,
                ClientFeature::Dns,
                ClientFeature::Portals,
                ClientFeature::Relays,
                ClientFeature::EndedAccess,
            ],
            os: self.os.clone(),
        })
    }

    /// The operating system that the next `hello` tells of.
    pub(super) fn set_operating_system(&mut self, os: OperatingSystem) {
        self.os = Some(os);
    }

    pub(super) const fn public_key(&self) -> PublicKey {
        self.identity.public_key
    }

    /// The connection ended, or did not come about.
    pub(super) fn handle_lost(
        &mut self,
        error: Option<String>,
        retry_after_ms: Option<u64>,
        random: &mut Random,
        now: BootTime,
    ) {
        let random = [random.next(), random.next()];
        self.session.lost(error, retry_after_ms, random, now);
    }

    /// The portal will have this client once its owner is enabled again.
    pub(super) fn handle_owner_disabled(
        &mut self,
        why: String,
        retry_after_ms: Option<u64>,
        random: &mut Random,
        now: BootTime,
    ) {
        let random = [random.next(), random.next()];
        self.session
            .lost_with_owner(why, retry_after_ms, random, now);
    }

    /// True while the portal keeps this client out because its owner is disabled.
    pub(super) const fn is_owner_disabled(&self) -> bool {
        self.session.is_owner_disabled()
    }

    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        self.session.network_changed(now);
    }

    /// The place of a message in the portal's order.
    pub(super) fn take_place(&mut self, epoch: u64, seq: u64) -> Result<(), OutOfOrder> {
        self.session.take_place(epoch, seq)
    }

    pub(super) fn open(&mut self, now: BootTime) {
        self.session.open(now);
    }

    pub(super) fn end(&mut self, why: String, now: BootTime) {
        self.session.end(now, why);
    }

    /// True if an attempt to connect begins now.
    pub(super) fn begin_attempt(&mut self, now: BootTime) -> bool {
        self.session.begin_attempt(now)
    }

    /// Somebody waits for the session: the next attempt comes soon.
    pub(super) fn hurry(&mut self) {
        self.session.hurry();
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_open()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// True if the portal did not answer `hello` in time.
    pub(super) fn is_overdue(&self, now: BootTime) -> bool {
        self.session.is_overdue(now)
    }

    pub(super) const fn poll_timeout(&self) -> Option<BootTime> {
        self.session.next_timeout()
    }

    /// An instant of the portal's clock, by the boot-time clock of this machine.
    pub(super) fn local_time(&self, instant: Timestamp, now: BootTime) -> BootTime {
        self.session.local_time(instant, now)
    }

    pub(super) fn status(&self, now: BootTime, unix: UnixTime) -> PortalStatus {
        self.session.status(now, unix)
    }

    pub(super) const fn state(&self) -> &ControlState {
        self.session.state()
    }

    pub(super) fn last_error(&self) -> Option<&str> {
        self.session.last_error.as_deref()
    }
}

//! The client and its parts. Each part has its own state; the files with `impl Client` are the rules between parts.

use super::accesses::Accesses;
use super::counters::Counters;
use super::directory::Directory;
use super::gateways::Gateways;
use super::guard::Guard;
use super::listing::Listing;
use super::names::{NameOptions, Names};
use super::network::Network;
use super::options::Options;
use super::outbox::Outbox;
use super::output::{Ending, Output};
use super::paths::Paths;
use super::portal::{Identity, Portal};
use super::remembered::Remembered;
use super::routes::Routes;
use culvert_base::Random;
use culvert_base::{BootTime, LogLine, UnixTime};
use culvert_policy::conditions::OperatingSystem;

/// The client. See the [crate] for how it is driven.
pub struct Client<P> {
    pub(super) portal: Portal,
    pub(super) random: Random,
    pub(super) network: Option<Network>,
    pub(super) directory: Directory,
    pub(super) listing: Option<Listing>,
    pub(super) accesses: Accesses<P>,
    pub(super) gateways: Gateways,
    pub(super) routes: Routes<P>,
    pub(super) guard: Guard,
    pub(super) names: Names,
    pub(super) paths: Paths,
    pub(super) outbox: Outbox<P>,
}

impl<P> Client<P> {
    /// A client that will connect at once. `seed` is 32 random bytes.
    pub fn new(options: Options, seed: [u8; 32], now: BootTime) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        let identity = Identity {
            machine: options.machine,
            name: options.name,
            version: options.version,
            public_key: options.public_key,
            ciphers: options.ciphers,
        };
        let names = NameOptions {
            listens_on: options.dns_listen,
            upstreams: options.dns_upstreams,
            asks_all: options.asks_all,
            portals: options.portals,
        };
        Self {
            portal: Portal::new(identity, now),
            random: Random::new(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            network: None,
            directory: Directory::default(),
            listing: None,
            accesses: Accesses::new(now),
            gateways: Gateways::default(),
            routes: Routes::default(),
            guard: Guard::default(),
            names: Names::new(names, seed, now),
            paths: Paths::new(seed),
            outbox: Outbox::default(),
        }
    }

    /// Takes over the destinations of an earlier run ([`Output::Remember`]), before anything else. Access to those that the
    /// portal does not list any more has ended.
    pub fn set_remembered(&mut self, remembered: Remembered) {
        self.directory.set_remembered(remembered);
    }

    /// The destinations that are yet to be kept, where the client ends before [`Output::Remember`].
    #[must_use]
    pub fn take_unkept(&mut self) -> Option<Remembered> {
        let is_news = self.directory.keeping_mut().take();
        is_news.then(|| self.directory.remembered())
    }

    /// The connection that [`Output::Connect`] asked for is there. `portal` is the portal's
    /// clock, or this machine's where the portal did not tell its own: grants end by it.
    pub fn handle_connected(&mut self, portal: UnixTime, now: BootTime) {
        if let Some(hello) = self.portal.handle_connected(portal, now) {
            self.outbox.tell_portal(hello);
        }
    }

    /// The operating system of this machine, to be told to the portal with the next session.
    pub fn set_operating_system(&mut self, os: OperatingSystem) {
        self.portal.set_operating_system(os);
    }

    /// The connection ended, or did not come about: `error` is for people, `retry_after_ms` the
    /// portal's word.
    pub fn handle_disconnected(
        &mut self,
        error: String,
        retry_after_ms: Option<u64>,
        now: BootTime,
    ) {
        self.lose_session(Some(error), retry_after_ms, now);
        self.finish(now);
    }

    /// The portal refused the token before there was a session: another attempt ends alike.
    pub fn handle_unauthorized(&mut self, why: String, now: BootTime) {
        self.end(Ending::NotEnrolled(why), now);
    }

    /// The host's network is another: paths are tried again, and so is the portal.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        self.portal.handle_network_changed(now);
        self.paths.handle_network_changed(now);
        self.gateways.handle_network_changed(now);
        self.connect_if_due(now);
        self.finish(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if self.portal.is_overdue(now) {
            self.break_off("the portal did not answer hello in time", now);
        }
        self.handle_due_accesses(now);
        self.names.handle_timeout(now);
        self.paths.handle_timeout(now);
        self.gateways.handle_timeout(now);
        self.connect_if_due(now);
        self.finish(now);
    }

    /// The time at which [`Self::handle_timeout`] has something to do. [`Self::poll_report`] tells another time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let parts = [
            self.accesses.poll_timeout(),
            self.names.poll_timeout(),
            self.portal.poll_timeout(),
            self.paths.poll_timeout(),
            self.gateways.poll_timeout(),
            self.opening_due(),
            self.directory.keeping().due(),
        ];
        parts.into_iter().flatten().min()
    }

    /// The next thing to be done.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outbox.poll_output()
    }

    /// The next line for the log, to be polled until there is none as well.
    pub fn poll_log(&mut self) -> Option<LogLine> {
        self.outbox.poll_log()
    }

    /// Counters since the start.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.outbox.counters
    }

    /// True if the session with the portal is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.portal.is_open()
    }

    /// True while the portal keeps the client out because its owner is disabled. It goes on trying.
    #[must_use]
    pub const fn is_owner_disabled(&self) -> bool {
        self.portal.is_owner_disabled()
    }

    pub(super) fn connect_if_due(&mut self, now: BootTime) {
        if self.portal.begin_attempt(now) {
            self.outbox.push(Output::Connect);
        }
    }

    /// The portal broke the protocol, or is silent where it must not be.
    pub(super) fn break_off(&mut self, why: &str, now: BootTime) {
        self.outbox.counters.protocol_errors += 1;
        self.outbox.push(Output::Disconnect);
        self.lose_session(Some(why.to_owned()), None, now);
    }

    /// The session is gone: requests are sent again in the next one.
    pub(super) fn lose_session(
        &mut self,
        error: Option<String>,
        retry_after_ms: Option<u64>,
        now: BootTime,
    ) {
        let random = &mut self.random;
        self.portal.handle_lost(error, retry_after_ms, random, now);
        if self.accesses.queue_all_again(now) {
            self.portal.hurry();
        }
    }

    pub(super) fn end(&mut self, ending: Ending, now: BootTime) {
        let why = match &ending {
            Ending::NotEnrolled(why) | Ending::Denied(why) | Ending::Failed(why) => why.clone(),
        };
        if self.portal.is_connected() {
            self.outbox.push(Output::Disconnect);
        }
        self.portal.end(why, now);
        self.outbox.push(Output::End(ending));
    }

    /// Does what one event may have made necessary for all: send requests, tell the data plane.
    pub(super) fn finish(&mut self, now: BootTime) {
        self.drain_stub(now);
        self.drive_paths(now);
        self.apply(now);
        self.drive_paths(now);
        self.hold_opening(now);
        self.send_asks(now);
        self.drain_stub(now);
        self.connect_if_due(now);
        if self.directory.keeping_mut().is_due(now) {
            self.outbox
                .push(Output::Remember(self.directory.remembered()));
        }
    }
}

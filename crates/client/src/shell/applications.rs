//! The host's part of rules about applications: the packet filter and the cgroups.

use crate::status::{ApplicationsStatus, RefusedStatus, Status};
use culvert_client_core::GuardRules;
use culvert_host::{
    ApplicationCgroups, ApplicationFirewall, ApplicationRules, CgroupWatch, ErrorCode,
    FirewallWatch, HostError, InterfaceName, PeerCredentials, PeerProcess, Refused, RepairPace,
    SocketError, TableState, remove_application_rules,
};
use culvert_policy::ApplicationName;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The time after a failure until the host is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The interval at which the rules are checked, which takes a run of `nft`, if no change is
/// reported.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The interval at which their cgroups are checked, if no change is reported.
const LOOK_AT_CGROUPS_EVERY: Duration = Duration::from_secs(1);

/// Answers to the core that wait: the newest rules follow those that are being loaded, and a look
/// reports a loss and its repair.
const MAX_WAITING_EVENTS: usize = 8;

/// Requests that wait: as many as the status socket has connections.
const MAX_WAITING_REQUESTS: usize = 16;

/// The host's report about rules, for
/// [`Client::handle_guard`](culvert_client_core::Client::handle_guard).
#[derive(Debug)]
pub(crate) struct GuardEvent {
    /// The rules.
    pub(crate) rules: GuardRules,
    /// Success if they are in force, else the reason why nobody can be sure of any.
    pub(crate) result: Result<(), String>,
}

/// A process that is to be taken into an application.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The name of the application, as it was asked for.
    pub(crate) application: String,
    /// The process that asks, as the kernel says.
    pub(crate) peer: Option<PeerCredentials>,
    /// The process that asks, unless it has ended.
    pub(crate) process: Option<PeerProcess>,
    /// The answer if the process is taken in.
    pub(crate) status: Status,
    /// The receiver of the answer, or of the reason why it is not taken in.
    pub(crate) answer: Answer,
}

/// The receiver of the state, or of the reason for a refusal.
type Answer = oneshot::Sender<Result<Status, SocketError>>;

/// The task that keeps the rules.
pub(crate) struct FirewallHandle {
    wanted: watch::Sender<GuardRules>,
    requests: mpsc::Sender<Request>,
    pub(crate) events: mpsc::Receiver<GuardEvent>,
    task: JoinHandle<()>,
}

enum Request {
    /// Asks for the refusals since the start.
    Refused(oneshot::Sender<Refused>),
    /// Take a process into an application.
    Join(ApplicationName, Box<Joining>),
    /// Remove everything, and end.
    Remove,
}

impl FirewallHandle {
    /// Begins. Nothing is set up before [`Self::want`].
    pub(crate) fn start(interface: InterfaceName) -> Self {
        let (wanted, wishes) = watch::channel(GuardRules::default());
        let (requests, asked) = mpsc::channel(MAX_WAITING_REQUESTS);
        let (told, events) = mpsc::channel(MAX_WAITING_EVENTS);
        let actor = FirewallActor {
            interface,
            installed: None,
            made: BTreeSet::new(),
            refused: Refused::default(),
            watch: None,
            cgroup_watch: None,
            pace: RepairPace::default(),
            may_have_left: true,
            told,
        };
        Self {
            wanted,
            requests,
            events,
            task: tokio::spawn(actor.run(wishes, asked)),
        }
    }

    /// Checks the rules again: leftovers of an earlier process are removed if no rules are wanted
    /// by now.
    pub(crate) fn check_again(&self) {
        // Seen as a new wish, even where it is the same.
        self.wanted.send_modify(|_| {});
    }

    /// These rules are to hold.
    pub(crate) fn want(&self, rules: GuardRules) {
        self.wanted.send_replace(rules);
    }

    /// Takes a process into an application, if it is one of `known`.
    pub(crate) fn join(&self, joining: Joining, known: &BTreeSet<ApplicationName>) {
        let named: Result<ApplicationName, _> = joining.application.parse();
        let why = match named {
            Ok(name) if known.contains(&name) => {
                let sent = self
                    .requests
                    .try_send(Request::Join(name, Box::new(joining)));
                let Err(mpsc::error::TrySendError::Full(Request::Join(_, joining))) = sent else {
                    return;
                };
                let error = ErrorCode::TooManyRequests.because("too many ask at once: try again");
                return refuse(*joining, error);
            }
            Ok(name) => {
                let known: Vec<&str> = known.iter().map(ApplicationName::as_str).collect();
                match known.is_empty() {
                    true => format!(
                        "no rule of the portal names the application {name}, or any other; has the \
                         client reached the portal?"
                    ),
                    false => format!(
                        "no rule of the portal names the application {name}, but {}",
                        known.join(", ")
                    ),
                }
            }
            Err(error) => error.to_string(),
        };
        refuse(joining, ErrorCode::UnknownApplication.because(why));
    }

    /// Answers with the state, once the counts of refused packets are in it.
    pub(crate) fn answer(&self, mut status: Status, answer: Answer) {
        let (refused, received) = oneshot::channel();
        let asked = self.requests.try_send(Request::Refused(refused)).is_ok();
        tokio::spawn(async move {
            if asked && let Ok(refused) = received.await {
                status.applications = shown(refused);
            }
            // The process that asked may be gone.
            let _unheard = answer.send(Ok(status));
        });
    }

    /// Ends, and removes the set-up.
    pub(crate) async fn remove(self) {
        // An actor that has ended has nothing to remove.
        let _ended = self.requests.send(Request::Remove).await;
        let mut task = self.task;
        drop(self.events);
        let _panicked = (&mut task).await;
    }
}

fn refuse(joining: Joining, error: SocketError) {
    // The process that asked may be gone.
    let _unheard = joining.answer.send(Err(error));
}

fn shown(refused: Refused) -> ApplicationsStatus {
    let applications = refused.applications.into_iter();
    let each = applications.map(|(application, packets)| RefusedStatus {
        application: application.to_string(),
        packets,
    });
    ApplicationsStatus {
        refused: each.collect(),
        refused_others: refused.others,
    }
}

/// Waits until the table may have been changed; returns by whom.
async fn heard(watch: &mut Option<FirewallWatch>) -> Option<String> {
    let Some(listening) = watch else {
        return std::future::pending().await;
    };
    match listening.changed().await {
        Ok(by) => by,
        Err(error) => {
            tracing::warn!(%error, "changes of the firewall are not told any more");
            *watch = None;
            None
        }
    }
}

/// Waits until cgroups have come or gone.
async fn cgroups_changed(watch: &mut Option<CgroupWatch>) {
    let Some(listening) = watch else {
        return std::future::pending().await;
    };
    if let Err(error) = listening.changed().await {
        tracing::warn!(%error, "changes of cgroups are not told any more");
        *watch = None;
    }
}

struct FirewallActor {
    interface: InterfaceName,
    installed: Option<ApplicationFirewall>,
    /// Cgroups that were made, to be removed at the end.
    made: BTreeSet<ApplicationName>,
    refused: Refused,
    /// Tells of changes of the table, if the kernel does.
    watch: Option<FirewallWatch>,
    /// Tells of cgroups that come and go, while there are rules about them.
    cgroup_watch: Option<CgroupWatch>,
    pace: RepairPace,
    /// True if there may be rules of an earlier process: until others are known they hold, since its
    /// routes may still lead into the tunnel.
    may_have_left: bool,
    told: mpsc::Sender<GuardEvent>,
}

impl FirewallActor {
    async fn run(
        mut self,
        mut wishes: watch::Receiver<GuardRules>,
        mut asked: mpsc::Receiver<Request>,
    ) {
        let mut is_well = true;
        let mut wanted = GuardRules::default();
        let mut looked = Instant::now();
        let mut retry_at = Instant::now();
        self.listen();
        loop {
            let rest = match (is_well, &self.installed) {
                (true, None) => LOOK_EVERY,
                (true, Some(_)) => LOOK_AT_CGROUPS_EVERY,
                (false, _) => retry_at.saturating_duration_since(Instant::now()),
            };
            tokio::select! {
                changed = wishes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    wanted = wishes.borrow_and_update().clone();
                    is_well = self.apply(&wanted).await;
                    retry_at = Instant::now() + RETRY_AFTER;
                }
                // Until the rules hold again nothing leads to what they are about.
                by = heard(&mut self.watch), if is_well => {
                    if let Some(wait) = self.repair(&wanted, true, by.as_deref()).await {
                        is_well = false;
                        retry_at = Instant::now() + wait;
                    }
                }
                () = cgroups_changed(&mut self.cgroup_watch), if is_well => {
                    if let Some(wait) = self.repair(&wanted, false, None).await {
                        is_well = false;
                        retry_at = Instant::now() + wait;
                    }
                }
                request = asked.recv() => match request {
                    None => return,
                    Some(Request::Remove) => return self.remove().await,
                    Some(Request::Refused(answer)) => {
                        self.count().await;
                        let _unheard = answer.send(self.refused.clone());
                    }
                    Some(Request::Join(application, joining)) => self.join(application, *joining),
                },
                () = tokio::time::sleep(rest) => {
                    let is_due = looked.elapsed() >= LOOK_EVERY;
                    if is_due {
                        looked = Instant::now();
                    }
                    let wait = match is_well {
                        true => self.repair(&wanted, is_due, None).await,
                        false => (!self.apply(&wanted).await).then_some(RETRY_AFTER),
                    };
                    is_well = wait.is_none();
                    retry_at = Instant::now() + wait.unwrap_or_default();
                }
            }
        }
    }

    /// Has the rules hold, and says so.
    async fn apply(&mut self, wanted: &GuardRules) -> bool {
        let result = match wanted.is_empty() {
            true => self.clear_installed().await,
            false => self.install(wanted).await,
        };
        if let Err(error) = &result {
            tracing::error!("rules about applications are not in force: {error}");
        }
        let is_well = result.is_ok();
        self.tell(wanted, result.map_err(|error| error.to_string()))
            .await;
        is_well
    }

    async fn install(&mut self, wanted: &GuardRules) -> Result<(), HostError> {
        self.count().await;
        let rules = ApplicationRules {
            interface: self.interface.clone(),
            ranges: wanted.by_range(),
        };
        let named = rules.applications();
        self.made.extend(named.iter().cloned());
        let installed = ApplicationFirewall::install(rules).await?;
        self.may_have_left = false;
        installed.forget(&self.made);
        self.made = named;
        self.installed = Some(installed);
        if self.cgroup_watch.is_none() {
            self.listen_to_cgroups();
        }
        Ok(())
    }

    /// Looks whether the cgroups stand, and if it is due, the rules; where they don't, who needs them hears
    /// of it, and they are put back. Returns after how long to try again, where they are not in force.
    async fn repair(
        &mut self,
        wanted: &GuardRules,
        is_due: bool,
        by: Option<&str>,
    ) -> Option<Duration> {
        let installed = self.installed.as_ref()?;
        let (why, wait) = match installed.cgroups_stand() {
            false => (
                "somebody has made cgroups of applications anew".to_owned(),
                None,
            ),
            true if !is_due => return None,
            true => match installed.check().await {
                Ok(TableState::Intact) => return None,
                Ok(TableState::Changed | TableState::Lost) => self.changed_by(by),
                Err(error) => (error.to_string(), None),
            },
        };
        tracing::warn!(why, "rules about applications are set up again");
        self.tell(wanted, Err(why)).await;
        match wait {
            Some(wait) => Some(wait),
            None => (!self.apply(wanted).await).then_some(RETRY_AFTER),
        }
    }

    /// Another program has changed the rules: the text to report, and the time for which they are not put back.
    fn changed_by(&mut self, by: Option<&str>) -> (String, Option<Duration>) {
        let by = by.map(|name| format!(" ({name})")).unwrap_or_default();
        let why = format!("another program{by} has changed the rules about applications");
        match self.pace.take(std::time::Instant::now()) {
            Ok(()) => (why, None),
            Err(wait) => {
                let why = format!(
                    "{why} again and again: nothing goes to resources that have one for {} s; keep it \
                     from flushing tables that are not its own (`nft monitor` shows what it does)",
                    wait.as_secs().max(1)
                );
                (why, Some(wait))
            }
        }
    }

    /// Begins to hear of cgroups. Without it their changes are found by looking.
    fn listen_to_cgroups(&mut self) {
        match CgroupWatch::open() {
            Ok(watch) => self.cgroup_watch = Some(watch),
            Err(error) => tracing::debug!(%error, "changes of cgroups are not told"),
        }
    }

    /// Begins to hear of changes. Without it they are found by looking.
    fn listen(&mut self) {
        match FirewallWatch::open(&self.interface) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => tracing::debug!(%error, "changes of the firewall are not told"),
        }
    }

    async fn tell(&self, rules: &GuardRules, result: Result<(), String>) {
        let event = GuardEvent {
            rules: rules.clone(),
            result,
        };
        // Nobody listens at the end.
        let _ended = self.told.send(event).await;
    }

    /// Adds the refusals since the last call.
    async fn count(&mut self) {
        let Some(installed) = &self.installed else {
            return;
        };
        match installed.take_refused().await {
            Ok(refused) => self.refused.add(&refused),
            Err(error) => tracing::debug!(%error, "refused packets are not counted"),
        }
    }

    fn join(&mut self, application: ApplicationName, joining: Joining) {
        let Some(PeerCredentials { pid, uid, .. }) = joining.peer else {
            let error = ErrorCode::JoinFailed.because("no other process asks");
            return refuse(joining, error);
        };
        let Some(process) = &joining.process else {
            let why = "the process that asks has ended, or is of another PID namespace";
            tracing::warn!(%application, pid, uid, "a process could not join: {why}");
            return refuse(joining, ErrorCode::JoinFailed.because(why));
        };
        let joined = ApplicationCgroups::find().and_then(|it| it.join(&application, process));
        match &joined {
            Ok(()) => tracing::info!(%application, pid, uid, "a process joined"),
            Err(error) => tracing::warn!(%application, pid, %error, "a process could not join"),
        }
        self.made.insert(application);
        let answer = joined.map(|()| joining.status);
        let answer = answer.map_err(|error| ErrorCode::JoinFailed.because(error.to_string()));
        let _unheard = joining.answer.send(answer);
    }

    async fn clear_installed(&mut self) -> Result<(), HostError> {
        self.count().await;
        self.cgroup_watch = None;
        let left = std::mem::take(&mut self.may_have_left);
        match self.installed.take() {
            Some(installed) => installed.remove().await,
            None if left => {
                // Without `nft` there are none.
                match remove_application_rules(&self.interface).await {
                    Ok(()) | Err(HostError::NftMissing) => {}
                    Err(error) => {
                        tracing::warn!(%error, "rules of an earlier run can't be removed");
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn remove(mut self) {
        if let Err(error) = self.clear_installed().await {
            tracing::warn!(%error, "the rules about applications could not be removed");
        }
        if let Ok(cgroups) = ApplicationCgroups::find() {
            for application in &self.made {
                cgroups.remove(application);
            }
        }
    }
}

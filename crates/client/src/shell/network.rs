//! The host's network: what leads into the tunnel, and what changes around it.

use culvert_host::{HostError, Network, NetworkChange, NetworkWatch, Note, Wanted, WatchOptions};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The time after a failure until the host is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The interval at which interface, routes and rules of the host are checked: an interface that is
/// taken down loses its routes without an event that is ours. With the routes of a thousand
/// resources a look takes some milliseconds.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The result of the last wish at the host, for tasks that wait for it and for the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostState {
    /// The number of fulfilled wishes.
    pub(crate) applied: u64,
    /// True if all was as wanted at the last look.
    pub(crate) stands: bool,
    /// The interface has no IPv6 address, as the host is; a problem says why.
    pub(crate) lacks_ipv6: bool,
    /// The problems, each a line with its fix.
    pub(crate) problems: Vec<String>,
}

/// The tasks that speak with the host.
pub(crate) struct Host {
    wanted: watch::Sender<Option<Wanted>>,
    destinations: watch::Sender<Vec<IpAddr>>,
    again: watch::Sender<u64>,
    /// The results at the host.
    pub(crate) state: watch::Receiver<HostState>,
    /// Tells of a network that has changed.
    pub(crate) changed: mpsc::Receiver<NetworkChange>,
    /// The addresses under which others may reach this host, as last seen.
    addresses: watch::Receiver<Vec<IpAddr>>,
    tasks: [JoinHandle<()>; 2],
    /// The last problem of the watch.
    watch_problem: Arc<Mutex<Option<String>>>,
}

impl Host {
    /// Begins. Nothing is set up before [`Self::want`].
    pub(crate) fn start(options: WatchOptions) -> Self {
        let (wanted, wishes) = watch::channel(None);
        let (again, repeat) = watch::channel(0);
        let (told, state) = watch::channel(HostState::default());
        let (destinations, sought) = watch::channel(Vec::new());
        // One change says that something has changed, and so do two.
        let (notify, changed) = mpsc::channel(1);
        let watch_problem: Arc<Mutex<Option<String>>> = Arc::default();
        let (found, addresses) = watch::channel(Vec::new());
        let observer = Observer {
            options,
            sought,
            notify,
            found,
            problem: Arc::clone(&watch_problem),
        };
        let tasks = [
            tokio::spawn(reconcile(wishes, repeat, told)),
            tokio::spawn(observer.run()),
        ];
        Self {
            wanted,
            destinations,
            again,
            state,
            changed,
            addresses,
            tasks,
            watch_problem,
        }
    }

    /// The host is to be like this.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.send_replace(Some(wanted));
    }

    /// The rules are others than they were, by our own doing or another's: missing parts are set up again.
    pub(crate) fn repeat(&self) {
        self.again.send_modify(|count| *count += 1);
    }

    /// The ways to these addresses matter.
    pub(crate) fn set_destinations(&self, destinations: Vec<IpAddr>) {
        self.destinations.send_if_modified(|before| {
            let is_new = *before != destinations;
            *before = destinations;
            is_new
        });
    }

    /// The addresses under which others may reach this host.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.borrow().clone()
    }

    /// The reason why nothing is led into the tunnel.
    pub(crate) fn not_set_up(&self) -> Option<String> {
        let state = self.state.borrow();
        let why = || "its interface and routes are not set up yet".to_owned();
        (!state.stands).then(|| state.problems.first().cloned().unwrap_or_else(why))
    }

    /// The problems at the moment.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.state.borrow().problems.clone();
        let watch = self.watch_problem.lock();
        problems.extend(watch.unwrap_or_else(PoisonError::into_inner).clone());
        problems
    }

    /// Ends, and removes the set-up.
    pub(crate) async fn remove(self) {
        for task in &self.tasks {
            task.abort();
        }
        let Some(wanted) = self.wanted.borrow().clone() else {
            return;
        };
        let removed = async { Network::open()?.remove(&wanted).await };
        match removed.await {
            Ok(changes) => tracing::debug!(?changes, "the host is as it was"),
            Err(error) => tracing::warn!(%error, "the routes into the tunnel could not be removed"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Makes the host as wanted, whenever something else is wanted.
async fn reconcile(
    mut wishes: watch::Receiver<Option<Wanted>>,
    mut repeat: watch::Receiver<u64>,
    told: watch::Sender<HostState>,
) {
    let mut fulfilled: Option<Wanted> = None;
    loop {
        let wanted = wishes.borrow_and_update().clone();
        repeat.borrow_and_update();
        let failed = match wanted {
            None => false,
            Some(wanted) => {
                let was_fulfilled = fulfilled.as_ref() == Some(&wanted);
                let is_fulfilled = apply(&wanted, was_fulfilled, &told).await;
                fulfilled = is_fulfilled.then_some(wanted);
                !is_fulfilled
            }
        };
        let again_after = match failed {
            true => RETRY_AFTER,
            false => LOOK_EVERY,
        };
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { return },
            changed = repeat.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(again_after) => {}
        }
    }
}

async fn apply(wanted: &Wanted, was_fulfilled: bool, told: &watch::Sender<HostState>) -> bool {
    let applied = async { Network::open()?.apply(wanted).await };
    match applied.await {
        Ok(applied) => {
            let changes = &applied.changes;
            if was_fulfilled && !changes.is_empty() {
                tracing::warn!(
                    ?changes,
                    "another program removed what leads into the tunnel; it is set up again"
                );
            } else if !changes.is_empty() {
                tracing::debug!(?changes, "the host is set up");
            }
            let lacks_ipv6 = applied.notes.iter().any(Note::is_lack_of_ipv6);
            let notes: Vec<String> = applied.notes.iter().map(ToString::to_string).collect();
            told.send_if_modified(|state| {
                for note in notes.iter().filter(|note| !state.problems.contains(note)) {
                    tracing::warn!("{note}");
                }
                let is_news = !was_fulfilled || !changes.is_empty() || state.problems != notes;
                state.applied += 1;
                state.stands = true;
                state.lacks_ipv6 = lacks_ipv6;
                state.problems = notes;
                is_news
            });
            true
        }
        Err(error) => {
            told.send_modify(|state| {
                let problem = format!("the host can't be set up: {error}");
                if state.problems.first() != Some(&problem) {
                    tracing::error!("{problem}");
                }
                state.stands = false;
                state.problems = vec![problem];
            });
            false
        }
    }
}

/// Watches the network around the tunnel.
struct Observer {
    options: WatchOptions,
    sought: watch::Receiver<Vec<IpAddr>>,
    notify: mpsc::Sender<NetworkChange>,
    found: watch::Sender<Vec<IpAddr>>,
    problem: Arc<Mutex<Option<String>>>,
}

impl Observer {
    /// Tells of changes of the network; begins again where watching fails.
    async fn run(mut self) {
        loop {
            let Err(error) = self.run_once().await else {
                return;
            };
            let text = format!("changes of the network are not noticed: {error}");
            tracing::warn!("{text}");
            self.set_problem(Some(text));
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    async fn run_once(&mut self) -> Result<(), HostError> {
        let mut options = self.options.clone();
        options
            .destinations
            .clone_from(&self.sought.borrow_and_update());
        let mut watch = NetworkWatch::open(options).await?;
        self.set_problem(None);
        self.found.send_replace(watch.candidates());
        loop {
            tokio::select! {
                change = watch.changed() => {
                    let change = change?;
                    tracing::debug!(?change, "the network has changed");
                    self.found.send_replace(watch.candidates());
                    if self.notify.send(change).await.is_err() {
                        return Ok(());
                    }
                }
                changed = self.sought.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let destinations = self.sought.borrow_and_update().clone();
                    watch.set_destinations(destinations).await?;
                }
            }
        }
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

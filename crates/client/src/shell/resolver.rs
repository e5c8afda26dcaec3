//! The task that has the system ask the client for names.

use crate::status::DnsControlStatus;
use culvert_client_core::Domains;
use culvert_host::{ResolverControl, ResolverMode, ResolverWanted, RoutedDomains};
use culvert_policy::DomainName;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The time after a failure until the next attempt: the problem waits for a person, or for a
/// service that starts.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Resources change in bursts, each of them one message: they are told to the system together.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// The state of the system's resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResolverState {
    /// For people; none before anything was tried.
    pub(crate) status: Option<DnsControlStatus>,
    /// The resolvers that the system asked before, once that is known.
    pub(crate) upstreams: Option<Vec<SocketAddr>>,
    /// The search domains of the machine.
    pub(crate) search: Vec<DomainName>,
    /// The problem, a line with its fix.
    pub(crate) problem: Option<String>,
}

/// The task.
pub(crate) struct Resolver {
    wanted: watch::Sender<Option<ResolverWanted>>,
    /// The state of the system's resolver.
    pub(crate) state: watch::Receiver<ResolverState>,
    task: JoinHandle<()>,
}

impl Resolver {
    /// Begins. Nothing changes before [`Self::want`].
    pub(crate) fn start(control: ResolverControl) -> Self {
        let (wanted, wishes) = watch::channel(None);
        let (told, state) = watch::channel(ResolverState::default());
        Self {
            wanted,
            state,
            task: tokio::spawn(govern(control, wishes, told)),
        }
    }

    /// Names are to be asked like this.
    pub(crate) fn want(&self, wanted: ResolverWanted) {
        self.wanted.send_if_modified(|before| {
            let is_new = before.as_ref() != Some(&wanted);
            *before = Some(wanted);
            is_new
        });
    }

    /// No names are to be asked, until they are wanted again.
    pub(crate) fn want_nothing(&self) {
        self.wanted
            .send_if_modified(|before| before.take().is_some());
    }

    /// Ends, and makes the system as it was.
    pub(crate) async fn remove(self) {
        drop(self.wanted);
        // The task panics nowhere, and is aborted by nobody.
        let _ended = self.task.await;
    }
}

/// Domains of the core as the host knows them.
pub(crate) fn routed(domains: &Domains) -> RoutedDomains {
    match domains {
        Domains::Within(domains) => {
            RoutedDomains::Within(domains.iter().map(ToString::to_string).collect())
        }
        Domains::All => RoutedDomains::All,
    }
}

/// Makes the system ask as wanted, until nothing is wanted any more.
async fn govern(
    mut control: ResolverControl,
    mut wishes: watch::Receiver<Option<ResolverWanted>>,
    told: watch::Sender<ResolverState>,
) {
    loop {
        let wanted = wishes.borrow_and_update().clone();
        let is_applied = match &wanted {
            None => {
                withdraw(&mut control, &told).await;
                true
            }
            Some(wanted) => apply(&mut control, wanted, &told).await,
        };
        let again = async {
            match is_applied {
                true => control.changed().await,
                false => sleep(RETRY_AFTER).await,
            }
        };
        tokio::select! {
            changed = wishes.changed() => {
                if changed.is_err() {
                    break;
                }
                sleep(DEBOUNCE).await;
            }
            () = again => {}
        }
    }
    if let Err(error) = control.remove().await {
        tracing::error!(%error, "the system's resolver is not as it was");
    }
}

/// Makes the system as it was, if it was set up.
async fn withdraw(control: &mut ResolverControl, told: &watch::Sender<ResolverState>) {
    if !told.borrow().status.as_ref().is_some_and(|it| it.applied) {
        return;
    }
    let problem = control.remove().await.err().map(|error| error.to_string());
    if let Some(problem) = &problem {
        tracing::error!("the system's resolver is not as it was: {problem}");
    }
    told.send_modify(|state| {
        if let Some(status) = &mut state.status {
            status.applied = problem.is_some();
        }
        state.problem = problem;
    });
}

async fn apply(
    control: &mut ResolverControl,
    wanted: &ResolverWanted,
    told: &watch::Sender<ResolverState>,
) -> bool {
    let tell = |upstreams: &[SocketAddr]| {
        told.send_if_modified(|state| {
            let is_new = state.upstreams.as_deref() != Some(upstreams);
            state.upstreams = Some(upstreams.to_vec());
            is_new
        });
    };
    let applied = control.apply(wanted, tell).await;
    let mode = control.mode();
    let problem = applied.err().map(|error| error.to_string());
    let is_applied = problem.is_none();
    let status = mode.map(|mode| DnsControlStatus {
        mode: mode.to_string(),
        applied: is_applied && mode != ResolverMode::Off,
        domains: match &wanted.domains {
            RoutedDomains::Within(domains) if mode.is_split() => {
                let search = wanted.search.iter().map(ToString::to_string);
                let asked: BTreeSet<String> = domains.iter().cloned().chain(search).collect();
                Some(asked.into_iter().collect())
            }
            _ => None,
        },
    });
    let search = control.search();
    told.send_if_modified(|state| {
        let is_searched = state.search != search;
        state.search = search;
        let is_new = state.status != status || state.problem != problem;
        if let Some(problem) = problem.as_ref().filter(|_| is_new) {
            tracing::error!("{problem}");
        } else if is_new && let Some(status) = &status {
            tracing::info!(mode = status.mode, "the system's resolver is set up");
        }
        state.status = status;
        state.problem = problem;
        is_new || is_searched
    });
    if !is_applied {
        // Nothing stays half done; what can't be undone now is what the problem says.
        let _undone = control.remove().await;
    }
    is_applied
}

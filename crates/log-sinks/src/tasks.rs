//! A task for each sink that there is.

use crate::sinks::Sinks;
use crate::worker;
use culvert_wire::model::Sink;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The time between two looks at the configured sinks, besides those after changes.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Sinks {
    /// Keeps a task for each sink until the portal stops, or another one leads.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut commits = self.store.watch();
        let mut tasks: BTreeMap<String, (Sink, JoinHandle<()>)> = BTreeMap::new();
        while !*stop.borrow() {
            match self.configured().await {
                Ok(sinks) => self.reconcile(sinks, &mut tasks).await,
                Err(error) => tracing::warn!(%error, "which log sinks there are is not known"),
            }
            tokio::select! {
                // A store that is gone has no more commits; the tick goes on.
                _ = timeout(LOOK_EVERY, commits.changed()) => {}
                _ = stop.changed() => {}
            }
        }
        for (_, (_, task)) in tasks {
            end(task).await;
        }
        self.forget_all();
    }

    async fn reconcile(
        self: &Arc<Self>,
        sinks: Vec<Sink>,
        tasks: &mut BTreeMap<String, (Sink, JoinHandle<()>)>,
    ) {
        let gone = |name: &String| !sinks.iter().any(|sink| sink.name == *name);
        let gone: Vec<_> = tasks.keys().filter(|name| gone(name)).cloned().collect();
        for name in gone {
            if let Some((_, task)) = tasks.remove(&name) {
                end(task).await;
            }
            self.forget(&name);
        }
        for sink in sinks {
            if tasks
                .get(&sink.name)
                .is_some_and(|(known, _)| *known == sink)
            {
                continue;
            }
            if let Some((_, task)) = tasks.remove(&sink.name) {
                end(task).await;
            }
            let task = tokio::spawn(worker::work(Arc::clone(self), sink.clone()));
            tasks.insert(sink.name.clone(), (sink, task));
        }
    }
}

/// The database has the sink's place: at worst, the last lines are sent again.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _aborted = task.await;
}

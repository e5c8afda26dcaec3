//! Waking after commits.

use async_trait::async_trait;
use culvert_store::CommitWatch;
use std::sync::Arc;
use tokio::sync::watch;

/// Wakes after commits.
#[derive(Clone, Debug)]
pub struct CommitSignal(Arc<watch::Sender<()>>);

impl CommitSignal {
    /// A signal that nobody watches yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(())))
    }

    /// Wakes who watches.
    pub fn wake(&self) {
        self.0.send_replace(());
    }

    /// Watches from here on.
    #[must_use]
    pub fn watch(&self) -> Box<dyn CommitWatch> {
        Box::new(Watch(self.0.subscribe()))
    }
}

impl Default for CommitSignal {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Watch(watch::Receiver<()>);

#[async_trait]
impl CommitWatch for Watch {
    async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

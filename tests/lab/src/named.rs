//! The name of a network namespace, which lives as long as somebody holds it.

/// A namespace by its name. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) String);

impl Drop for Named {
    fn drop(&mut self) {
        let name = &self.0;
        for process_id in crate::run(&format!("ip netns pids {name}"))
            .unwrap_or_default()
            .lines()
        {
            // One that ended by itself in between is no error.
            let _gone = crate::run(&format!("kill -9 {process_id}"));
        }
        // Failing here would hide the test's own failure; the watcher tries again.
        let _removed = crate::run(&format!("ip netns del {name}"));
    }
}

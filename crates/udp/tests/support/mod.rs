//! Network namespaces of the test's own: nothing here touches the machine's network. Needs root.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with loopback up, alive until dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    handle: File,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        let namespace = std::thread::spawn(|| {
            // SAFETY: only this thread moves to another network namespace, and it ends here; memory and files are not
            // affected.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(
                result, 0,
                "making a network namespace needs CAP_SYS_ADMIN: run the tests as root"
            );
            File::open("/proc/thread-self/ns/net").expect("a thread has a network namespace")
        });
        let namespace = Self {
            handle: namespace.join().expect("the namespace is made"),
        };
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `work` on a thread of this namespace.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let result = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(
                        self.handle.as_fd(),
                        Some(LinkNameSpaceType::Network),
                    )
                    .expect(
                        "entering a network namespace needs CAP_SYS_ADMIN: run the tests as root",
                    );
                    work()
                })
                .join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` with `arguments` split at spaces; returns what it printed.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.run(|| {
            let output = Command::new("ip")
                .args(arguments.split(' '))
                .output()
                .expect("iproute2 is installed");
            let problem = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "ip {arguments}: {problem}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    }
}

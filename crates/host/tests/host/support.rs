//! The common parts of the tests: namespaces of their own, and asynchronous work inside them. Needs
//! root.

use std::process::Command;

use anyhow::Result;
use culvert_lab::Namespace;

/// A namespace of the test's own.
pub(crate) fn namespace() -> Namespace {
    Namespace::new().expect("the tests need root and the tools of scripts/setup.sh")
}

/// Runs asynchronous work inside the namespace, to its end, on a thread and a runtime of its own.
pub(crate) fn inside<T: Send>(
    namespace: &Namespace,
    work: impl AsyncFnOnce() -> Result<T> + Send,
) -> T {
    let result = namespace.inside(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(work())
    });
    result.expect("the work inside the namespace succeeds")
}

/// Runs a command inside the namespace that must succeed; returns what it printed.
pub(crate) fn run(namespace: &Namespace, line: &str) -> String {
    namespace.run(line).expect("the command succeeds")
}

/// Runs `nft` in the namespace of this thread.
pub(crate) fn nft(command: &str) -> Result<String> {
    shell(&format!("nft '{command}'"))
}

/// Runs a command in the namespace of this thread.
pub(crate) fn shell(command: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", command]).output()?;
    let problem = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command}: {problem}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Compares `text` with the reviewed one, `golden/FILE`. With `CULVERT_BLESS=1` in the environment, `text`
/// is written down as reviewed.
pub(crate) fn is_as_reviewed(file: &str, text: &str, golden: &str) {
    if std::env::var_os("CULVERT_BLESS").is_some() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/golden");
        std::fs::write(format!("{dir}/{file}"), text).expect("it is written");
        return;
    }
    assert_eq!(text, golden, "golden/{file}");
}

//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a full portal has open: 16,384 connections, its database, and room for the rest. Shells and
/// service managers begin a process with 1,024.
const PORTAL_DESCRIPTORS: u64 = 20_000;

/// Raises the limit of this process to what a full portal needs, as far as the system lets it.
pub(crate) fn raise_for_portal() {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit
        .current
        .filter(|current| *current < PORTAL_DESCRIPTORS)
    else {
        return;
    };
    let allowed = limit
        .maximum
        .unwrap_or(PORTAL_DESCRIPTORS)
        .min(PORTAL_DESCRIPTORS);
    let raised = Rlimit {
        current: Some(allowed),
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => allowed,
        Err(_) => current,
    };
    if now < PORTAL_DESCRIPTORS {
        tracing::warn!(
            limit = now,
            "connections beyond the limit of open files will wait: allow {PORTAL_DESCRIPTORS} \
             (`LimitNOFILE=` of a systemd service, `ulimit -n` of a shell)"
        );
    }
}

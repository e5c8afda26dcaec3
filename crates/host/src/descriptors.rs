//! The number of files and connections that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to what it needs, as far as the system lets it: shells and service managers begin
/// a process with 1,024. Returns the limit that there is now; none where there is no limit.
pub fn raise_descriptors(needed: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    if current >= needed {
        return Some(current);
    }
    let allowed = limit.maximum.unwrap_or(needed).min(needed);
    let raised = Rlimit {
        current: Some(allowed),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(allowed),
        Err(_) => Some(current),
    }
}

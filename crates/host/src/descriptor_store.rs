//! The service manager's descriptor store (`FileDescriptorStoreMax=` of systemd.service(5)): descriptors that it keeps
//! while this program is started anew.
//!
//! A descriptor has a name, which is its group's with its number in it: `tun.0`. Descriptors that
//! exist at the start come with `LISTEN_FDS`, as sockets of socket units do. The variables stay,
//! since no safe code takes one out of the environment: `LISTEN_PID` says that they are this
//! process's, and the descriptors are closed for every program that it starts.

use crate::HostError;
use sd_notify::NotifyState;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Says that the service manager need not watch the descriptor: an error that waits in a socket would have it thrown away,
/// and it would be woken with every packet.
const UNWATCHED: NotifyState<'static> = NotifyState::Custom("FDPOLL=0");

/// The descriptors that the service manager keeps for this program.
#[derive(Debug)]
pub struct DescriptorStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Descriptors that came at the start and that nobody has taken, by group and number.
    inherited: BTreeMap<&'static str, BTreeMap<usize, OwnedFd>>,
    /// The numbers that the store has of each group.
    held: BTreeMap<&'static str, BTreeSet<usize>>,
    /// Names that came at the start and mean nothing.
    unknown: BTreeSet<String>,
}

impl DescriptorStore {
    /// Takes in the inherited descriptors; nothing if no service manager listens (`NOTIFY_SOCKET`).
    /// Descriptors of other groups than `groups` are closed.
    ///
    /// To be called before any program is started, and once: a second call is told of nothing.
    ///
    /// # Errors
    /// [`HostError::System`] where the variables of the service manager contradict what is open.
    pub fn open(groups: &[&'static str]) -> Result<Option<Self>, HostError> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(None);
        }
        let mut state = State::default();
        for (name, descriptor) in inherit()? {
            match parse(&name, groups) {
                Some((group, number)) => {
                    state.held.entry(group).or_default().insert(number);
                    let of_group = state.inherited.entry(group).or_default();
                    of_group.insert(number, descriptor);
                }
                None => {
                    state.unknown.insert(name);
                }
            }
        }
        Ok(Some(Self(Mutex::new(state))))
    }

    /// Has the service manager throw away inherited descriptors that have no use, and logs that.
    pub fn drop_unknown(&self) {
        for name in std::mem::take(&mut self.lock().unknown) {
            tracing::warn!(
                ?name,
                "the service manager kept a descriptor that is none of this program's; it is closed"
            );
            remove(&name);
        }
    }

    /// The inherited descriptors of a group, in the order of their numbers, at the first call; none
    /// if a number is missing. The service manager keeps it all the same.
    pub fn take(&self, group: &'static str) -> Vec<OwnedFd> {
        let taken = self.lock().inherited.remove(group).unwrap_or_default();
        let is_whole = taken.keys().copied().eq(0..taken.len());
        if !is_whole {
            let numbers: Vec<_> = taken.keys().collect();
            tracing::warn!(
                group,
                ?numbers,
                "the service manager kept only some of the descriptors"
            );
            return Vec::new();
        }
        taken.into_values().collect()
    }

    /// Has the service manager keep these, where it keeps none of the group.
    pub fn keep(&self, group: &'static str, descriptors: &[BorrowedFd<'_>]) {
        let mut state = self.lock();
        if state.held.contains_key(group) || descriptors.is_empty() {
            return;
        }
        for (number, descriptor) in descriptors.iter().enumerate() {
            let name = name(group, number);
            let states = [NotifyState::FdStore, NotifyState::FdName(&name), UNWATCHED];
            if let Err(error) = sd_notify::notify_with_fds(&states, &[*descriptor]) {
                tracing::warn!(group, %error, "the service manager can't be given descriptors to keep");
                break;
            }
            state.held.entry(group).or_default().insert(number);
        }
    }

    /// Has the service manager close what it keeps of a group; false where that is nothing.
    pub fn forget(&self, group: &'static str) -> bool {
        let mut state = self.lock();
        state.inherited.remove(group);
        let held = state.held.remove(group);
        for number in held.iter().flatten() {
            remove(&name(group, *number));
        }
        held.is_some()
    }

    /// A poisoned lock is taken all the same: what it guards is whole after every statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptors that the service manager has handed this process, with their names.
fn inherit() -> Result<Vec<(String, OwnedFd)>, HostError> {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if IS_DONE.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    // One library checks that all of them are open, and has them closed for other programs; the other one gives them
    // away as owned, which takes code that is not safe.
    let there = sd_notify::listen_fds()
        .map_err(|error| HostError::system("take descriptors of the service manager", error))?;
    if there.len() == 0 {
        return Ok(Vec::new());
    }
    let owned = sd_listen_fds::get().map_err(|error| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, error);
        HostError::system("take descriptors of the service manager", error)
    })?;
    let owned = owned.into_iter();
    Ok(owned
        .map(|(name, descriptor)| (name.unwrap_or_default(), descriptor.into_std()))
        .collect())
}

fn name(group: &str, number: usize) -> String {
    format!("{group}.{number}")
}

/// Group and number of a name.
fn parse(text: &str, groups: &[&'static str]) -> Option<(&'static str, usize)> {
    let (group, number) = text.rsplit_once('.')?;
    let group = *groups.iter().find(|known| **known == group)?;
    let number = number.parse().ok()?;
    // Nothing but what `name` writes.
    (name(group, number) == text).then_some((group, number))
}

fn remove(name: &str) {
    // A name that could not have been given can't be said either.
    if name.is_empty() || name.contains(char::is_control) {
        return;
    }
    let states = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!(name, %error, "the service manager can't be told to close a descriptor");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [&str; 2] = ["tun", "udp4"];

    fn with(numbers: &[usize]) -> DescriptorStore {
        let mut state = State::default();
        for number in numbers {
            let descriptor = std::fs::File::open("/dev/null").unwrap().into();
            let of_group = state.inherited.entry("tun").or_default();
            of_group.insert(*number, descriptor);
            state.held.entry("tun").or_default().insert(*number);
        }
        DescriptorStore(Mutex::new(state))
    }

    #[test]
    fn a_name_is_a_known_group_and_a_number_as_this_program_writes_it() {
        assert_eq!(parse("tun.0", &GROUPS), Some(("tun", 0)));
        assert_eq!(parse("udp4.12", &GROUPS), Some(("udp4", 12)));
        for strange in [
            "", "tun", "tun.", "tun.x", "tun.-1", "tun.+1", "tun.01", "tap.0", "stored", ".0",
        ] {
            assert_eq!(parse(strange, &GROUPS), None, "{strange}");
        }
    }

    #[test]
    fn a_group_is_taken_whole_in_its_order_and_once() {
        let store = with(&[2, 0, 1]);
        assert_eq!(store.take("udp4").len(), 0);
        assert_eq!(store.take("tun").len(), 3);
        assert_eq!(store.take("tun").len(), 0);
        // The service manager has it all the same.
        assert!(store.forget("tun"));
        assert!(!store.forget("tun"));
    }

    #[test]
    fn a_group_with_a_gap_is_not_taken() {
        for numbers in [&[1][..], &[0, 2]] {
            let store = with(numbers);
            assert_eq!(store.take("tun").len(), 0, "{numbers:?}");
            assert!(store.forget("tun"));
        }
    }
}

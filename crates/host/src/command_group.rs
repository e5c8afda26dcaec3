//! The group whose members may command a running program, as the system knows users and groups.
//!
//! They are asked for by `nsswitch.conf`, so that those of a directory count too.

use crate::PeerCredentials;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// The group whose members may use the socket, and tell the client what to do. Packages make it.
pub const COMMAND_GROUP: &str = "culvert";

/// The number of the group, where there is one.
pub(crate) fn group() -> Option<u32> {
    let group = Group::from_name(COMMAND_GROUP).ok().flatten();
    group.map(|group| group.gid.as_raw())
}

/// Admits a command of `peer`, or says why it is refused and how to mend it. This process may read the system's
/// lists of users and groups.
pub(crate) fn judge(peer: PeerCredentials) -> Result<(), String> {
    let group = Group::from_name(COMMAND_GROUP).ok().flatten();
    let own = Uid::effective();
    let groups = || groups_of(peer);
    match is_admitted(peer, own, group.as_ref().map(|group| group.gid), groups) {
        true => Ok(()),
        false => Err(refusal(peer, group.is_some())),
    }
}

fn is_admitted(
    peer: PeerCredentials,
    own: Uid,
    group: Option<Gid>,
    groups: impl FnOnce() -> Vec<Gid>,
) -> bool {
    let user = Uid::from_raw(peer.uid);
    user.is_root() || user == own || group.is_some_and(|group| groups().contains(&group))
}

/// The groups of a user: the one that it had when it connected, and those that it is a member of.
fn groups_of(peer: PeerCredentials) -> Vec<Gid> {
    let effective = Gid::from_raw(peer.gid);
    let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
    let member_of = user.and_then(|user| {
        let name = CString::new(user.name).ok()?;
        getgrouplist(&name, user.gid).ok()
    });
    let mut groups = member_of.unwrap_or_default();
    groups.push(effective);
    groups
}

fn refusal(peer: PeerCredentials, has_group: bool) -> String {
    let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
    let name = user.map_or_else(|| peer.uid.to_string(), |user| user.name);
    let make = match has_group {
        true => "",
        false => "`groupadd --system culvert`, ",
    };
    format!(
        "user {name} may look, but not tell it what to do: root may, and members of the group \
         {COMMAND_GROUP} ({make}`usermod -aG {COMMAND_GROUP} {name}`, and log in again)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, gid: u32) -> PeerCredentials {
        PeerCredentials { pid: 1, uid, gid }
    }

    #[test]
    fn root_the_own_user_and_members_of_the_group_may_command_and_nobody_else() {
        let (own, group) = (Uid::from_raw(990), Gid::from_raw(77));
        let may = |peer, group, member_of: &[u32]| {
            let groups = || member_of.iter().copied().map(Gid::from_raw).collect();
            is_admitted(peer, own, group, groups)
        };
        assert!(may(peer(0, 0), None, &[]));
        assert!(may(peer(990, 990), None, &[]));
        assert!(may(peer(1000, 1000), Some(group), &[1000, 77]));
        assert!(!may(peer(1000, 1000), Some(group), &[1000, 78]));
        // Without the group, a group of that number means nothing.
        assert!(!may(peer(1000, 77), None, &[77]));
    }

    #[test]
    fn the_group_that_a_process_had_when_it_connected_counts() {
        // No user has this number, so nobody lists its groups.
        assert_eq!(groups_of(peer(4_000_000_000, 77)), [Gid::from_raw(77)]);
        assert!(groups_of(peer(0, 77)).contains(&Gid::from_raw(0)));
    }

    #[test]
    fn a_refusal_says_who_may_and_how_to_become_one() {
        let text = refusal(peer(4_000_000_000, 1), true);
        assert!(text.contains("`usermod -aG culvert 4000000000`"), "{text}");
        assert!(!text.contains("groupadd") && !text.contains('\n'), "{text}");
        assert!(refusal(peer(0, 0), false).contains("groupadd"));
    }
}

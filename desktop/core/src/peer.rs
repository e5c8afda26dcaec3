//! The process at the other end of the socket: the service, or another program that took its place.

/// The user whom the packages make for the service.
pub const SERVICE_USER: &str = "culvert-client";

/// The longest file of users that is read, in bytes: some 10,000 lines.
pub const MAX_PASSWD_BYTES: u64 = 1024 * 1024;

/// True if a process of user `peer` is the service.
///
/// The service runs as root, as [`SERVICE_USER`], or as the user of this window, who started it by hand. A program of the
/// same user could draw this window itself, so nothing is lost by trusting it.
#[must_use]
pub fn is_service(peer: u32, own: u32, service: Option<u32>) -> bool {
    peer == 0 || peer == own || service == Some(peer)
}

/// The number of user `name`, by the text of `/etc/passwd`. Users of a directory are not looked up: packages make the
/// service's user on the machine.
#[must_use]
pub fn user_id(passwd: &str, name: &str) -> Option<u32> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_named = fields.next() == Some(name);
        is_named.then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nculvert-client-2:x:7:7::/:/x\nculvert-client:x:994:990::/:/x\n";

    #[test]
    fn the_service_is_root_its_user_or_this_user() {
        let service = user_id(PASSWD, SERVICE_USER);
        assert_eq!(service, Some(994));
        assert!(is_service(0, 1000, service));
        assert!(is_service(994, 1000, service));
        assert!(is_service(1000, 1000, service));
        assert!(!is_service(1001, 1000, service));
        assert!(!is_service(994, 1000, None));
    }

    #[test]
    fn a_broken_list_of_users_names_nobody() {
        assert_eq!(
            user_id("culvert-client\n::\nculvert-client:x:many", SERVICE_USER),
            None
        );
    }
}

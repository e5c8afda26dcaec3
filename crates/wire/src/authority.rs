//! The authority of a URL: the host, and the port, that somebody connects to (RFC 3986 §3.2).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest host name, and longest of its labels, in bytes (RFC 1035 §2.3.4).
const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

/// The reason why an authority is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// There is a user, and maybe a password.
    #[error("a user and a password do not go into the URL")]
    User,
    /// The host is empty.
    #[error("it names no host")]
    NoHost,
    /// The host is neither a name nor an address.
    #[error("its host is neither a name nor an address; write a name of other letters as xn--…")]
    Host,
    /// The last label is a number, which is so in no name (RFC 3696 §2).
    #[error("its host looks like an IPv4 address and is none")]
    Ipv4,
    /// Something with colons that is no address in brackets.
    #[error("an IPv6 address is written in brackets, such as [2001:db8::1]")]
    Ipv6,
    /// The port is no number, or nobody has it.
    #[error("its port is no number from 1 to 65535")]
    Port,
}

/// Checks `HOST` or `HOST:PORT`, as it stands in a URL.
///
/// # Errors
/// [`AuthorityError`] says what is wrong.
pub fn check_authority(authority: &str) -> Result<(), AuthorityError> {
    if authority.contains('@') {
        return Err(AuthorityError::User);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(AuthorityError::Ipv6)?;
            address
                .parse::<Ipv6Addr>()
                .map_err(|_| AuthorityError::Ipv6)?;
            (None, port)
        }
        None => {
            let colon = authority.find(':').unwrap_or(authority.len());
            let (name, port) = authority.split_at(colon);
            if port.matches(':').count() > 1 {
                return Err(AuthorityError::Ipv6);
            }
            (Some(name), port)
        }
    };
    host.map_or(Ok(()), check_name)?;
    match port.strip_prefix(':') {
        Some(port) => check_port(port),
        None if port.is_empty() => Ok(()),
        None => Err(AuthorityError::Ipv6),
    }
}

fn check_name(name: &str) -> Result<(), AuthorityError> {
    if name.is_empty() {
        return Err(AuthorityError::NoHost);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=MAX_LABEL_LEN).contains(&label.len())
            && label.bytes().all(of_name)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > MAX_NAME_LEN || !name.split('.').all(is_label) {
        return Err(AuthorityError::Host);
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    match is_number && name.parse::<Ipv4Addr>().is_err() {
        true => Err(AuthorityError::Ipv4),
        false => Ok(()),
    }
}

/// Digits alone, without zeros in front: a comparison of texts would take two texts of one port for
/// two names.
fn check_port(port: &str) -> Result<(), AuthorityError> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    match port.parse::<u16>() {
        Ok(_) if is_number => Ok(()),
        _ => Err(AuthorityError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_that_can_be_looked_up_and_a_port_that_there_is() {
        for good in [
            "id.test",
            "id.test:1",
            "id.test:65535",
            "ID.Test.",
            "log_host.example:9200",
            "localhost",
            "xn--bcher-kva.example",
            "192.0.2.7:8443",
            "[2001:db8::1]",
            "[::1]:8443",
            "[::ffff:192.0.2.7]:8443",
        ] {
            assert_eq!(check_authority(good), Ok(()), "{good}");
        }
        let long = format!("{}.example", "a".repeat(MAX_LABEL_LEN + 1));
        let longer = format!("{}example", "a.".repeat(124));
        for (wrong, error) in [
            ("", AuthorityError::NoHost),
            (":443", AuthorityError::NoHost),
            ("me@id.test", AuthorityError::User),
            ("me:pw@id.test", AuthorityError::User),
            ("id.test:", AuthorityError::Port),
            ("id.test:0", AuthorityError::Port),
            ("id.test:65536", AuthorityError::Port),
            ("id.test:99999", AuthorityError::Port),
            ("id.test:https", AuthorityError::Port),
            ("id.test:+443", AuthorityError::Port),
            ("id.test:-1", AuthorityError::Port),
            ("id.test:0443", AuthorityError::Port),
            ("[::1]:99999", AuthorityError::Port),
            ("a..b", AuthorityError::Host),
            (".", AuthorityError::Host),
            (".id.test", AuthorityError::Host),
            ("-id.test", AuthorityError::Host),
            ("id-.test", AuthorityError::Host),
            ("id test", AuthorityError::Host),
            ("bücher.example", AuthorityError::Host),
            ("id%2e.test", AuthorityError::Host),
            ("id.test\\", AuthorityError::Host),
            (&long, AuthorityError::Host),
            (&longer, AuthorityError::Host),
            ("10.0.0.300", AuthorityError::Ipv4),
            ("1.2.3:8443", AuthorityError::Ipv4),
            ("2130706433", AuthorityError::Ipv4),
            ("2001:db8::1", AuthorityError::Ipv6),
            ("[2001:db8::1", AuthorityError::Ipv6),
            ("[2001:db8::1]8443", AuthorityError::Ipv6),
            ("[192.0.2.7]", AuthorityError::Ipv6),
            ("[fe80::1%eth0]", AuthorityError::Ipv6),
            ("[]", AuthorityError::Ipv6),
        ] {
            assert_eq!(check_authority(wrong), Err(error), "{wrong}");
        }
    }
}

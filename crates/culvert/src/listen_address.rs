//! Addresses to listen on, as options name them.

use culvert_base::quoted;
use std::net::{IpAddr, SocketAddr};

/// An address and a port to listen on.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let example = "such as 127.0.0.1:8443, or [::]:8443 for every address";
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_port = port.parse::<u16>().is_ok();
    Err(if let Ok(address) = bare.parse::<IpAddr>() {
        let address = SocketAddr::new(address, 8443).to_string();
        let address = address.trim_end_matches("8443");
        format!("the port is missing: write {address}PORT")
    } else if is_port && host.is_empty() {
        format!("that is a port alone: write 127.0.0.1:{port}, or [::]:{port} for every address")
    } else if is_port && host.parse::<IpAddr>().is_ok() {
        format!("write an IPv6 address in brackets: [{host}]:{port}")
    } else if is_port {
        let host = quoted(host);
        format!("{host} is no address: write an address of this machine and no name, {example}")
    } else {
        format!("write an address and a port, {example}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_answered_with_a_right_one() {
        for (wrong, right) in [
            ("8443", "127.0.0.1:8443"),
            (":8443", "[::]:8443"),
            ("localhost:8444", "127.0.0.1:8443"),
            ("127.0.0.1", "127.0.0.1:PORT"),
            ("::1", "[::1]:PORT"),
            ("[::1]", "[::1]:PORT"),
            ("fe80:::8443", "[fe80::]:8443"),
            ("*:80", "[::]:8443"),
            ("127.0.0.1:99999", "127.0.0.1:8443"),
            ("", "127.0.0.1:8443"),
        ] {
            let error = listen_address(wrong).unwrap_err();
            assert!(error.contains(right), "{wrong:?}: {error}");
        }
    }
}

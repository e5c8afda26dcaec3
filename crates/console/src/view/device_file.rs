//! The file of a plain WireGuard device, as a part of a page. A script fills the private key in, and draws the file.

use culvert_wire::api::PlainClientFile;

/// Characters of the name of a tunnel: Linux and the app for Android take no more.
const MAX_TUNNEL_NAME_LEN: usize = 15;

/// Characters of the key that opens the private key in the browser: 32 bytes in Base64.
const SEAL_LEN: usize = 44;

/// A file, without the private key.
#[derive(Clone, Debug)]
pub(crate) struct DeviceFile {
    /// The name of the device.
    pub(crate) device: String,
    /// The name of the tunnel, which is that of the file.
    pub(crate) tunnel: String,
    /// Its contents.
    pub(crate) text: String,
    /// The public key, by which the browser finds the private one that it made.
    pub(crate) public_key: String,
    /// The key that opens the private key in the browser that made it; empty if it made none.
    pub(crate) seal: String,
}

impl DeviceFile {
    /// The file of a device. `seal` came from the form for a key that the browser made.
    pub(crate) fn new(file: &PlainClientFile, seal: Option<&str>) -> Self {
        let client = &file.client;
        Self {
            device: client.name.clone(),
            tunnel: tunnel_name(&client.name),
            text: file.file.clone(),
            public_key: client.public_key.to_string(),
            seal: seal
                .filter(|seal| is_seal(seal))
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

fn is_seal(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    text.len() == SEAL_LEN && text.bytes().all(is_base64)
}

/// A name for the tunnel: the apps and `wg-quick` take it from the name of the file.
fn tunnel_name(device: &str) -> String {
    let mut name = String::new();
    for char in device.chars() {
        match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(char),
            // One hyphen for all between two words.
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
        if name.len() == MAX_TUNNEL_NAME_LEN {
            break;
        }
    }
    match name.trim_end_matches('-') {
        "" => "culvert".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_that_every_app_takes_as_that_of_a_tunnel() {
        for (device, name) in [
            ("phone", "phone"),
            ("Ada's phone (new)", "Ada-s-phone-new"),
            ("router in the basement", "router-in-the-b"),
            ("fifteen letters", "fifteen-letters"),
            ("fifteen letter \u{fc}", "fifteen-letter"),
            ("../../etc/passwd", "etc-passwd"),
            ("\u{5bb6}", "culvert"),
            ("", "culvert"),
        ] {
            assert_eq!(tunnel_name(device), name);
            assert!(name.len() <= MAX_TUNNEL_NAME_LEN);
        }
    }

    #[test]
    fn a_seal_is_32_bytes_in_base64_and_no_other_text() {
        assert!(is_seal("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="));
        for other in ["", "AQ==", "\"><script>AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
            assert!(!is_seal(other), "{other}");
        }
    }
}

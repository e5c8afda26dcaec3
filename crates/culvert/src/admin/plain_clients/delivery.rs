//! The key of a device, and the way of its file to the user.

use super::super::common::usage;
use super::super::credentials::SecretFile;
use super::super::output::{Format, note, print_json, print_line};
use super::key_arguments::KeyArguments;
use super::qr;
use crate::exit::{Failure, Status, print_once};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_base::quoted;
use culvert_session::PrivateKey;
use culvert_wire::PublicKey;
use culvert_wire::api::{PRIVATE_KEY_PLACEHOLDER, PlainClientFile};
use std::io::IsTerminal;
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of a private key (X25519).
const KEY_LEN: usize = 32;

/// The key of a device.
pub(super) enum Key {
    /// The private key is on the device.
    Given(PublicKey),
    /// Of a pair that is made here.
    New(PrivateKey),
}

impl Key {
    pub(super) fn given_or_new(given: Option<PublicKey>) -> Result<Self, Failure> {
        if let Some(public) = given {
            return Ok(Self::Given(public));
        }
        let mut random = Zeroizing::new([0; KEY_LEN]);
        getrandom::fill(random.as_mut_slice()).map_err(|error| {
            let what = format_args!("drawing random bytes for a key: {error}");
            Failure::new(Status::Failed, what)
        })?;
        Ok(Self::New(PrivateKey::from_bytes(*random)))
    }

    pub(super) fn public(&self) -> PublicKey {
        match self {
            Self::Given(public) => *public,
            Self::New(private) => private.public_key(),
        }
    }

    pub(super) const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// The file, with the private key where there is one.
    fn fill_in(&self, file: &PlainClientFile) -> Result<Zeroizing<String>, Failure> {
        let Self::New(private) = self else {
            return Ok(Zeroizing::new(file.file.clone()));
        };
        let Some((before, after)) = file.file.split_once(PRIVATE_KEY_PLACEHOLDER) else {
            return Err(Failure::new(
                Status::Failed,
                "the portal's file has no place for the private key: is it of another version?",
            ));
        };
        let private = Zeroizing::new(STANDARD.encode(private.as_bytes()));
        // In one piece, so that no shorter copy of it stays in memory.
        let len = before.len() + private.len() + after.len();
        let mut text = Zeroizing::new(String::with_capacity(len));
        text.push_str(before);
        text.push_str(&private);
        text.push_str(after);
        Ok(text)
    }
}

/// The place of a file.
enum Place {
    /// Standard output.
    Output,
    /// A new file.
    File(SecretFile),
    /// Nowhere: it is drawn.
    None,
}

/// The way of a device's file to the user. It is made before the device is, so that no key is made which nobody gets.
pub(super) struct Delivery {
    format: Format,
    place: Place,
    draws: bool,
}

impl Delivery {
    /// Says what is wrong in the words of the command line before anything is asked, and makes the file.
    pub(super) fn prepare(format: Format, arguments: &KeyArguments) -> Result<Self, Failure> {
        let is_json = format == Format::Json;
        let to_output = arguments.out.as_deref() == Some(Path::new("-"));
        if is_json && (to_output || arguments.qr) {
            return Err(usage(
                "the JSON has no private key: write the file by --out FILE, and leave --qr out",
            ));
        }
        if to_output && arguments.qr {
            return Err(usage(
                "standard output is one thing: the file (--out -) or the code (--qr)",
            ));
        }
        if arguments.public_key.is_none() && arguments.out.is_none() && !arguments.qr {
            return Err(usage(
                "say where the private key goes: --out FILE, --out - or --qr; or make the key pair on the device, \
                 and give its public key by --public-key KEY",
            ));
        }
        if arguments.qr && !std::io::stdout().is_terminal() {
            return Err(usage(
                "--qr draws on a terminal, and standard output is none: use --out FILE",
            ));
        }
        let place = match &arguments.out {
            Some(path) if !to_output => Place::File(SecretFile::create(path)?),
            None if arguments.qr => Place::None,
            Some(_) | None => Place::Output,
        };
        Ok(Self {
            format,
            place,
            draws: arguments.qr,
        })
    }

    /// Hands the file over. On an error, the user may have nothing of it.
    pub(super) fn deliver(
        self,
        done: &str,
        file: &PlainClientFile,
        key: &Key,
    ) -> Result<(), Failure> {
        let text = key.fill_in(file)?;
        if self.draws {
            print_once(qr::drawn(&text)?.as_bytes())?;
        }
        let (name, id) = (quoted(&file.client.name), file.client.id);
        let path = match self.place {
            Place::File(secret) => Some(secret.write(text.trim_end())?),
            Place::Output if self.format == Format::Table => {
                print_once(text.as_bytes())?;
                None
            }
            Place::Output | Place::None => None,
        };
        match (self.format, path) {
            (Format::Json, _) => print_json(file)?,
            (Format::Table, Some(path)) => {
                let path = path.display();
                print_line(format_args!(
                    "device {name} {done}, its file written to {path} ({id})"
                ))?;
            }
            (Format::Table, None) => note(format_args!("device {name} {done} ({id})")),
        }
        if self.format == Format::Table {
            say_limits(file, key.is_new());
        }
        Ok(())
    }
}

/// The file without its DNS server.
pub(super) fn without_dns(mut file: PlainClientFile) -> PlainClientFile {
    let lines = file.file.split_inclusive('\n');
    file.file = lines.filter(|line| !line.starts_with("DNS = ")).collect();
    file.dns.clear();
    file
}

/// Prints the file without its private key.
pub(super) fn print(format: Format, file: &PlainClientFile) -> Result<(), Failure> {
    if format == Format::Json {
        return print_json(file);
    }
    print_line(file.file.trim_end())?;
    say_limits(file, false);
    Ok(())
}

/// Writes the file, without its private key, to `path`.
pub(super) fn print_file(
    format: Format,
    file: &PlainClientFile,
    path: &Path,
) -> Result<(), Failure> {
    let written = SecretFile::create(path)?.write(file.file.trim_end())?;
    let name = quoted(&file.client.name);
    let sentence = format!("the file of {name} written to {}", written.display());
    format.done(file, sentence)?;
    if format == Format::Table {
        say_limits(file, false);
    }
    Ok(())
}

/// All that can't work, beside the file itself.
fn say_limits(file: &PlainClientFile, has_key: bool) {
    if !has_key {
        note("The private key is on the device: write it into the line PrivateKey.");
    }
    file.limits.iter().for_each(note);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 6.1: Alice's key.
    const PRIVATE: [u8; KEY_LEN] = [
        0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66,
        0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9,
        0x2c, 0x2a,
    ];

    fn file(text: &str) -> PlainClientFile {
        let client = serde_json::json!({
            "id": format!("cli_{}", "0".repeat(26)), "actor": format!("act_{}", "0".repeat(26)),
            "name": "phone", "public_key": Key::New(PrivateKey::from_bytes(PRIVATE)).public(),
            "ipv4": "100.64.0.9", "ipv6": "fd00::9", "version": 1,
            "created": "2026-11-30T00:00:00Z", "updated": "2026-11-30T00:00:00Z",
        });
        PlainClientFile {
            client: serde_json::from_value(client).unwrap(),
            addresses: Vec::new(),
            peers: Vec::new(),
            dns: Vec::new(),
            persistent_keepalive_s: 25,
            file: text.to_owned(),
            limits: Vec::new(),
        }
    }

    #[test]
    fn a_new_key_takes_the_place_that_the_portal_left_for_it() {
        let text = format!("[Interface]\nPrivateKey = {PRIVATE_KEY_PLACEHOLDER}\n");
        let key = Key::New(PrivateKey::from_bytes(PRIVATE));
        let filled = key.fill_in(&file(&text)).unwrap();
        // Clamped, as `wg genkey` makes them.
        let expected = "[Interface]\nPrivateKey = cAdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LGo=\n";
        assert_eq!(filled.as_str(), expected);
        let given = Key::Given(key.public());
        assert_eq!(given.fill_in(&file(&text)).unwrap().as_str(), text);
        let failure = key.fill_in(&file("[Interface]\n")).unwrap_err();
        assert!(failure.to_string().contains("no place"), "{failure}");
    }

    #[test]
    fn a_file_without_a_dns_server_is_the_same_but_for_that_line() {
        let mut with = file("[Interface]\nDNS = 100.64.0.1\n\n[Peer]\nEndpoint = DNS = x\n");
        with.dns = vec!["100.64.0.1".parse().unwrap()];
        let without = without_dns(with);
        assert_eq!(without.file, "[Interface]\n\n[Peer]\nEndpoint = DNS = x\n");
        assert!(without.dns.is_empty());
    }

    #[test]
    fn two_new_keys_differ_and_a_given_one_stays() {
        let [first, second] = [(), ()].map(|()| Key::given_or_new(None).unwrap());
        assert!(first.is_new() && first.public() != second.public());
        let given = Key::given_or_new(Some(first.public())).unwrap();
        assert!(!given.is_new() && given.public() == first.public());
    }
}

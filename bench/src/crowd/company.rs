//! The peers: their keys and their ranges follow from their numbers.

use culvert_session::{PrivateKey, PublicKey};
use std::fmt::Write as _;

/// The numbers of some peers.
pub(super) struct Company {
    members: Vec<Member>,
}

/// A peer.
#[derive(Clone, Copy)]
pub(super) struct Member {
    number: u32,
    pub(super) public_key: PublicKey,
}

impl Company {
    pub(super) fn of(peers: u32) -> Self {
        let members = (0..peers).map(|number| Member {
            number,
            public_key: private_key(number).public_key(),
        });
        Self {
            members: members.collect(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn member(&self, number: u32) -> Member {
        self.members[number as usize]
    }
}

impl Member {
    pub(super) fn private_key(self) -> PrivateKey {
        private_key(self.number)
    }

    /// The line that begins its part of a request.
    pub(super) fn line(self) -> String {
        format!("public_key={}\n", hex(self.public_key.as_bytes()))
    }

    /// The line of its range.
    pub(super) fn range(self) -> String {
        let [_, a, b, c] = self.number.to_be_bytes();
        format!("allowed_ip=10.{a}.{b}.{c}/32\n")
    }
}

/// The program's own key.
pub(super) fn own_key() -> PrivateKey {
    PrivateKey::from_bytes([0x77; 32])
}

/// The request that configures the program for all of them, and lets it listen at `port`.
pub(super) fn configuration(company: &Company, port: Option<u16>) -> String {
    let mut text = String::from("set=1\n");
    if let Some(port) = port {
        let key = hex(own_key().as_bytes());
        let _written = write!(text, "private_key={key}\nlisten_port={port}\n");
    }
    for member in &company.members {
        text += &member.line();
        text += &member.range();
    }
    text + "\n"
}

fn private_key(number: u32) -> PrivateKey {
    let mut key = [0x5a; 32];
    key[8..12].copy_from_slice(&number.to_be_bytes());
    PrivateKey::from_bytes(key)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _written = write!(text, "{byte:02x}");
        text
    })
}

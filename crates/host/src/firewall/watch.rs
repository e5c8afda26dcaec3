//! Hearing at once that a table of ours was changed, by whomever.

use std::io;
use std::time::Duration;

use culvert_netlink::packet::NlasIterator;
use culvert_netlink::{Messages, Protocol, Socket};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::netlink::{is_overflow, receive, register};
use crate::{HostError, InterfaceName};

/// `NFNLGRP_NFTABLES` of `linux/netfilter/nfnetlink.h`: changes of tables and their contents.
const GROUP: u32 = 7;

/// The high byte of a message's kind: `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;

/// The low byte of the message that ends a transaction and says whose it was: `NFT_MSG_NEWGEN`.
const NEW_GENERATION: u16 = 15;

/// The first attribute of every other message: the name of its table.
const TABLE: u16 = 1;

/// The attribute of [`NEW_GENERATION`] with the name of the program (`NFTA_GEN_PROC_NAME`).
const PROGRAM: u16 = 3;

/// The length of `struct nfgenmsg`, which stands before the attributes.
const GENERAL_LEN: usize = 4;

/// The time for which changes are gathered: a transaction that comes in several datagrams is looked
/// at once, and a hole that it opened does not stay open for long.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Watches the tables of one interface, in the namespace in which it was opened.
///
/// A notice may come from a change of our own, or mean nothing: it says only that it is time to
/// look.
pub struct FirewallWatch {
    socket: AsyncFd<Socket>,
    buffer: Vec<u8>,
    tables: [String; 2],
    /// The time at which to tell, if something was heard since the last notice.
    due: Option<Instant>,
    /// The program that made the newest change, as far as the kernel says.
    program: Option<String>,
}

impl FirewallWatch {
    /// Begins to listen. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The system's: such as that this process lacks `CAP_NET_ADMIN`.
    pub fn open(interface: &InterfaceName) -> Result<Self, HostError> {
        let open = || -> io::Result<AsyncFd<Socket>> {
            // The first 32 groups can be joined by their bits.
            let socket = Socket::open(Protocol::Netfilter, 1 << (GROUP - 1))?;
            register(socket)
        };
        let socket = open()
            .map_err(|error| HostError::system("listen for changes of the firewall", error))?;
        let of_applications = super::applications::rules::table_of(interface);
        Ok(Self {
            socket,
            buffer: Vec::new(),
            tables: [super::rules::table_of(interface), of_applications],
            due: None,
            program: None,
        })
    }

    /// Waits until a table may have been changed, and the changes have settled; returns by which program,
    /// where the kernel says so.
    ///
    /// Dropping the future loses nothing: the next call goes on where this one was.
    ///
    /// # Errors
    /// The system's; the watch is of no more use then.
    pub async fn changed(&mut self) -> Result<Option<String>, HostError> {
        loop {
            match self.due {
                None => {
                    if self.hear().await? {
                        self.due = Some(Instant::now() + DEBOUNCE);
                    }
                }
                Some(due) => match tokio::time::timeout_at(due, self.hear()).await {
                    Ok(heard) => drop(heard?),
                    Err(_) => {
                        self.due = None;
                        return Ok(self.program.take());
                    }
                },
            }
        }
    }

    /// Waits for the next datagram; returns whether it is about our tables. Lost ones are.
    async fn hear(&mut self) -> Result<bool, HostError> {
        match receive(&self.socket, &mut self.buffer).await {
            Ok(()) => {
                let heard = Heard::of(&self.buffer, &self.tables);
                // The end of a transaction may come in a datagram after what it did.
                if (heard.is_ours || self.due.is_some()) && heard.program.is_some() {
                    self.program = heard.program;
                }
                Ok(heard.is_ours)
            }
            Err(error) if is_overflow(&error) => Ok(true),
            Err(error) => Err(HostError::system(
                "listen for changes of the firewall",
                error,
            )),
        }
    }
}

impl std::fmt::Debug for FirewallWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirewallWatch")
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// The content of a datagram.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Something of ours was changed, or nobody can tell.
    is_ours: bool,
    /// The program that made the change.
    program: Option<String>,
}

impl Heard {
    fn of(datagram: &[u8], tables: &[String]) -> Self {
        let mut heard = Self::default();
        for message in Messages::of(datagram) {
            let Ok(message) = message else {
                heard.is_ours = true;
                return heard;
            };
            let kind = message.message_type();
            if kind >> 8 == SUBSYSTEM {
                heard.take(kind & 0xff, message.payload(), tables);
            }
        }
        heard
    }

    fn take(&mut self, kind: u16, payload: &[u8], tables: &[String]) {
        let attributes = payload.get(GENERAL_LEN..).unwrap_or_default();
        if kind == NEW_GENERATION {
            self.program = text(attributes, PROGRAM).or(self.program.take());
        } else {
            let table = text(attributes, TABLE);
            // One without a table's name is of a kind that is not known here.
            self.is_ours |= table.is_none_or(|table| tables.contains(&table));
        }
    }
}

/// The text of an attribute (`struct nlattr`), up to its closing zero.
fn text(attributes: &[u8], wanted: u16) -> Option<String> {
    let found = NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|attribute| attribute.kind() == wanted)?;
    let text = found.value().split(|byte| *byte == 0).next();
    Some(String::from_utf8_lossy(text.unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, attributes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + GENERAL_LEN + attributes.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend((SUBSYSTEM << 8 | kind).to_ne_bytes());
        bytes.extend([0; 10 + GENERAL_LEN]);
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn what_is_about_other_tables_is_nobodys_news_and_the_program_is_named() {
        let tables = ["culvert_cv0".to_owned()];
        let deleted = |name: &[u8]| message(2, &attribute(TABLE, name));
        let id = attribute(2, &7_u32.to_be_bytes());
        let end = message(
            NEW_GENERATION,
            &[id, attribute(PROGRAM, b"firewalld\0")].concat(),
        );
        let others = [deleted(b"filter\0"), end.clone()].concat();
        let heard = Heard::of(&others, &tables);
        assert_eq!(
            (heard.is_ours, heard.program.as_deref()),
            (false, Some("firewalld"))
        );
        let ours = [deleted(b"filter\0"), deleted(b"culvert_cv0\0"), end].concat();
        let heard = Heard::of(&ours, &tables);
        assert_eq!(
            (heard.is_ours, heard.program.as_deref()),
            (true, Some("firewalld"))
        );
    }

    #[test]
    fn what_can_not_be_read_may_be_ours() {
        let tables = ["culvert_cv0".to_owned()];
        let whole = message(2, &attribute(TABLE, b"filter\0"));
        for cut in 1..whole.len() {
            assert!(Heard::of(&whole[..cut], &tables).is_ours, "{cut}");
        }
        assert!(Heard::of(&message(2, &[]), &tables).is_ours);
        assert!(!Heard::of(&[], &tables).is_ours);
    }
}

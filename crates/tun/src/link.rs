//! Requests about a link, and its state, as rtnetlink writes them.

use std::io;

use culvert_netlink::packet::{NLM_F_CREATE, NLM_F_REPLACE, Nla};
use culvert_netlink::route::link::{
    InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use culvert_netlink::route::tc::{TcAttribute, TcHandle, TcMessage};
use culvert_netlink::route::{AddressFamily, RouteNetlinkMessage};
use culvert_netlink::{Socket, exchange};

/// `IFLA_TUN_NUM_QUEUES` of `linux/if_link.h`: the number of queues in use.
const IFLA_TUN_NUM_QUEUES: u16 = 8;

/// The part of a link that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) up: bool,
    pub(crate) mtu: Option<u32>,
    /// The number of its queues in use, if it is a TUN device.
    pub(crate) tun_queues: Option<u32>,
}

impl Link {
    /// The state in a message. Messages of a bridge about its port (family `AF_BRIDGE`) are not about the link itself: a
    /// port that leaves its bridge is not deleted.
    pub(crate) fn of(message: &LinkMessage) -> Option<Self> {
        if message.header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let mut link = Self {
            index: message.header.index,
            up: message.header.flags.contains(LinkFlags::Up),
            mtu: None,
            tun_queues: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => link.mtu = Some(*mtu),
                LinkAttribute::LinkInfo(infos) => link.tun_queues = tun_queues(infos),
                _ => {}
            }
        }
        Some(link)
    }

    /// Asks for the state of a link.
    pub(crate) fn read(socket: &Socket, index: u32) -> io::Result<Self> {
        let request = RouteNetlinkMessage::GetLink(message(index));
        let entries = exchange(socket, request, 0)?;
        let mut links = entries.iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewLink(message) => Self::of(message),
            _ => None,
        });
        links
            .next()
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Changes attributes of a link.
pub(crate) fn change(
    socket: &Socket,
    index: u32,
    attributes: Vec<LinkAttribute>,
) -> io::Result<()> {
    let mut message = message(index);
    message.attributes = attributes;
    exchange(socket, RouteNetlinkMessage::NewLink(message), 0).map(drop)
}

/// Deletes a link.
pub(crate) fn delete(socket: &Socket, index: u32) -> io::Result<()> {
    exchange(socket, RouteNetlinkMessage::DelLink(message(index)), 0).map(drop)
}

/// Makes the queueing discipline `kind` the root of a link, in place of what is there.
pub(crate) fn set_root_discipline(socket: &Socket, index: u32, kind: &str) -> io::Result<()> {
    let mut message = TcMessage::default();
    message.header.index = index.cast_signed();
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind(kind.to_owned()));
    let request = RouteNetlinkMessage::NewQueueDiscipline(message);
    exchange(socket, request, NLM_F_CREATE | NLM_F_REPLACE).map(drop)
}

/// A message about a link that changes nothing of it.
fn message(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn tun_queues(infos: &[LinkInfo]) -> Option<u32> {
    let data = infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Tun(data)) => Some(data),
        _ => None,
    })?;
    // The library names none of a TUN device's attributes.
    data.iter().find_map(|info| match info {
        InfoTun::Other(attribute) if attribute.kind() == IFLA_TUN_NUM_QUEUES => {
            let mut value = [0; size_of::<u32>()];
            (attribute.value_len() == value.len()).then(|| {
                attribute.emit_value(&mut value);
                u32::from_ne_bytes(value)
            })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use culvert_netlink::packet::DefaultNla;
    use culvert_netlink::route::link::InfoKind;

    use super::*;

    #[test]
    fn the_queues_in_use_are_read_of_a_tun_device_alone() {
        let of = |kind: u16, value: &[u8]| {
            let other = |kind, value: &[u8]| InfoTun::Other(DefaultNla::new(kind, value.to_vec()));
            let data = vec![other(1, &[9, 0, 0, 0]), other(kind, value)];
            let mut message = message(7);
            let infos = vec![
                LinkInfo::Kind(InfoKind::Tun),
                LinkInfo::Data(InfoData::Tun(data)),
            ];
            message.attributes.push(LinkAttribute::LinkInfo(infos));
            Link::of(&message).unwrap().tun_queues
        };
        assert_eq!(of(IFLA_TUN_NUM_QUEUES, &3_u32.to_ne_bytes()), Some(3));
        assert_eq!(of(IFLA_TUN_NUM_QUEUES, &[3]), None, "one byte is no number");
        assert_eq!(of(7, &3_u32.to_ne_bytes()), None);
    }

    #[test]
    fn a_message_of_a_bridge_is_not_about_the_link() {
        let mut message = message(7);
        assert!(Link::of(&message).is_some());
        message.header.interface_family = AddressFamily::Bridge;
        assert_eq!(Link::of(&message), None);
    }
}

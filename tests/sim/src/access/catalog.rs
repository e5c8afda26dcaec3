//! The objects of a run: ids, keys and addresses by number.

use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, ID_LEN, MembershipId, PolicyId, ResourceId,
    SiteId, TokenId,
};
use culvert_policy::Service;
use culvert_wire::PublicKey;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Unix time at the beginning of every run by a clock that is right, in milliseconds: a Friday,
/// 08:00 in UTC.
pub const START_UNIX_MS: u64 = 1_800_000_000_000;

pub(crate) const ACCOUNT: AccountId = AccountId::from_bytes([0xac; ID_LEN]);

/// A machine on one side of the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    /// The client of this number.
    Client(usize),
    /// The gateway of this number.
    Gateway(usize),
}

/// The destination of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// To an address.
    Address(IpAddr),
    /// To a name, by its IPv4 address.
    Name4(&'static str),
    /// To a name, by its IPv6 address.
    Name6(&'static str),
}

/// The service that an application wants there.
pub type Wanted = Service;

/// Numbers make ids that sort by them, as if the smaller had been born earlier.
fn numbered(number: u16) -> [u8; ID_LEN] {
    let mut bytes = [0; ID_LEN];
    bytes[ID_LEN - 2..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The actor of this number.
pub fn actor(number: u16) -> ActorId {
    ActorId::from_bytes(numbered(number))
}

/// The group of this number.
pub fn group(number: u16) -> GroupId {
    GroupId::from_bytes(numbered(number))
}

/// The site of this number.
pub fn site(number: u16) -> SiteId {
    SiteId::from_bytes(numbered(number))
}

/// The resource of this number.
pub fn resource(number: u16) -> ResourceId {
    ResourceId::from_bytes(numbered(number))
}

/// The policy of this number.
pub fn policy(number: u16) -> PolicyId {
    PolicyId::from_bytes(numbered(number))
}

pub(crate) fn client_id(number: u16) -> ClientId {
    ClientId::from_bytes(numbered(number))
}

pub(crate) fn gateway_id(number: u16) -> GatewayId {
    GatewayId::from_bytes(numbered(number))
}

/// The membership of an actor in a group.
pub fn membership(actor_number: u16, group_number: u16) -> MembershipId {
    MembershipId::from_bytes(numbered(actor_number * 256 + group_number))
}

/// The token with which an actor's clients come.
pub fn client_token(actor_number: u16) -> TokenId {
    TokenId::from_bytes(numbered(actor_number))
}

/// The token with which a site's gateways come.
pub fn gateway_token(site_number: u16) -> TokenId {
    TokenId::from_bytes(numbered(0x8000 + site_number))
}

/// The key that a machine makes at its `making`-th installation.
pub(crate) fn key(machine: Machine, making: u8) -> PublicKey {
    let (kind, number) = match machine {
        Machine::Client(number) => (1, number),
        Machine::Gateway(number) => (2, number),
    };
    let mut bytes = [kind; 32];
    bytes[1] = u8::try_from(number).unwrap_or(u8::MAX);
    bytes[2] = making;
    PublicKey::from_bytes(bytes)
}

/// Addresses inside the tunnel of the machine that enrolled as the `number`-th.
pub(crate) fn tunnel_addresses(number: u16) -> (Ipv4Addr, Ipv6Addr) {
    let [high, low] = number.to_be_bytes();
    let v6 = Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, number);
    (Ipv4Addr::new(100, 64, high, low), v6)
}

/// The network of clients at home, as a policy writes it.
pub const HOME: &str = "203.0.113.0/24";

/// A client's address in the outer network after so many moves; even ones are at home.
pub(crate) fn client_address(number: usize, moves: u16) -> SocketAddr {
    let host = u8::try_from(10 + number).unwrap_or(u8::MAX);
    let address = match moves.is_multiple_of(2) {
        true => Ipv4Addr::new(203, 0, 113, host),
        false => Ipv4Addr::new(198, 51, 100, host),
    };
    (address, 40_000 + moves).into()
}

/// A gateway's address in the outer network after so many moves.
pub(crate) fn gateway_address(number: usize, moves: u16) -> SocketAddr {
    let host = u8::try_from(10 + number).unwrap_or(u8::MAX);
    let [_, low] = moves.to_be_bytes();
    (Ipv4Addr::new(192, 0, 2 + low % 8, host), 51_820).into()
}

/// An address that a gateway offers and at which nobody reaches it.
pub(crate) fn decoy(number: usize) -> SocketAddr {
    let host = u8::try_from(10 + number).unwrap_or(u8::MAX);
    (Ipv4Addr::new(172, 31, 0, host), 51_820).into()
}

use crate::input::Input;
use culvert_base::Prefix;
use culvert_datapath::AllowedIps;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Ranges of one table; the trie is a few levels deep by then.
const MAX_RANGES: usize = 64;
/// Addresses looked up besides those of the ranges themselves.
const MAX_PROBES: usize = 32;

/// The table finds the owner that a search through all ranges finds.
///
/// # Panics
/// If a property does not hold.
pub fn allowed_ips(data: &[u8]) {
    let mut input = Input::new(data);
    let mut ranges = BTreeMap::new();
    for owner in 0..usize::from(input.u8()) % MAX_RANGES {
        let address = address(&mut input);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let len = input.u8();
        assert_eq!(Prefix::around(address, len).is_err(), len > bits);
        if let Ok(range) = Prefix::around(address, len % (bits + 1)) {
            ranges.insert(range, owner);
        }
    }
    let table = AllowedIps::new(&ranges);
    let assert_owner = |address| assert_eq!(table.owner(address), owner(&ranges, address));
    for range in ranges.keys() {
        assert_owner(range.address());
        assert_owner(flipped(range.address(), range.len().wrapping_sub(1)));
        assert_owner(flipped(range.address(), range.len()));
    }
    for _ in 0..MAX_PROBES {
        if input.is_empty() {
            break;
        }
        assert_owner(address(&mut input));
    }
}

fn owner(ranges: &BTreeMap<Prefix, usize>, address: IpAddr) -> Option<usize> {
    let holds = |range: &Prefix| Prefix::around(address, range.len()) == Ok(*range);
    ranges
        .iter()
        .filter(|(range, _)| range.address().is_ipv4() == address.is_ipv4() && holds(range))
        .max_by_key(|(range, _)| range.len())
        .map(|(_, owner)| *owner)
}

/// An address of few distinct bytes, so that ranges nest.
fn address(input: &mut Input<'_>) -> IpAddr {
    let choice = input.u8();
    let known = usize::from(choice >> 1) % 17;
    let mut octets = [0x11; 16];
    let taken = input.take(known);
    octets[..taken.len()].copy_from_slice(taken);
    match (choice % 2, octets.first_chunk::<4>()) {
        (0, Some(&octets)) => octets.into(),
        _ => octets.into(),
    }
}

/// The address with one bit changed; the same where it has no such bit.
fn flipped(address: IpAddr, bit: u8) -> IpAddr {
    let mask = 1_u128
        .checked_shl(127 - u32::from(bit).min(127))
        .unwrap_or(0);
    match address {
        IpAddr::V4(v4) if bit < 32 => IpAddr::V4((v4.to_bits() ^ (mask >> 96) as u32).into()),
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) if bit < 128 => IpAddr::V6((v6.to_bits() ^ mask).into()),
        IpAddr::V6(_) => address,
    }
}

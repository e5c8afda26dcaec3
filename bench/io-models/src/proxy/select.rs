//! `select`: the kernel is told both descriptors, and looks at both, for each packet.

use crate::ends::{Ends, FRAME_MAX_BYTES};
use crate::error::{Error, TUN, UDP, WAIT};
use nix::sys::select::{FdSet, select};
use std::convert::Infallible;

pub(super) fn run(ends: &Ends) -> Result<Infallible, Error> {
    let mut buffer = vec![0; FRAME_MAX_BYTES];
    loop {
        let mut readable = FdSet::new();
        readable.insert(ends.tun());
        readable.insert(ends.udp());
        select(None, &mut readable, None, None, None).map_err(Error::system(WAIT))?;
        if readable.contains(ends.tun()) {
            ends.forward_out(&mut buffer).map_err(Error::system(TUN))?;
        }
        if readable.contains(ends.udp()) {
            ends.forward_in(&mut buffer).map_err(Error::system(UDP))?;
        }
    }
}

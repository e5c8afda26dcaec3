//! `poll`: as `select`, with an array instead of sets.

use crate::ends::{Ends, FRAME_MAX_BYTES};
use crate::error::{Error, TUN, UDP, WAIT};
use rustix::event::{PollFd, PollFlags};
use std::convert::Infallible;

pub(super) fn run(ends: &Ends) -> Result<Infallible, Error> {
    let mut buffer = vec![0; FRAME_MAX_BYTES];
    loop {
        let ready = wait(ends)?;
        if ready.tun {
            ends.forward_out(&mut buffer).map_err(Error::system(TUN))?;
        }
        if ready.udp {
            ends.forward_in(&mut buffer).map_err(Error::system(UDP))?;
        }
    }
}

/// The descriptors that have something to read, or an error to tell.
pub(super) struct Ready {
    pub(super) tun: bool,
    pub(super) udp: bool,
}

/// Waits until one of them has.
pub(super) fn wait(ends: &Ends) -> Result<Ready, Error> {
    let (tun, udp) = (ends.tun(), ends.udp());
    let mut both = [
        PollFd::new(&tun, PollFlags::IN),
        PollFd::new(&udp, PollFlags::IN),
    ];
    rustix::event::poll(&mut both, None).map_err(Error::system(WAIT))?;
    let [tun, udp] = both.map(|one| !one.revents().is_empty());
    Ok(Ready { tun, udp })
}

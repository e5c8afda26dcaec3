//! `epoll`: the kernel remembers the descriptors, and returns those that are ready.

use crate::ends::{Ends, FRAME_MAX_BYTES};
use crate::error::{Error, TUN, UDP, WAIT};
use rustix::event::epoll;
use std::convert::Infallible;
use std::mem::MaybeUninit;

const TUN_TOKEN: u64 = 0;
const UDP_TOKEN: u64 = 1;

pub(super) fn run(ends: &Ends) -> Result<Infallible, Error> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system(WAIT))?;
    for (what, token) in [(ends.tun(), TUN_TOKEN), (ends.udp(), UDP_TOKEN)] {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&set, what, data, epoll::EventFlags::IN).map_err(Error::system(WAIT))?;
    }
    let mut buffer = vec![0; FRAME_MAX_BYTES];
    loop {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        let (ready, _) = epoll::wait(&set, &mut events, None).map_err(Error::system(WAIT))?;
        for event in ready {
            match event.data.u64() {
                TUN_TOKEN => ends.forward_out(&mut buffer).map_err(Error::system(TUN))?,
                _ => ends.forward_in(&mut buffer).map_err(Error::system(UDP))?,
            }
        }
    }
}

//! A thread for each direction: reads wait by themselves, and no call asks what is ready.

use crate::ends::{Ends, FRAME_MAX_BYTES};
use crate::error::{Error, TUN, UDP, WAIT};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

/// The threads outlive this call when one of them fails: the other waits in a read that nothing ends but
/// the end of the process.
pub(super) fn run(ends: &Arc<Ends>) -> Result<Infallible, Error> {
    ends.set_blocking().map_err(Error::system(WAIT))?;
    let (ended, first_end) = mpsc::channel();
    for (forward, action) in [
        (Ends::forward_out as fn(&Ends, &mut [u8]) -> _, TUN),
        (Ends::forward_in as fn(&Ends, &mut [u8]) -> _, UDP),
    ] {
        let (ends, ended) = (Arc::clone(ends), ended.clone());
        thread::spawn(move || {
            let Err(error) = repeat(|buffer| forward(&ends, buffer));
            let _nobody_hears = ended.send(Error::system(action)(error));
        });
    }
    match first_end.recv() {
        Ok(error) => Err(error),
        Err(_) => unreachable!("a sender is kept here"),
    }
}

fn repeat(mut forward: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<Infallible> {
    let mut buffer = vec![0; FRAME_MAX_BYTES];
    loop {
        forward(&mut buffer)?;
    }
}

//! Errors of a TUN queue, by what they mean for its user.

use std::io;

use rustix::io::Errno;

/// The meaning of an error of reading or writing a [`Queue`](crate::Queue).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No frame is there, or no room: wait until the queue is reported ready.
    NotReady,
    /// One frame is lost at most, and the next may pass.
    Passing,
    /// The interface was deleted: nothing will pass again.
    Gone,
    /// The descriptor is of no use: nothing will pass again.
    Broken,
}

/// The errors that are known. Memory is short for a moment (ENOMEM, ENOBUFS), the link is down (EIO, ENETDOWN), the call was
/// interrupted, the frame is bad (EINVAL, EMSGSIZE, EFAULT); or the interface was deleted (EBADFD from the queue, ENODEV
/// from the interface).
const FAULTS: [(Errno, Fault); 13] = [
    (Errno::AGAIN, Fault::NotReady),
    (Errno::INTR, Fault::Passing),
    (Errno::NOMEM, Fault::Passing),
    (Errno::NOBUFS, Fault::Passing),
    (Errno::IO, Fault::Passing),
    (Errno::NETDOWN, Fault::Passing),
    (Errno::INVAL, Fault::Passing),
    (Errno::MSGSIZE, Fault::Passing),
    (Errno::FAULT, Fault::Passing),
    (Errno::BADFD, Fault::Gone),
    (Errno::NODEV, Fault::Gone),
    (Errno::NXIO, Fault::Gone),
    (Errno::BADF, Fault::Broken),
];

impl Fault {
    /// The meaning of `error`. One that is not known is passing: to end a tunnel for it would be worse than to lose a frame.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let known = FAULTS
            .iter()
            .find(|(errno, _)| error.raw_os_error() == Some(errno.raw_os_error()));
        known.map_or(Self::Passing, |&(_, fault)| fault)
    }

    /// Whether nothing will pass again.
    #[must_use]
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::Gone | Self::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_pass_end_nothing_and_those_of_a_queue_that_is_gone_do() {
        let of = |errno: Errno| Fault::of(&errno.into());
        for passing in [
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::IO,
            Errno::INTR,
            Errno::INVAL,
            // Not in the table.
            Errno::PERM,
        ] {
            assert_eq!(of(passing), Fault::Passing, "{passing}");
            assert!(!of(passing).is_lasting());
        }
        assert_eq!(of(Errno::AGAIN), Fault::NotReady);
        for gone in [Errno::BADFD, Errno::NODEV] {
            assert_eq!(of(gone), Fault::Gone, "{gone}");
            assert!(of(gone).is_lasting());
        }
        assert!(of(Errno::BADF).is_lasting());
        assert_eq!(Fault::of(&io::Error::other("no errno")), Fault::Passing);
    }

    #[test]
    fn every_error_stands_in_the_table_once() {
        for (position, (errno, _)) in FAULTS.iter().enumerate() {
            let again = FAULTS[position + 1..]
                .iter()
                .any(|(other, _)| other == errno);
            assert!(!again, "{errno}");
        }
    }
}

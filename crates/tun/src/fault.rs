//! Errors of a TUN queue, by what they mean for its user.

use std::io;

use culvert_base::frames::QueueFault;
use rustix::io::Errno;

/// The errors that are known. Memory is short for a moment (ENOMEM, ENOBUFS), the link is down (EIO, ENETDOWN), or the
/// call was interrupted. The frame may be bad (EINVAL, EMSGSIZE, EFAULT). Or the interface was deleted (EBADFD from the
/// queue, ENODEV from the interface).
const FAULTS: [(Errno, QueueFault); 13] = [
    (Errno::AGAIN, QueueFault::NotReady),
    (Errno::INTR, QueueFault::Passing),
    (Errno::NOMEM, QueueFault::Passing),
    (Errno::NOBUFS, QueueFault::Passing),
    (Errno::IO, QueueFault::Down),
    (Errno::NETDOWN, QueueFault::Down),
    (Errno::INVAL, QueueFault::Refused),
    (Errno::MSGSIZE, QueueFault::Passing),
    (Errno::FAULT, QueueFault::Passing),
    (Errno::BADFD, QueueFault::Gone),
    (Errno::NODEV, QueueFault::Gone),
    (Errno::NXIO, QueueFault::Gone),
    (Errno::BADF, QueueFault::Broken),
];

/// The meaning of an error of a [`Queue`](crate::Queue). One that is not known is passing: to end a tunnel for it would be
/// worse than to lose a frame.
#[must_use]
pub fn queue_fault(error: &io::Error) -> QueueFault {
    let known = FAULTS
        .iter()
        .find(|(errno, _)| error.raw_os_error() == Some(errno.raw_os_error()));
    known.map_or(QueueFault::Passing, |&(_, fault)| fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_pass_end_nothing_and_those_of_a_queue_that_is_gone_do() {
        let of = |errno: Errno| queue_fault(&errno.into());
        for passing in [
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::INTR,
            // Not in the table.
            Errno::PERM,
        ] {
            assert_eq!(of(passing), QueueFault::Passing, "{passing}");
            assert!(!of(passing).is_lasting());
        }
        for (errno, fault) in [
            (Errno::IO, QueueFault::Down),
            (Errno::INVAL, QueueFault::Refused),
            (Errno::AGAIN, QueueFault::NotReady),
        ] {
            assert_eq!(of(errno), fault, "{errno}");
            assert!(!fault.is_lasting());
        }
        for gone in [Errno::BADFD, Errno::NODEV] {
            assert_eq!(of(gone), QueueFault::Gone, "{gone}");
            assert!(of(gone).is_lasting());
        }
        assert!(of(Errno::BADF).is_lasting());
        assert_eq!(
            queue_fault(&io::Error::other("no errno")),
            QueueFault::Passing
        );
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

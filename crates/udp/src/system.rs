//! The system calls that no safe wrapper offers, each as one safe function.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::address::RawAddress;
use crate::control::ControlBuffer;

/// Sets an option of type int.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })
}

/// The mark of the packets that `socket` sends.
pub(crate) fn mark(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut mark: u32 = 0;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `mark`, and the length; both outlive the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw mut mark).cast::<c_void>(),
            &raw mut length,
        )
    })?;
    Ok(mark)
}

/// A number that stands for the network namespace of `socket` (Linux 5.14).
pub(crate) fn network_namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie: u64 = 0;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, and the length; both outlive the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast::<c_void>(),
            &raw mut length,
        )
    })?;
    Ok(cookie)
}

/// Lets the loaded BPF `program` choose among the sockets of a reuse-port group.
pub(crate) fn attach_program(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_ATTACH_REUSEPORT_EBPF,
        program.as_raw_fd(),
    )
}

/// Lets the classic BPF `program` choose among the sockets of a reuse-port group.
pub(crate) fn attach_classic_program(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads one `sock_fprog` and through it `len` instructions, all of which outlive the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast::<c_void>(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    check(result)
}

/// Bytes that are queued for sending and not yet handed to a device, headers and bookkeeping included (`SIOCOUTQ`).
pub(crate) fn unsent_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// Sends `data` to `to` with the messages of `control`, without blocking.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: &RawAddress,
    control: &ControlBuffer,
) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast::<c_void>(),
        iov_len: data.len(),
    };
    let control = control.as_bytes();
    let mut message = empty_message();
    message.msg_name = to.bytes.as_ptr().cast_mut().cast::<c_void>();
    message.msg_namelen = to.length as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !control.is_empty() {
        message.msg_control = control.as_ptr().cast_mut().cast::<c_void>();
        message.msg_controllen = control.len() as _;
    }
    loop {
        // SAFETY: the kernel only reads through the pointers of `message`: the address, the data and the control
        // messages, each with its length, all of which outlive the call.
        let sent = unsafe {
            libc::sendmsg(
                socket.as_raw_fd(),
                &raw const message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives into `messages`, each of which must point to memory that the kernel may write; returns how many it filled.
///
/// # Safety
/// The address, data and control pointers of each message must be valid for writes of the lengths beside them.
pub(crate) unsafe fn receive(
    socket: BorrowedFd<'_>,
    messages: &mut [libc::mmsghdr],
) -> io::Result<usize> {
    loop {
        // SAFETY: the kernel writes to `messages.len()` headers and through their pointers, which the caller vouches for.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if let Ok(received) = usize::try_from(received) {
            return Ok(received);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A message header that points nowhere.
pub(crate) fn empty_message() -> libc::msghdr {
    // SAFETY: `msghdr` is a C structure of pointers and integers, for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

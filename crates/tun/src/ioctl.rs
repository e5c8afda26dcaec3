//! The ioctls of `/dev/net/tun` (`linux/if_tun.h`), each as one safe function.

use std::ffi::{CStr, c_int, c_short, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use culvert_base::frames::VNET_HEADER_BYTES;

/// Bytes of an interface name with its terminating zero (`IFNAMSIZ`).
const NAME_BYTES: usize = libc::IFNAMSIZ;

/// Creates the interface `name` behind `tun`, or joins it, as `flags` (`IFF_…`) say; returns the name it got, with a
/// pattern such as `wg%d` filled in. `name` must be shorter than `IFNAMSIZ`.
pub(crate) fn attach(tun: BorrowedFd<'_>, name: &str, flags: c_int) -> io::Result<String> {
    let mut request = empty_request();
    for (slot, byte) in request.ifr_name[..NAME_BYTES - 1]
        .iter_mut()
        .zip(name.bytes())
    {
        // `c_char` has a sign on x86-64, and none on arm64.
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    // The kernel reads the field as sixteen unsigned bits; IFF_TUN_EXCL is the highest of them.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "all IFF_ flags of if_tun.h fit sixteen bits"
    )]
    let flags = flags as c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is and which outlives the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    Ok(name_of(&request))
}

/// The present name of the interface behind `tun`: it may have been renamed. `EBADFD` when the interface is gone.
pub(crate) fn current_name(tun: BorrowedFd<'_>) -> io::Result<String> {
    interface(tun).map(|(name, _)| name)
}

/// The same with its flags (`IFF_…`), of which one tells whether this very queue is in use. `tun` must be a descriptor of
/// `/dev/net/tun`: another driver may know the number of this request by another meaning.
pub(crate) fn interface(tun: BorrowedFd<'_>) -> io::Result<(String, c_int)> {
    let mut request = empty_request();
    // SAFETY: TUNGETIFF writes one `ifreq`, which `request` is and which outlives the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETIFF, &raw mut request) })?;
    // SAFETY: TUNGETIFF has just written the flags, and any bytes are a value of them.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((name_of(&request), c_int::from(flags.cast_unsigned())))
}

/// The network namespace of the interface behind `tun` (Linux 5.2).
pub(crate) fn namespace(tun: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: TUNGETDEVNETNS takes no argument, and touches no memory of ours.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETDEVNETNS) };
    check(result)?;
    // SAFETY: the kernel has just opened this descriptor for the caller, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Tells the kernel which unfinished packets (`TUN_F_…`) readers of the device understand. All or nothing: on an error
/// the earlier set stays.
pub(crate) fn set_offload(tun: BorrowedFd<'_>, features: c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours.
    check(unsafe {
        libc::ioctl(
            tun.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            c_ulong::from(features),
        )
    })
}

/// Fixes the length of the virtio-net header at [`VNET_HEADER_BYTES`].
pub(crate) fn set_header_size(tun: BorrowedFd<'_>) -> io::Result<()> {
    let bytes: c_int = VNET_HEADER_BYTES as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int, which outlives the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const bytes) })
}

/// Restricts who may attach a further queue to `user` (and to holders of CAP_NET_ADMIN).
pub(crate) fn set_owner(tun: BorrowedFd<'_>, user: u32) -> io::Result<()> {
    // SAFETY: TUNSETOWNER takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOWNER, c_ulong::from(user)) })
}

/// Lets the loaded BPF `program` choose the queue of every packet.
pub(crate) fn set_steering(tun: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_program(tun, libc::TUNSETSTEERINGEBPF, program.as_raw_fd())
}

/// Lets the loaded BPF `program` say how many bytes of a packet go into its queue; none, and the packet is dropped.
pub(crate) fn set_filter(tun: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_program(tun, libc::TUNSETFILTEREBPF, program.as_raw_fd())
}

/// Takes such a program away again.
pub(crate) fn clear_filter(tun: BorrowedFd<'_>) -> io::Result<()> {
    const NONE: c_int = -1;
    set_program(tun, libc::TUNSETFILTEREBPF, NONE)
}

fn set_program(tun: BorrowedFd<'_>, request: libc::Ioctl, program: c_int) -> io::Result<()> {
    // SAFETY: both requests that come here read one int, which outlives the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), request, &raw const program) })
}

fn empty_request() -> libc::ifreq {
    libc::ifreq {
        ifr_name: [0; NAME_BYTES],
        // `ifru_map` is the widest member: with it every byte the kernel may read is initialised.
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_map: libc::__c_anonymous_ifru_map {
                mem_start: 0,
                mem_end: 0,
                base_addr: 0,
                irq: 0,
                dma: 0,
                port: 0,
            },
        },
    }
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes: Vec<u8> = request
        .ifr_name
        .iter()
        .flat_map(|byte| byte.to_ne_bytes())
        .collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

//! Calls that take a packet.

use std::io::{self, IoSliceMut};

use culvert_base::frames::MAX_FRAME_BYTES;
use culvert_tun::Queue;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use rustix::fs::MemfdFlags;
use rustix::io::ReadWriteFlags;
use rustix::net::{RecvAncillaryBuffer, RecvFlags};
use rustix::pipe::SpliceFlags;
use std::os::fd::{AsFd, AsRawFd};

use super::outcome::Outcome;
use crate::ring::{Operation, Ring};

type Attempt = fn(&Queue) -> Outcome;

pub(super) const ATTEMPTS: [(&str, Attempt); 13] = [
    ("read", |queue| {
        let mut buffer = buffer();
        Outcome::of(rustix::io::read(queue, &mut buffer[..]), None)
    }),
    ("readv", |queue| {
        let (mut header, mut packet) = ([0; 10], buffer());
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut packet)];
        Outcome::of(rustix::io::readv(queue, &mut parts), None)
    }),
    ("pread", |queue| {
        let mut buffer = buffer();
        Outcome::of(rustix::io::pread(queue, &mut buffer[..], 0), None)
    }),
    ("preadv2, RWF_NOWAIT", |queue| {
        let mut buffer = buffer();
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let read = rustix::io::preadv2(queue, &mut parts, u64::MAX, ReadWriteFlags::NOWAIT);
        Outcome::of(read, None)
    }),
    ("recv", |queue| {
        let mut buffer = buffer();
        let received = rustix::net::recv(queue, &mut buffer[..], RecvFlags::DONTWAIT);
        Outcome::of(received.map(|(len, _)| len), None)
    }),
    ("recvfrom", |queue| {
        let mut buffer = buffer();
        let received = rustix::net::recvfrom(queue, &mut buffer[..], RecvFlags::DONTWAIT);
        Outcome::of(received.map(|(len, _, _)| len), None)
    }),
    ("recvmsg", |queue| {
        let mut buffer = buffer();
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let mut control = RecvAncillaryBuffer::default();
        let received = rustix::net::recvmsg(queue, &mut parts, &mut control, RecvFlags::DONTWAIT);
        Outcome::of(received.map(|message| message.bytes), None)
    }),
    ("recvmmsg", |queue| {
        let (mut first, mut second) = (buffer(), buffer());
        let mut parts = [
            [IoSliceMut::new(&mut first)],
            [IoSliceMut::new(&mut second)],
        ];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(2, None);
        let fd = queue.as_fd().as_raw_fd();
        let received = recvmmsg(
            fd,
            &mut headers,
            parts.iter_mut(),
            MsgFlags::MSG_DONTWAIT,
            None,
        );
        Outcome::of(
            received.map(|messages| messages.map(|one| one.bytes).sum()),
            None,
        )
    }),
    ("splice into a pipe", |queue| {
        Outcome::of(
            rustix::pipe::pipe().and_then(|(_reader, writer)| {
                let flags = SpliceFlags::NONBLOCK;
                rustix::pipe::splice(queue, None, &writer, None, MAX_FRAME_BYTES, flags)
            }),
            None,
        )
    }),
    ("sendfile into a file", |queue| {
        Outcome::of(
            rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC)
                .and_then(|file| rustix::fs::sendfile(&file, queue, None, MAX_FRAME_BYTES)),
            None,
        )
    }),
    ("copy_file_range into a file", |queue| {
        Outcome::of(
            rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC).and_then(|file| {
                rustix::fs::copy_file_range(queue, None, &file, None, MAX_FRAME_BYTES)
            }),
            None,
        )
    }),
    ("io_uring read", |queue| by_ring(queue, Operation::Read)),
    ("io_uring recv", |queue| by_ring(queue, Operation::Receive)),
];

fn buffer() -> Vec<u8> {
    vec![0; MAX_FRAME_BYTES]
}

fn by_ring(queue: &Queue, operation: Operation) -> Outcome {
    let attempt = || -> io::Result<usize> {
        let mut ring = Ring::new(1, MAX_FRAME_BYTES)?;
        ring.push(operation, queue.as_fd(), 0, 0..MAX_FRAME_BYTES);
        ring.only_result()
    };
    Outcome::of(attempt(), None)
}

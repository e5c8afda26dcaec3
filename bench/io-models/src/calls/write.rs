//! Calls that deliver a packet.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use culvert_tun::Queue;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use rustix::fs::{MemfdFlags, SeekFrom};
use rustix::io::ReadWriteFlags;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use rustix::pipe::SpliceFlags;

use super::outcome::Outcome;
use crate::ring::{Operation, Ring};

type Attempt = fn(&Queue, &[u8]) -> Outcome;

pub(super) const ATTEMPTS: [(&str, Attempt); 12] = [
    ("write", |queue, frame| {
        Outcome::of(rustix::io::write(queue, frame), Some(frame.len()))
    }),
    ("writev", |queue, frame| {
        let (header, packet) = frame.split_at(10);
        let parts = [IoSlice::new(header), IoSlice::new(packet)];
        Outcome::of(rustix::io::writev(queue, &parts), Some(frame.len()))
    }),
    ("pwrite", |queue, frame| {
        Outcome::of(rustix::io::pwrite(queue, frame, 0), Some(frame.len()))
    }),
    ("pwritev2, RWF_NOWAIT", |queue, frame| {
        let parts = [IoSlice::new(frame)];
        let written = rustix::io::pwritev2(queue, &parts, u64::MAX, ReadWriteFlags::NOWAIT);
        Outcome::of(written, Some(frame.len()))
    }),
    ("send", |queue, frame| {
        let sent = rustix::net::send(queue, frame, SendFlags::empty());
        Outcome::of(sent, Some(frame.len()))
    }),
    ("sendmsg", |queue, frame| {
        let parts = [IoSlice::new(frame)];
        let mut control = SendAncillaryBuffer::default();
        let sent = rustix::net::sendmsg(queue, &parts, &mut control, SendFlags::empty());
        Outcome::of(sent, Some(frame.len()))
    }),
    ("sendmmsg", |queue, frame| {
        let parts = [[IoSlice::new(frame)], [IoSlice::new(frame)]];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(2, None);
        let sent = sendmmsg(
            queue.as_fd().as_raw_fd(),
            &mut headers,
            &parts,
            [None, None],
            [],
            MsgFlags::empty(),
        );
        let bytes = sent.map(|messages| messages.map(|one| one.bytes).sum());
        Outcome::of(bytes, Some(2 * frame.len()))
    }),
    ("splice from a pipe", |queue, frame| {
        let splice = || -> Result<usize, rustix::io::Errno> {
            let (reader, writer) = rustix::pipe::pipe()?;
            rustix::io::write(&writer, frame)?;
            rustix::pipe::splice(
                &reader,
                None,
                queue,
                None,
                frame.len(),
                SpliceFlags::NONBLOCK,
            )
        };
        Outcome::of(splice(), Some(frame.len()))
    }),
    ("sendfile from a file", |queue, frame| {
        let sent =
            file_of(frame).and_then(|file| rustix::fs::sendfile(queue, &file, None, frame.len()));
        Outcome::of(sent, Some(frame.len()))
    }),
    ("copy_file_range from a file", |queue, frame| {
        let copied = file_of(frame)
            .and_then(|file| rustix::fs::copy_file_range(&file, None, queue, None, frame.len()));
        Outcome::of(copied, Some(frame.len()))
    }),
    ("io_uring write", |queue, frame| {
        by_ring(queue, frame, Operation::Write)
    }),
    ("io_uring send", |queue, frame| {
        by_ring(queue, frame, Operation::Send)
    }),
];

fn file_of(frame: &[u8]) -> Result<std::os::fd::OwnedFd, rustix::io::Errno> {
    let file = rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, frame)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file)
}

fn by_ring(queue: &Queue, frame: &[u8], operation: Operation) -> Outcome {
    let attempt = || -> io::Result<usize> {
        let mut ring = Ring::new(1, frame.len())?;
        ring.buffer(0).copy_from_slice(frame);
        ring.push(operation, queue.as_fd(), 0, 0..frame.len());
        ring.only_result()
    };
    Outcome::of(attempt(), Some(frame.len()))
}

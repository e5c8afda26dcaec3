//! From a stream back to datagrams, in batches that the kernel takes in one call.

use super::FRAME_HEADER_LEN;
use culvert_base::datagrams::{MAX_DATAGRAM_BYTES, MAX_GSO_BYTES, MAX_SEGMENTS};

/// A frame is longer than any datagram. The stream can't be read on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes is longer than a datagram can be")]
pub struct FrameError(pub u16);

/// Reads frames from the parts of a stream, and joins datagrams of one length to batches.
///
/// It holds one batch and one unfinished datagram at most.
#[derive(Debug, Default)]
pub struct Unframer {
    /// The batch, and behind it the datagram of which a part is missing.
    bytes: Vec<u8>,
    /// The end of the batch.
    whole: usize,
    /// The length of its datagrams.
    stride: usize,
    count: usize,
    /// Its last datagram is shorter than the others: none can follow.
    is_closed: bool,
    part: Part,
}

/// The part of a frame that has come.
#[derive(Clone, Copy, Debug, Default)]
enum Part {
    /// Nothing of the next frame.
    #[default]
    None,
    /// The first byte of its length.
    Length(u8),
    /// A part of a datagram, of which this many bytes are missing.
    Datagram(usize),
}

impl Unframer {
    /// Takes the next part of the stream. `emit` gets the batches that are full, each with the length of its datagrams,
    /// of which the last may be shorter.
    ///
    /// # Errors
    /// [`FrameError`]: nothing behind it can be read.
    pub fn push(
        &mut self,
        mut input: &[u8],
        emit: &mut impl FnMut(&[u8], usize),
    ) -> Result<(), FrameError> {
        while let Some((first, rest)) = input.split_first() {
            match self.part {
                Part::None => match rest.split_first() {
                    Some((second, rest)) => {
                        self.begin(u16::from_be_bytes([*first, *second]), emit)?;
                        input = rest;
                    }
                    None => {
                        self.part = Part::Length(*first);
                        input = rest;
                    }
                },
                Part::Length(high) => {
                    self.begin(u16::from_be_bytes([high, *first]), emit)?;
                    input = rest;
                }
                Part::Datagram(missing) => {
                    let (part, rest) = input.split_at(missing.min(input.len()));
                    self.bytes.extend_from_slice(part);
                    self.continue_datagram(missing - part.len());
                    input = rest;
                }
            }
        }
        Ok(())
    }

    /// Emits the batch that is there, if there is one. An unfinished datagram stays.
    pub fn flush(&mut self, emit: &mut impl FnMut(&[u8], usize)) {
        if self.count > 0 {
            emit(&self.bytes[..self.whole], self.stride);
        }
        self.bytes.drain(..self.whole);
        self.whole = 0;
        self.count = 0;
        self.is_closed = false;
    }

    /// Gives its memory back where it holds nothing.
    pub fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    fn begin(&mut self, len: u16, emit: &mut impl FnMut(&[u8], usize)) -> Result<(), FrameError> {
        let bytes = usize::from(len);
        if bytes > MAX_DATAGRAM_BYTES {
            return Err(FrameError(len));
        }
        self.part = Part::None;
        if bytes == 0 {
            return Ok(());
        }
        let fits = !self.is_closed
            && bytes <= self.stride
            && self.count < MAX_SEGMENTS
            && self.whole + bytes <= MAX_GSO_BYTES;
        if !fits {
            self.flush(emit);
        }
        if self.count == 0 {
            self.stride = bytes;
        }
        // Room for a whole batch: the memory is not moved while it fills.
        let room = (bytes * MAX_SEGMENTS).min(MAX_GSO_BYTES).max(bytes);
        self.bytes.reserve(room.saturating_sub(self.bytes.len()));
        self.part = Part::Datagram(bytes);
        Ok(())
    }

    fn continue_datagram(&mut self, missing: usize) {
        if missing > 0 {
            self.part = Part::Datagram(missing);
            return;
        }
        self.part = Part::None;
        self.is_closed = self.bytes.len() - self.whole < self.stride;
        self.whole = self.bytes.len();
        self.count += 1;
    }
}

// The bytes before each datagram are read one by one above.
const _: () = assert!(FRAME_HEADER_LEN == 2);

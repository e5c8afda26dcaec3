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

#[cfg(test)]
mod tests {
    use super::super::write_frames;
    use super::*;
    use proptest::prelude::*;

    /// The batches of a stream that comes in these parts.
    fn batches(parts: &[&[u8]]) -> Result<Vec<(Vec<u8>, usize)>, FrameError> {
        let mut found = Vec::new();
        let mut emit = |bytes: &[u8], stride: usize| found.push((bytes.to_vec(), stride));
        let mut unframer = Unframer::default();
        for part in parts {
            unframer.push(part, &mut emit)?;
        }
        unframer.flush(&mut emit);
        Ok(found)
    }

    fn frames(lengths: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, len) in lengths.iter().enumerate() {
            write_frames(&vec![number as u8; *len], *len, &mut out);
        }
        out
    }

    #[test]
    fn datagrams_of_one_length_become_a_batch_that_a_shorter_one_ends() {
        let found = batches(&[&frames(&[100, 100, 40, 100, 120, 120])]).unwrap();
        let shapes = found.iter().map(|(bytes, stride)| (bytes.len(), *stride));
        let shapes: Vec<_> = shapes.collect();
        assert_eq!(shapes, [(240, 100), (100, 100), (240, 120)]);
        assert_eq!(found[0].0[200..], [2; 40]);
    }

    #[test]
    fn a_batch_is_as_long_as_the_kernel_takes_it() {
        let found = batches(&[&frames(&[1_420; 100])]).unwrap();
        assert_eq!(found[0].0.len(), 46 * 1_420);
        let small = batches(&[&frames(&[20; 100])]).unwrap();
        assert_eq!(small[0].0.len(), MAX_SEGMENTS * 20);
        let big = batches(&[&frames(&[MAX_DATAGRAM_BYTES, 1])]).unwrap();
        assert_eq!(big.len(), 2, "together they are longer than one send takes");
    }

    #[test]
    fn keepalives_are_nothing_and_a_length_beyond_datagrams_is_an_error() {
        assert_eq!(batches(&[&[0, 0, 0, 0, 0]]), Ok(Vec::new()));
        assert_eq!(batches(&[&[0xff, 0xff, 1]]), Err(FrameError(0xffff)));
        assert_eq!(batches(&[&[0xff], &[0xe4]]), Err(FrameError(65_508)));
        assert_eq!(batches(&[&[0xff, 0xe3, 1, 2, 3]]), Ok(Vec::new()));
    }

    #[test]
    fn a_batch_goes_before_the_rest_of_a_datagram_has_come() {
        let stream = frames(&[50, 50]);
        let mut found = Vec::new();
        let mut emit = |bytes: &[u8], stride: usize| found.push((bytes.to_vec(), stride));
        let mut unframer = Unframer::default();
        unframer.push(&stream[..70], &mut emit).unwrap();
        unframer.flush(&mut emit);
        unframer.push(&stream[70..], &mut emit).unwrap();
        unframer.flush(&mut emit);
        unframer.rest();
        assert_eq!(found, [(vec![0; 50], 50), (vec![1; 50], 50)]);
    }

    proptest! {
        #[test]
        fn every_datagram_comes_once_and_in_order_however_the_stream_is_cut(
            lengths in proptest::collection::vec(prop_oneof![
                4 => Just(1_420_usize), 2 => 1_usize..200, 1 => Just(0), 1 => 60_000..=MAX_DATAGRAM_BYTES,
            ], 0..80),
            cuts in proptest::collection::vec(1_usize..20_000, 1..40),
        ) {
            let mut stream = Vec::new();
            let mut sent = Vec::new();
            for (number, len) in lengths.iter().enumerate() {
                let datagram = vec![number as u8; *len];
                stream.extend_from_slice(&(*len as u16).to_be_bytes());
                stream.extend_from_slice(&datagram);
                if *len > 0 {
                    sent.push(datagram);
                }
            }
            let mut parts = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                let (part, after) = rest.split_at((*cut).min(rest.len()));
                parts.push(part);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let mut came = Vec::new();
            for (bytes, stride) in batches(&parts).unwrap() {
                prop_assert!(bytes.len() <= MAX_GSO_BYTES.max(stride));
                prop_assert!(bytes.len().div_ceil(stride) <= MAX_SEGMENTS);
                came.extend(bytes.chunks(stride).map(<[u8]>::to_vec));
            }
            prop_assert_eq!(came, sent);
        }
    }
}

//! A stand-in for the batched implementation on processors that it is not written for.

use crate::{KEY_LEN, Layout, Opened, Suite};

/// Never there.
pub(crate) enum Wide {}

impl Wide {
    pub(crate) fn detect(_suite: Suite, _bytes: &[u8; KEY_LEN]) -> Option<Self> {
        None
    }

    pub(crate) fn gains(&self, _layout: Layout, _buffer_len: usize) -> bool {
        match *self {}
    }

    pub(crate) fn seal_batch(&self, _first_nonce: u64, _buffer: &mut [u8], _layout: Layout) {
        match *self {}
    }

    pub(crate) fn open_batch(&self, _: &[u64], _buffer: &mut [u8], _layout: Layout) -> Opened {
        match *self {}
    }
}

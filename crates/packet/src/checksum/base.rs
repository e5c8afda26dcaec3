//! Where no vectors are known that would make one loop of copying and summing.

pub(super) fn copy_and_sum(_from: &[u8], _to: &mut [u8]) -> Option<u64> {
    None
}

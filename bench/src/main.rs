//! Side-by-side measurement of Culvert and its peers.
fn main() {}

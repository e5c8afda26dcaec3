//! The culvert program: its command line.
fn main() {}

//! Checks of the repository itself: layering, documents.
fn main() {}

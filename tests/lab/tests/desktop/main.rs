//! The window of people at a Debian machine with the packages, with a real service, portal and gateway.
//!
//! `make test-desktop-lab` builds what it needs. The window is operated by its accessibility tree
//! (`desktop/tests/drive.py`). Pictures are left in `desktop/target/pictures/lab`.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod package;
mod rights;
mod scene;
mod story;
mod window;

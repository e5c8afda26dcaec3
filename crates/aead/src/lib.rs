//! Sealing and opening a batch of equally spaced records with one key.

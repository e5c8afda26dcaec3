//! The packet workers and the control thread between TUN, session and UDP.

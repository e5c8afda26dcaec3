//! The WireGuard protocol without I/O: handshake, keys, cookies, replay window, timers.

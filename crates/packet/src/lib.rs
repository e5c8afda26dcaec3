//! IP, TCP and UDP packets: views, checksums, ECN, splitting a superframe and coalescing into one.

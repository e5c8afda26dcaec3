//! The cross-platform WireGuard configuration protocol: parsing and formatting.

//! The rules of ARCHITECTURE.md's invariants, as tables.

/// Crates without I/O, clock, randomness or environment.
pub(super) const PURE: [&str; 18] = [
    "culvert-aead",
    "culvert-base",
    "culvert-client-core",
    "culvert-control",
    "culvert-datapath",
    "culvert-dns",
    "culvert-fair",
    "culvert-gateway-core",
    "culvert-hub",
    "culvert-ids",
    "culvert-packet",
    "culvert-path",
    "culvert-policy",
    "culvert-secrets",
    "culvert-session",
    "culvert-store",
    "culvert-uapi",
    "culvert-wire",
];

/// Packages that no pure crate may reach, directly or through others: system calls, runtimes, clocks,
/// sources of randomness, and what stands on them (TLS, databases, web servers).
pub(super) const IMPURE: [&str; 28] = [
    "async-io",
    "async-std",
    "aws-lc-sys",
    "axum",
    "chrono",
    "crossbeam-channel",
    "fastrand",
    "getrandom",
    "hyper",
    "libc",
    "linux-raw-sys",
    "mio",
    "nix",
    "openssl-sys",
    "quanta",
    "rand",
    "rand_chacha",
    "ring",
    "rustix",
    "rustls",
    "signal-hook",
    "smol",
    "socket2",
    "sqlx-core",
    "time",
    "tokio",
    "tracing",
    "windows-sys",
];

/// Edges that pure crates may reach an impure one by: from, to, and why that is harmless.
pub(super) const PERMITTED: [(&str, &str, &str); 4] = [
    (
        "aws-lc-rs",
        "aws-lc-sys",
        "the cipher of `aead`: C code that asks the processor for its features and the C library \
         for memory; Culvert calls nothing of it that draws random bytes",
    ),
    (
        "cpufeatures",
        "libc",
        "asks the C library for the features of an ARM processor, once, and nothing else",
    ),
    (
        "ed25519-compact",
        "getrandom",
        "makes keys and blinds signatures of who asks for it; PASETO v4.public signs and verifies with a given key alone",
    ),
    (
        "pasetors",
        "getrandom",
        "makes keys: `pasetors::keys::Generate` is among the paths that pure crates do not use",
    ),
];

/// The edges that are allowed between crates of the workspace. A crate that is not
/// listed may not exist. `session` and `policy` never see each other, and nobody pure sees `wire`,
/// whose types are converted at the border.
pub(super) const EDGES: [(&str, &[&str]); 46] = [
    (
        "culvert",
        &[
            "culvert-aead",
            "culvert-age",
            "culvert-base",
            "culvert-client",
            "culvert-console",
            "culvert-control",
            "culvert-datapath",
            "culvert-engine",
            "culvert-gateway",
            "culvert-host",
            "culvert-http",
            "culvert-ids",
            "culvert-link",
            "culvert-policy",
            "culvert-portal",
            "culvert-portal-base",
            "culvert-portal-service",
            "culvert-secrets",
            "culvert-session",
            "culvert-store",
            "culvert-store-sql",
            "culvert-tun",
            "culvert-uapi",
            "culvert-udp",
            "culvert-wire",
        ],
    ),
    ("culvert-aead", &[]),
    ("culvert-age", &[]),
    ("culvert-base", &[]),
    ("culvert-bpf", &[]),
    (
        "culvert-bench",
        &[
            "culvert-aead",
            "culvert-base",
            "culvert-control",
            "culvert-datapath",
            "culvert-engine",
            "culvert-ids",
            "culvert-io-models",
            "culvert-lab",
            "culvert-link",
            "culvert-session",
            "culvert-store",
            "culvert-store-sql",
            "culvert-tun",
            "culvert-udp",
            "culvert-wire",
        ],
    ),
    (
        "culvert-datapath",
        &[
            "culvert-base",
            "culvert-packet",
            "culvert-path",
            "culvert-policy",
            "culvert-session",
        ],
    ),
    (
        "culvert-dns",
        &["culvert-base", "culvert-ids", "culvert-policy"],
    ),
    (
        "culvert-engine",
        &[
            "culvert-aead",
            "culvert-base",
            "culvert-datapath",
            "culvert-netlink",
            "culvert-packet",
            "culvert-path",
            "culvert-policy",
            "culvert-session",
            "culvert-tun",
            "culvert-udp",
        ],
    ),
    (
        "culvert-fuzz-targets",
        &[
            "culvert-aead",
            "culvert-age",
            "culvert-base",
            "culvert-console",
            "culvert-datapath",
            "culvert-dns",
            "culvert-engine",
            "culvert-gateway",
            "culvert-gateway-core",
            "culvert-ids",
            "culvert-packet",
            "culvert-policy",
            "culvert-portal",
            "culvert-portal-auth",
            "culvert-secrets",
            "culvert-session",
            "culvert-uapi",
            "culvert-wire",
        ],
    ),
    (
        "culvert-client",
        &[
            "culvert-base",
            "culvert-client-core",
            "culvert-control",
            "culvert-datapath",
            "culvert-dns",
            "culvert-engine",
            "culvert-host",
            "culvert-ids",
            "culvert-link",
            "culvert-packet",
            "culvert-path",
            "culvert-policy",
            "culvert-session",
            "culvert-wire",
        ],
    ),
    (
        "culvert-client-core",
        &[
            "culvert-base",
            "culvert-control",
            "culvert-dns",
            "culvert-ids",
            "culvert-packet",
            "culvert-path",
            "culvert-policy",
            "culvert-session",
            "culvert-wire",
        ],
    ),
    (
        "culvert-console",
        &[
            "culvert-control-server",
            "culvert-ids",
            "culvert-portal-auth",
            "culvert-portal-base",
            "culvert-portal-service",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    ("culvert-control", &["culvert-base", "culvert-wire"]),
    (
        "culvert-control-server",
        &[
            "culvert-base",
            "culvert-hub",
            "culvert-ids",
            "culvert-link",
            "culvert-policy",
            "culvert-portal-base",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-gateway",
        &[
            "culvert-aead",
            "culvert-base",
            "culvert-control",
            "culvert-datapath",
            "culvert-engine",
            "culvert-gateway-core",
            "culvert-host",
            "culvert-ids",
            "culvert-link",
            "culvert-path",
            "culvert-policy",
            "culvert-session",
            "culvert-wire",
        ],
    ),
    (
        "culvert-gateway-core",
        &[
            "culvert-base",
            "culvert-control",
            "culvert-ids",
            "culvert-packet",
            "culvert-policy",
            "culvert-wire",
        ],
    ),
    (
        "culvert-hub",
        &[
            "culvert-base",
            "culvert-ids",
            "culvert-policy",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-constant-time",
        &[
            "culvert-aead",
            "culvert-base",
            "culvert-session",
            "culvert-wire",
        ],
    ),
    ("culvert-fair", &["culvert-base"]),
    (
        "culvert-host",
        &["culvert-base", "culvert-netlink", "culvert-policy"],
    ),
    ("culvert-http", &["culvert-link", "culvert-wire"]),
    ("culvert-ids", &["culvert-base"]),
    ("culvert-lab", &["culvert-base"]),
    (
        "culvert-io-models",
        &[
            "culvert-base",
            "culvert-packet",
            "culvert-tun",
            "culvert-udp",
        ],
    ),
    (
        "culvert-link",
        &[
            "culvert-base",
            "culvert-control",
            "culvert-ids",
            "culvert-wire",
        ],
    ),
    (
        "culvert-log-sinks",
        &[
            "culvert-http",
            "culvert-ids",
            "culvert-link",
            "culvert-portal-base",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    ("culvert-models", &["culvert-session"]),
    ("culvert-netlink", &[]),
    ("culvert-packet", &[]),
    ("culvert-path", &["culvert-base"]),
    (
        "culvert-policy",
        &["culvert-base", "culvert-ids", "culvert-packet"],
    ),
    (
        "culvert-portal",
        &[
            "culvert-age",
            "culvert-console",
            "culvert-control-server",
            "culvert-host",
            "culvert-ids",
            "culvert-log-sinks",
            "culvert-policy",
            "culvert-portal-auth",
            "culvert-portal-base",
            "culvert-portal-service",
            "culvert-secrets",
            "culvert-store",
            "culvert-store-sql",
            "culvert-wire",
        ],
    ),
    (
        "culvert-portal-auth",
        &[
            "culvert-base",
            "culvert-fair",
            "culvert-http",
            "culvert-ids",
            "culvert-link",
            "culvert-portal-base",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-portal-base",
        &[
            "culvert-base",
            "culvert-fair",
            "culvert-hub",
            "culvert-ids",
            "culvert-policy",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-portal-service",
        &[
            "culvert-base",
            "culvert-control-server",
            "culvert-hub",
            "culvert-ids",
            "culvert-log-sinks",
            "culvert-policy",
            "culvert-portal-auth",
            "culvert-portal-base",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    ("culvert-secrets", &[]),
    (
        "culvert-session",
        &["culvert-aead", "culvert-base", "culvert-fair"],
    ),
    (
        "culvert-sim",
        &[
            "culvert-base",
            "culvert-client-core",
            "culvert-datapath",
            "culvert-dns",
            "culvert-gateway-core",
            "culvert-hub",
            "culvert-ids",
            "culvert-packet",
            "culvert-policy",
            "culvert-session",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-store",
        &[
            "culvert-base",
            "culvert-fair",
            "culvert-ids",
            "culvert-policy",
            "culvert-secrets",
            "culvert-wire",
        ],
    ),
    (
        "culvert-store-sql",
        &[
            "culvert-age",
            "culvert-base",
            "culvert-fair",
            "culvert-ids",
            "culvert-policy",
            "culvert-secrets",
            "culvert-store",
            "culvert-wire",
        ],
    ),
    (
        "culvert-tun",
        &["culvert-base", "culvert-bpf", "culvert-netlink"],
    ),
    (
        "culvert-uapi",
        &["culvert-aead", "culvert-base", "culvert-session"],
    ),
    (
        "culvert-udp",
        &["culvert-base", "culvert-bpf", "culvert-netlink"],
    ),
    (
        "culvert-wire",
        &["culvert-base", "culvert-ids", "culvert-policy"],
    ),
    ("xtask", &[]),
];

/// The only crates that may depend directly on packages which reach the operating system or are an async runtime. A
/// package that is not listed is free for all.
pub(super) const HOLDERS: [(&str, &[&str]); 8] = [
    (
        "getrandom",
        &[
            "culvert",
            "culvert-bench",
            "culvert-client",
            "culvert-control-server",
            "culvert-engine",
            "culvert-gateway",
            "culvert-host",
            "culvert-log-sinks",
            "culvert-portal",
            "culvert-portal-auth",
            "culvert-portal-base",
            "culvert-portal-service",
        ],
    ),
    (
        "libc",
        &[
            "culvert-bpf",
            "culvert-engine",
            "culvert-host",
            "culvert-tun",
            "culvert-udp",
        ],
    ),
    ("mio", &[]),
    ("netlink-sys", &["culvert-netlink"]),
    (
        "rustix",
        &[
            "culvert",
            "culvert-engine",
            "culvert-host",
            "culvert-io-models",
            "culvert-lab",
            "culvert-tun",
            "culvert-udp",
        ],
    ),
    ("socket2", &["culvert-link"]),
    (
        "tokio",
        &[
            "culvert",
            "culvert-bench",
            "culvert-client",
            "culvert-console",
            "culvert-control-server",
            "culvert-gateway",
            "culvert-host",
            "culvert-http",
            "culvert-link",
            "culvert-log-sinks",
            "culvert-portal",
            "culvert-portal-auth",
            "culvert-portal-base",
            "culvert-portal-service",
            "culvert-store-sql",
        ],
    ),
    ("zbus", &["culvert-host"]),
];

/// Crates that may hold unsafe code anywhere, each block with its reason. Every other root forbids
/// it, but those of [`CONFINED`].
pub(super) const UNSAFE: [&str; 3] = ["culvert-bpf", "culvert-tun", "culvert-udp"];

/// Crates whose root may deny unsafe code instead of forbidding it, so that one module can allow it. These are
/// the vector instructions of `aead`, the sums of `packet` compiled for them, one call of the C library in `host`, and the
/// io_uring of `io-models`. Nothing of the product uses the last one.
pub(super) const CONFINED: [&str; 4] = [
    "culvert-aead",
    "culvert-host",
    "culvert-io-models",
    "culvert-packet",
];

/// Modules of the standard library, and names in them, that pure crates do not use. A path is
/// compared from its beginning, so a module stands for all that is in it.
pub(super) const IMPURE_PATHS: [&str; 15] = [
    "pasetors::keys::Generate",
    "std::env",
    "std::fs",
    "std::io",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os",
    "std::process",
    "std::thread::park_timeout",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Names in those modules that pure crates may use all the same: they are data.
pub(super) const PURE_PATHS: [&str; 1] = ["std::io::IoSlice"];

/// Names that in a pure crate can only mean the standard library's, however they were imported.
pub(super) const IMPURE_NAMES: [&str; 3] = ["Instant", "SystemTime", "UdpSocket"];

/// Crates whose decisions are held by tests without a device, and the lines of tests that each has at least for 100
/// lines of its source.
pub(super) const TESTED: [(&str, usize); 1] = [("culvert-datapath", 60)];

//! The options of `culvert wg`.

use crate::log_level::LogLevel;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use culvert_aead::Suite;
use culvert_datapath::Mechanism;
use culvert_uapi::{InterfaceName, cipher_name, parse_cipher};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Run an interface as a userspace WireGuard, or show one
///
/// Creates the interface NAME and serves /var/run/wireguard/NAME.sock, so that wg, wg-quick and
/// every tool that configures a userspace WireGuard work with it unchanged. Goes into the
/// background once the interface is ready; ends when the interface or the socket is deleted, or on
/// SIGTERM or SIGINT.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = WG_EXIT_STATUS,
    after_long_help = WG_EXAMPLES
)]
pub(crate) struct WgArguments {
    #[command(subcommand)]
    pub(crate) command: Option<WgCommand>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WgCommand {
    Show(ShowArguments),
}

/// Show peers, throughput, batches, drops and offloads of running interfaces
///
/// Throughput is that of the half second in which the command runs (with --watch, that of the
/// interval). "culvert wg show" shows every Culvert interface of this machine.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArguments {
    /// The interface; all of them without it
    pub(crate) name: Option<InterfaceName>,
    /// Print one line of JSON with a schema_version: totals since the start, no throughput
    #[arg(long)]
    pub(crate) json: bool,
    /// Print again every SECONDS (2 without a number) until interrupted
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = crate::whole_number::whole_number(1..=86_400_u32)
    )]
    pub(crate) watch: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    // There is none when a subcommand stands in its place: environment variables of the options
    // below must not get in the way of that.
    /// The name of the interface to create, at most 15 bytes
    #[arg(required = true)]
    pub(crate) name: Option<InterfaceName>,

    /// Stay in the foreground
    ///
    /// WG_PROCESS_FOREGROUND=1, which wireguard-go knows, does the same.
    #[arg(short, long, env = "CULVERT_FOREGROUND", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) foreground: bool,

    /// Packet workers (threads); 1 with up to two processors, beyond that half of them, at most 4
    #[arg(long, value_name = "N", env = "CULVERT_WORKERS", value_parser = crate::workers::worker_count)]
    pub(crate) workers: Option<usize>,

    /// MTU to start with, in bytes; "ip link set mtu" changes it at any time
    #[arg(long, value_name = "N", env = "CULVERT_MTU", default_value_t = DEFAULT_MTU, value_parser = crate::whole_number::whole_number(MIN_MTU..=MAX_MTU))]
    pub(crate) mtu: u16,

    /// Exchange single packets with the host instead of TCP and UDP superframes
    #[arg(long, env = "CULVERT_NO_OFFLOAD", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) no_offload: bool,

    /// Send and receive single datagrams instead of segmented batches
    #[arg(long, env = "CULVERT_NO_GSO", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) no_gso: bool,

    /// Leave these mechanisms out
    ///
    /// Each makes the road faster; without one, the same packets pass. For hosts whose kernel or
    /// network card has a fault in it, and to find out what it is worth.
    #[arg(
        long,
        value_name = "MECHANISM",
        env = "CULVERT_WITHOUT",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) without: Vec<LeftOut>,

    /// Cipher of peers that are not given one of their own
    ///
    /// Both ends must choose the same, or no handshake completes. Plain WireGuard is
    /// chacha20poly1305; aes256gcm is for two Culvert ends. The configuration socket can change it
    /// (cipher=…), for the interface or for one peer.
    #[arg(long, env = "CULVERT_CIPHER", value_enum, default_value_t = Cipher::default())]
    pub(crate) cipher: Cipher,

    /// Serve Prometheus metrics at http://ADDR/metrics, for example 127.0.0.1:9586
    ///
    /// They name peers by public key. There is no authentication: bind to an address that only the
    /// collector reaches.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_METRICS", value_parser = crate::listen_address::listen_address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Log level: info in the foreground or with --log-file, otherwise warn
    ///
    /// LOG_LEVEL (verbose, debug, error or silent), which wireguard-go knows, counts where neither
    /// this nor CULVERT_LOG_LEVEL is given.
    #[arg(long, value_name = "LEVEL", env = "CULVERT_LOG_LEVEL", value_enum)]
    pub(crate) log_level: Option<LogLevel>,

    /// Append the log to FILE instead of writing it to standard error
    ///
    /// In the background it is the only log: standard error is closed once the interface is ready.
    #[arg(long, value_name = "FILE", env = "CULVERT_LOG_FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

/// The default MTU of the kernel's WireGuard: 1500 bytes less the headers of IPv6, UDP and
/// WireGuard, and 8 to spare for PPPoE.
pub(crate) const DEFAULT_MTU: u16 = 1420;
/// Every IPv4 host takes datagrams of 576 bytes (RFC 791); IPv6 inside needs 1280.
const MIN_MTU: u16 = 576;
/// The largest UDP payload over IPv4, 65507, less 32 bytes of WireGuard's data message.
const MAX_MTU: u16 = 65_475;

/// A mechanism by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut(pub(crate) Mechanism);

impl ValueEnum for LeftOut {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [LeftOut; Mechanism::ALL.len()] = {
            let mut all = [LeftOut(Mechanism::Steering); Mechanism::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = LeftOut(Mechanism::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let value = clap::builder::PossibleValue::new(self.0.name()).help(self.0.about());
        Some(value.aliases(self.0.former_name()))
    }
}

/// A cipher suite by its name on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cipher(pub(crate) Suite);

impl ValueEnum for Cipher {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Suite::ChaCha20Poly1305), Self(Suite::Aes256Gcm)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(cipher_name(self.0)))
    }

    fn from_str(word: &str, _ignore_case: bool) -> Result<Self, String> {
        parse_cipher(word)
            .map(Self)
            .ok_or_else(|| "no such cipher".to_owned())
    }
}

const WG_EXIT_STATUS: &str = "\
Exit status:
  0  done, or the interface ended as asked
  1  something failed
  2  the command line is wrong
  3  a permission is missing (CAP_NET_ADMIN, /dev/net/tun, the configuration socket)
  4  the interface name or the port is in use";

const WG_EXAMPLES: &str = "\
Examples:
  Create wg0 in the background and configure it as any WireGuard:
    culvert wg wg0
    wg setconf wg0 /etc/wireguard/wg0.conf
    ip address add 10.0.0.1/24 dev wg0
    ip link set wg0 up

  Let wg-quick use it:
    ln -s /usr/bin/culvert /usr/local/bin/culvert-wg
    WG_QUICK_USERSPACE_IMPLEMENTATION=culvert-wg wg-quick up wg0

  Under a service manager, with metrics:
    culvert wg --foreground wg0 --metrics 127.0.0.1:9586

  Between two Culvert ends with AES in hardware:
    culvert wg --cipher aes256gcm wg0

  See what it does:
    culvert wg show wg0

  An interface that is itself called \"show\":
    culvert wg -- show

Exit status:
  0  done, or the interface ended as asked
  1  something failed
  2  the command line is wrong
  3  a permission is missing (CAP_NET_ADMIN, /dev/net/tun, the configuration socket)
  4  the interface name or the port is in use";

const SHOW_EXAMPLES: &str = "\
Examples:
  culvert wg show
  culvert wg show wg0 --watch=1
  culvert wg show wg0 --json | jq '.drops[] | select(.count > 0)'

Exit status:
  0  done
  1  something failed, or nobody serves the interface
  2  the command line is wrong
  3  the configuration socket may not be used";

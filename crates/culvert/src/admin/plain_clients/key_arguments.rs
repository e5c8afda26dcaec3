//! Options for the key of a device.

use clap::Args;
use culvert_wire::PublicKey;
use std::path::PathBuf;

/// The key of the device, and the place for its file.
#[derive(Debug, Args)]
pub(super) struct KeyArguments {
    /// Its public key, as "wg pubkey" prints it [default: that of a new key pair]
    #[arg(long, value_name = "KEY", conflicts_with = "qr")]
    pub(super) public_key: Option<PublicKey>,
    /// Write the file to FILE, mode 0600, or to standard output with "-"; FILE must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Draw the file as a QR code on the terminal, for the app of a phone
    #[arg(long)]
    pub(super) qr: bool,
}

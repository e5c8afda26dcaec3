//! The commands that the console gives to people for their machines. The command line's own test reads them.

/// Starts a gateway with the token in a file.
pub const GATEWAY: &str = "sudo culvert gateway run --enable-forwarding --token-file gateway.token";

/// Starts a client with the token in a file.
pub const CLIENT: &str = "sudo culvert client run --token-file client.token";

/// Looks at the way from a client to what it may use.
pub const RESOURCES: &str = "sudo culvert resources";

/// The command to paste into the shell of the machine. It keeps the token in a file that only root
/// reads, and starts the program. The token gets there through a pipe, because everybody on a
/// machine sees arguments.
pub(crate) fn to_paste(token: &str, file: &str, command: &str) -> String {
    format!("sudo sh -c 'umask 077; cat > {file}' <<'END'\n{token}\nEND\n{command}")
}

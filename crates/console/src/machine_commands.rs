//! The commands that the console gives to people for their machines. The command line's own test reads them.

use culvert_wire::token::Portal;

/// Starts a gateway with the token in a file.
pub const GATEWAY: &str = "sudo culvert gateway run --enable-forwarding --token-file gateway.token";

/// Starts a client with the token in a file.
pub const CLIENT: &str = "sudo culvert client run --token-file client.token";

/// Looks at the way from a client to what it may use.
pub const RESOURCES: &str = "sudo culvert resources";

/// Installs the client from the packages, and starts it: without a token it waits for a sign-in.
pub const INSTALL_CLIENT: &str = "sudo apt install ./culvert_*.deb ./culvert-client_*.deb
sudo systemctl enable --now culvert-client";

/// Signs the machine in at the portal. The portal's own certificate is named, as no authority vouches for it.
pub fn sign_in(portal: &Portal) -> String {
    let url = &portal.url;
    match portal.pin {
        Some(pin) => format!("sudo culvert sign-in --portal {url} --certificate {pin}"),
        None => format!("sudo culvert sign-in --portal {url}"),
    }
}

/// The command to paste into the shell of the machine. It keeps the token in a file that only root
/// reads, and starts the program. The token gets there through a pipe, because everybody on a
/// machine sees arguments.
pub(crate) fn to_paste(token: &str, file: &str, command: &str) -> String {
    format!("sudo sh -c 'umask 077; cat > {file}' <<'END'\n{token}\nEND\n{command}")
}

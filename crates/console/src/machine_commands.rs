//! The commands that the console gives to people for their machines. The command line's own test reads them.

use crate::view::Way;
use culvert_wire::token::Portal;

/// Starts a gateway with the token in a file.
pub const GATEWAY: &str = "sudo culvert gateway run --enable-forwarding --token-file gateway.token";

/// Starts a client with the token in a file.
pub const CLIENT: &str = "sudo culvert client run --token-file client.token";

/// Looks at the way from a client to what it may use.
pub const RESOURCES: &str = "sudo culvert resources";

/// Installs the client from the packages.
const INSTALL_CLIENT_PACKAGES: &str = "sudo apt install ./culvert_*.deb ./culvert-client_*.deb";

/// Installs the client from the packages, and starts it: without a token it waits for a sign-in.
pub const INSTALL_CLIENT: &str = "sudo apt install ./culvert_*.deb ./culvert-client_*.deb
sudo systemctl enable --now culvert-client";

/// Installs the gateway from the packages.
const INSTALL_GATEWAY: &str = "sudo apt install ./culvert_*.deb ./culvert-gateway_*.deb";

/// The image that packaging/container builds.
const IMAGE: &str = concat!("culvert:", env!("CARGO_PKG_VERSION"));

/// Runs a gateway as packaging/container/compose.yaml does, with the token in the file `gateway-token`.
#[must_use]
pub fn gateway_container() -> String {
    format!(
        "sudo docker run --detach --name culvert-gateway --restart on-failure \\
  --user 0:0 --read-only --cap-drop ALL --cap-add NET_ADMIN \\
  --security-opt no-new-privileges:true --device /dev/net/tun \\
  --sysctl net.ipv4.ip_forward=1 --sysctl net.ipv6.conf.all.forwarding=1 \\
  --tmpfs /run/culvert --volume culvert-gateway:/var/lib/culvert/gateway \\
  --volume \"$PWD/gateway-token:/run/secrets/gateway-token:ro\" \\
  --env CULVERT_GATEWAY_TOKEN_FILE=/run/secrets/gateway-token \\
  --env CULVERT_GATEWAY_PUBLIC_ENDPOINT=gw.example:51820 \\
  --publish 0.0.0.0:51820:51820/udp {IMAGE} gateway run"
    )
}

/// Signs the machine in at the portal. The portal's own certificate is named, as no authority vouches for it.
pub fn sign_in(portal: &Portal) -> String {
    let url = &portal.url;
    match portal.pin {
        Some(pin) => format!("sudo culvert sign-in --portal {url} --certificate {pin}"),
        None => format!("sudo culvert sign-in --portal {url}"),
    }
}

/// The ways in which a gateway starts with this token.
pub(crate) fn gateway_ways(token: &str) -> Vec<Way> {
    vec![
        Way {
            name: "Package",
            note: "On Debian or Ubuntu, in the directory with the packages. systemd starts the gateway at each boot.",
            text: with_service(token, INSTALL_GATEWAY, "gateway-token", "culvert-gateway"),
        },
        Way {
            name: "Container",
            note: "With Docker, or Podman in its place, and the image that packaging/container builds. Replace \
                   gw.example by the address at which clients reach this machine.",
            text: to_paste(token, "gateway-token", &gateway_container()),
        },
        Way {
            name: "One command",
            note: "With the program alone, until it is stopped.",
            text: to_paste(token, "gateway.token", GATEWAY),
        },
    ]
}

/// Starts a relay with the token in a file.
pub const RELAY: &str = "sudo culvert relay run --token-file relay.token";

/// The ways in which a relay starts with this token.
pub(crate) fn relay_ways(token: &str) -> Vec<Way> {
    vec![Way {
        name: "One command",
        note: "On a machine that clients and gateways reach, with UDP ports 3478 to 3542 open. It runs until it is \
               stopped.",
        text: to_paste(token, "relay.token", RELAY),
    }]
}

/// The ways in which a client starts with this token.
pub(crate) fn client_ways(token: &str) -> Vec<Way> {
    vec![
        Way {
            name: "Package",
            note: "On Debian or Ubuntu, in the directory with the packages. systemd starts the client at each boot.",
            text: with_service(token, INSTALL_CLIENT_PACKAGES, "token", "culvert-client"),
        },
        Way {
            name: "One command",
            note: "With the program alone, until it is stopped.",
            text: to_paste(token, "client.token", CLIENT),
        },
    ]
}

/// The token in the file that the service reads, and the service enabled.
fn with_service(token: &str, install: &str, file: &str, service: &str) -> String {
    format!(
        "{install}
sudo sh -c 'mkdir -p /etc/culvert; umask 077; cat > /etc/culvert/{file}' <<'END'
{token}
END
sudo systemctl enable --now {service}"
    )
}

/// The command to paste into the shell of the machine. It keeps the token in a file that only root
/// reads, and starts the program. The token gets there through a pipe, because everybody on a
/// machine sees arguments.
fn to_paste(token: &str, file: &str, command: &str) -> String {
    format!("sudo sh -c 'umask 077; cat > {file}' <<'END'\n{token}\nEND\n{command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_has_what_compose_gives_it() {
        let compose = include_str!("../../../packaging/container/compose.yaml");
        let (_, gateway) = compose.split_once("\n  gateway:\n").unwrap();
        let (gateway, _) = gateway.split_once("\nvolumes:").unwrap();
        let command = gateway_container();
        for (of_compose, option) in [
            (&*format!("image: {IMAGE}"), &*format!("{IMAGE} ")),
            ("command: [\"gateway\", \"run\"]", "gateway run"),
            ("user: \"0:0\"", "--user 0:0"),
            (
                "CULVERT_GATEWAY_TOKEN_FILE: /run/secrets/gateway-token",
                "--env CULVERT_GATEWAY_TOKEN_FILE=/run/secrets/gateway-token",
            ),
            (
                "CULVERT_GATEWAY_PUBLIC_ENDPOINT:",
                "--env CULVERT_GATEWAY_PUBLIC_ENDPOINT=gw.example:51820",
            ),
            (
                "\"0.0.0.0:51820:51820/udp\"",
                "--publish 0.0.0.0:51820:51820/udp",
            ),
            (
                "gateway:/var/lib/culvert/gateway",
                ":/var/lib/culvert/gateway",
            ),
            (
                "- gateway-token",
                "gateway-token:/run/secrets/gateway-token:ro",
            ),
            ("- /run/culvert", "--tmpfs /run/culvert"),
            ("- /dev/net/tun", "--device /dev/net/tun"),
            ("net.ipv4.ip_forward: 1", "--sysctl net.ipv4.ip_forward=1"),
            (
                "net.ipv6.conf.all.forwarding: 1",
                "--sysctl net.ipv6.conf.all.forwarding=1",
            ),
            ("restart: on-failure", "--restart on-failure"),
            ("read_only: true", "--read-only"),
            ("cap_drop: [ALL]", "--cap-drop ALL"),
            ("cap_add: [NET_ADMIN]", "--cap-add NET_ADMIN"),
            (
                "security_opt: [\"no-new-privileges:true\"]",
                "--security-opt no-new-privileges:true",
            ),
        ] {
            assert!(gateway.contains(of_compose), "{of_compose}");
            assert!(command.contains(option), "{option}");
        }
    }

    #[test]
    fn a_token_is_in_no_argument() {
        for way in gateway_ways("cv_secret")
            .into_iter()
            .chain(client_ways("cv_secret"))
            .chain(relay_ways("cv_secret"))
        {
            let lines: Vec<&str> = way
                .text
                .lines()
                .filter(|line| line.contains("cv_secret"))
                .collect();
            assert_eq!(lines, ["cv_secret"], "{}", way.name);
        }
    }
}

//! The needs of a tunnel on this machine: a resolver, and features of the kernel.

use super::finding::Finding;
use culvert_client::status::{DnsControlStatus, ServiceState, Status};
use culvert_host::{StatusError, require_net_admin, require_nft, require_tun_device};

const RESOLVER: &str = "resolver";
const TUN: &str = "tun";
const NET_ADMIN: &str = "net-admin";
const NFT: &str = "nft";

/// The file that says whom programs ask for names.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The most that is read of it, in bytes: a hundred times what it usually is.
const MAX_RESOLV_CONF_LEN: u64 = 64 * 1024;

/// The state of the running client.
pub(super) fn client(status: &Status) -> Finding {
    let why = status.not_ready_because.clone().unwrap_or_default();
    match status.service.state {
        ServiceState::Up if status.ready => Finding::ok(
            "client",
            format!("{} is connected and forwards", status.name),
        ),
        ServiceState::Up => {
            let fix = "the findings below say what is in the way".to_owned();
            Finding::fails("client", why, fix)
        }
        ServiceState::SignedOut | ServiceState::Down | ServiceState::GoingDown => {
            let fix = "`culvert up`, or `culvert sign-in` where it is signed out".to_owned();
            Finding::warns("client", why, fix)
        }
        ServiceState::Refused | ServiceState::Failed => {
            let fix = "mend that, and then `culvert up`".to_owned();
            Finding::fails("client", why, fix)
        }
    }
}

/// That no client says how it is. If none runs, there may be none to run; one that runs and does not answer is
/// in the way.
pub(super) fn no_client(error: &StatusError) -> Finding {
    match error {
        StatusError::NotRunning { .. } | StatusError::Forbidden { .. } => Finding::warns(
            "client",
            "no client was asked".to_owned(),
            error.to_string(),
        ),
        error if error.is_timeout() => Finding::fails(
            "client",
            format!("a client runs, and does not answer: {error}"),
            "start it anew (`systemctl restart culvert-client`), and look into its log for the reason"
                .to_owned(),
        ),
        error => Finding::fails(
            "client",
            format!("a client runs, and does not say how it is: {error}"),
            "start it anew in the version of this program".to_owned(),
        ),
    }
}

/// The resolvers that programs ask, and whether the client is among them.
pub(super) fn resolver(status: Option<&Status>) -> Vec<Finding> {
    let mut findings = vec![named_servers()];
    let dns = status.map(|status| &status.dns);
    if let Some(control) = dns.and_then(|dns| dns.control.as_ref()) {
        findings.push(control_finding(control));
    }
    findings
}

fn named_servers() -> Finding {
    let text = std::fs::File::open(RESOLV_CONF).and_then(|file| {
        let mut text = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(file, MAX_RESOLV_CONF_LEN),
            &mut text,
        )?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    });
    match text {
        Ok(text) => servers(&text),
        Err(error) => {
            let found = format!("{RESOLV_CONF}: {error}");
            let fix = "programs ask this machine itself for names: write a resolver there";
            Finding::warns(RESOLVER, found, fix.to_owned())
        }
    }
}

/// The resolvers that a `resolv.conf` names.
fn servers(resolv_conf: &str) -> Finding {
    let servers: Vec<&str> = resolv_conf
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("nameserver"))
        .map(str::trim)
        .collect();
    match servers.as_slice() {
        [] => Finding::warns(
            RESOLVER,
            format!("{RESOLV_CONF} names no resolver"),
            "write one there, or enable systemd-resolved".to_owned(),
        ),
        ["127.0.0.53"] => Finding::ok(RESOLVER, "systemd-resolved is asked for names".to_owned()),
        servers => Finding::ok(RESOLVER, format!("{} asked for names", servers.join(", "))),
    }
}

fn control_finding(control: &DnsControlStatus) -> Finding {
    let mode = &control.mode;
    match control.applied {
        true => Finding::ok(
            RESOLVER,
            format!("names of resources are asked of the client ({mode})"),
        ),
        false if mode == "off" => Finding::warns(
            RESOLVER,
            "the client was told to leave the resolver as it is (--dns off)".to_owned(),
            "nothing, where resources are used by address".to_owned(),
        ),
        false => Finding::fails(
            RESOLVER,
            format!("the client can't have the system ask it for names ({mode})"),
            "PROBLEMS of `culvert status` says why".to_owned(),
        ),
    }
}

/// The features of the kernel, and the use that this user, or the running client, may make of them.
pub(super) fn kernel(status: Option<&Status>) -> Vec<Finding> {
    let runs = status.and_then(|status| status.interface.as_ref());
    let mut findings = Vec::new();
    match runs {
        // It could not be up otherwise.
        Some(interface) => {
            findings.push(Finding::ok(TUN, format!("the client has made {interface}")));
        }
        None => {
            let tun = require_tun_device().map(|()| "/dev/net/tun can be used");
            let net_admin = require_net_admin().map(|()| "this user may change the network");
            for (check, looked_at) in [(TUN, tun), (NET_ADMIN, net_admin)] {
                findings.push(match looked_at {
                    Ok(found) => Finding::ok(check, found.to_owned()),
                    Err(error) => Finding::warns(
                        check,
                        error.to_string(),
                        "nothing, where the service runs as another user that may".to_owned(),
                    ),
                });
            }
        }
    }
    findings.push(match require_nft() {
        Ok(path) => Finding::ok(NFT, format!("nft is {}", path.display())),
        Err(error) => {
            let fix = "nothing, where no application has rules of its own and no gateway runs here";
            Finding::warns(NFT, error.to_string(), fix.to_owned())
        }
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn the_resolvers_of_a_file_are_named_and_none_is_worth_a_warning() {
        let finding = servers("# a comment\nnameserver 192.0.2.1\n nameserver\t2001:db8::1\n");
        assert_eq!(finding.found, "192.0.2.1, 2001:db8::1 asked for names");
        let resolved = servers("nameserver 127.0.0.53\noptions edns0\n");
        assert!(resolved.found.contains("systemd-resolved"));
        assert_eq!(servers("search example\n").verdict, Verdict::Warning);
    }

    #[test]
    fn a_client_that_runs_and_does_not_answer_is_in_the_way_and_one_that_does_not_run_is_not() {
        let path = std::path::PathBuf::from("/run/culvert/culvert.sock");
        let of = |kind: std::io::ErrorKind| {
            let (path, source) = (path.clone(), kind.into());
            no_client(&StatusError::Io { path, source })
        };
        let frozen = of(std::io::ErrorKind::TimedOut);
        assert_eq!(frozen.verdict, Verdict::Failed);
        assert!(frozen.found.contains("does not answer"), "{frozen:?}");
        assert!(frozen.fix.unwrap().contains("restart"));
        assert_eq!(of(std::io::ErrorKind::InvalidData).verdict, Verdict::Failed);
        let program = "client";
        let absent = no_client(&StatusError::NotRunning {
            path: path.clone(),
            program,
        });
        assert_eq!(absent.verdict, Verdict::Warning);
        let forbidden = no_client(&StatusError::Forbidden { path });
        assert_eq!(forbidden.verdict, Verdict::Warning);
    }
}

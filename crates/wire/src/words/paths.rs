//! The reason why a path is not direct, in words.

use crate::messages::{NatMapping, PathKind};

/// The facts that prevent a direct path between a client and a gateway.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts {
    /// The kind of the path in use.
    pub path: PathKind,
    /// The NAT in front of the client, if it is known.
    pub client: Option<NatMapping>,
    /// The NAT in front of the gateway, if it is known.
    pub gateway: Option<NatMapping>,
    /// The client is told an address of the gateway.
    pub has_address: bool,
}

/// The reason why the path is not direct; none for a direct one, and for one of a kind that this version does not know.
///
/// A symmetric NAT is named as what stands in the way only where it is known. A path may also be relayed for a while
/// although its ends could reach each other.
#[must_use]
pub fn why_not_direct(facts: PathFacts) -> Option<&'static str> {
    let is_symmetric = |nat: Option<NatMapping>| nat == Some(NatMapping::EndpointDependent);
    let text = match (is_symmetric(facts.client), is_symmetric(facts.gateway)) {
        _ if !facts.has_address => "the gateway's addresses are not told to the client",
        (true, true) => "no direct path answers: both NATs are symmetric",
        (true, false) => "no direct path answers: the client's NAT is symmetric",
        (false, true) => "no direct path answers: the gateway's NAT is symmetric",
        (false, false) => "no direct path answers",
    };
    match facts.path {
        PathKind::Direct | PathKind::Other => None,
        PathKind::Relayed => Some(text),
        PathKind::RelayedTls => Some("no UDP reaches a relay from the client"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relayed_path_has_a_reason_and_a_direct_one_has_none() {
        let symmetric = Some(NatMapping::EndpointDependent);
        let plain = Some(NatMapping::EndpointIndependent);
        let why = |path, client, gateway, has_address| {
            let facts = PathFacts {
                path,
                client,
                gateway,
                has_address,
            };
            why_not_direct(facts).unwrap_or_default()
        };
        let relayed = PathKind::Relayed;
        assert!(why(relayed, symmetric, symmetric, true).ends_with("both NATs are symmetric"));
        assert!(why(relayed, symmetric, plain, true).ends_with("the client's NAT is symmetric"));
        assert!(why(relayed, None, symmetric, true).ends_with("the gateway's NAT is symmetric"));
        assert_eq!(why(relayed, plain, None, true), "no direct path answers");
        assert!(why(relayed, symmetric, symmetric, false).contains("not told"));
        assert!(why(PathKind::RelayedTls, plain, plain, true).contains("no UDP"));
        assert_eq!(why(PathKind::Direct, symmetric, symmetric, true), "");
        assert_eq!(why(PathKind::Other, None, None, true), "");
    }
}

//! The ranges in which addresses of names may be: `anywhere`, or networks.

use crate::model::TargetKind;
use culvert_policy::conditions::network;

/// The word in place of networks, if names may lead to any address.
pub const ANYWHERE: &str = "anywhere";

/// Networks as people write them, where a single address is a network of one; none for [`ANYWHERE`].
/// The portal checks that they are networks, and their number.
///
/// # Errors
/// A description of the right form, for the person who wrote the text.
pub fn parse_within(written: &[String]) -> Result<Option<Vec<String>>, String> {
    let each: Vec<&str> = written.iter().map(|text| text.trim()).collect();
    match each[..] {
        [ANYWHERE] => Ok(None),
        _ if each.contains(&ANYWHERE) => Err(format!(
            "{ANYWHERE} stands alone: name the networks, or leave them out"
        )),
        _ => Ok(Some(each.into_iter().map(network).collect())),
    }
}

/// As [`parse_within`] reads it.
#[must_use]
pub fn within(networks: Option<&[String]>) -> String {
    networks.map_or_else(|| ANYWHERE.to_owned(), |networks| networks.join(" "))
}

/// The warning for an administrator about a resource whose names may lead anywhere.
#[must_use]
pub fn within_warning(kind: TargetKind, networks: Option<&[String]>) -> Option<&'static str> {
    (kind == TargetKind::Dns && networks.is_none()).then_some(
        "its names may lead to any host that the site's gateways reach, for whoever may change a record \
         of the zone: name the networks that they may be in (`within`)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anywhere_stands_alone_and_an_address_is_a_network_of_one() {
        let parse = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            parse_within(&texts)
        };
        assert_eq!(parse(&["anywhere"]), Ok(None));
        let networks = ["10.0.0.0/8", "10.1.2.3/32", "fd00::1/128"].map(str::to_owned);
        let parsed = parse(&["10.0.0.0/8", " 10.1.2.3", "fd00::1"]);
        assert_eq!(parsed, Ok(Some(networks.to_vec())));
        assert!(parse(&["anywhere", "10.0.0.0/8"]).is_err());
        assert_eq!(parse(&[]), Ok(Some(Vec::new())), "the portal refuses it");
        assert_eq!(within(None), "anywhere");
        assert_eq!(
            within(Some(&networks)),
            "10.0.0.0/8 10.1.2.3/32 fd00::1/128"
        );
    }
}

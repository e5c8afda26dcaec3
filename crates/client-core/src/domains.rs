//! The domains whose names are asked here, for a system that asks different resolvers for different domains.

use culvert_policy::{DomainName, MAX_SEARCH_DOMAINS};
use std::collections::BTreeSet;

/// The most domains that are told apart: of the 256 that systemd-resolved takes for one interface, all but
/// those that short names are completed with. With more, every name is asked here.
pub const MAX_DOMAINS: usize = 256 - MAX_SEARCH_DOMAINS;

/// Domains that hold every name of a resource, and as few others as can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domains {
    /// These, of which none lies in another.
    Within(BTreeSet<DomainName>),
    /// All: that is wanted, or a pattern leaves the last label open, or there are too many.
    All,
}

impl Domains {
    pub(super) fn holding(domains: impl Iterator<Item = Option<DomainName>>) -> Self {
        let Some(all) = domains.collect::<Option<BTreeSet<DomainName>>>() else {
            return Self::All;
        };
        let is_outermost = |domain: &&DomainName| !parents(domain).any(|it| all.contains(&it));
        let outermost: BTreeSet<DomainName> = all.iter().filter(is_outermost).cloned().collect();
        match outermost.len() <= MAX_DOMAINS {
            true => Self::Within(outermost),
            false => Self::All,
        }
    }
}

/// The domains in which a domain lies, itself not included.
fn parents(domain: &DomainName) -> impl Iterator<Item = DomainName> + '_ {
    let text = domain.as_str();
    let dots = text.match_indices('.');
    dots.filter_map(move |(dot, _)| text.get(dot + 1..)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_policy::NamePattern;

    fn holding(patterns: &[&str]) -> Domains {
        let patterns = patterns.iter().map(|it| it.parse::<NamePattern>().unwrap());
        Domains::holding(patterns.map(|pattern| pattern.domain()))
    }

    fn within(domains: &[&str]) -> Domains {
        Domains::Within(domains.iter().map(|it| it.parse().unwrap()).collect())
    }

    #[test]
    fn domains_hold_all_names_that_fit_and_none_lies_in_another() {
        for (patterns, expected) in [
            (&[][..], within(&[])),
            (&["web.corp.example"], within(&["web.corp.example"])),
            (&["*.corp.example"], within(&["corp.example"])),
            (&["**.corp.example"], within(&["corp.example"])),
            (&["db.*.corp.example"], within(&["corp.example"])),
            (
                &["*.corp.example", "a.b.corp.example", "x.example"],
                within(&["corp.example", "x.example"]),
            ),
            (
                &["notcorp.example", "**.corp.example"],
                within(&["corp.example", "notcorp.example"]),
            ),
            (&["intranet"], within(&["intranet"])),
            (&["db.*", "web.corp.example"], Domains::All),
        ] {
            assert_eq!(holding(patterns), expected, "{patterns:?}");
        }
    }

    #[test]
    fn with_more_domains_than_can_be_told_apart_all_names_are_asked() {
        let many: Vec<String> = (0..=MAX_DOMAINS)
            .map(|it| format!("d{it}.example"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(holding(&many), Domains::All);
        assert!(matches!(holding(&many[1..]), Domains::Within(_)));
    }
}

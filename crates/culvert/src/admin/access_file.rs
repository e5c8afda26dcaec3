//! `access.toml`: the whole configuration as people write it. `docs/access-toml.md` describes it.

use super::one_or_more::OneOrMore;
use super::policy_entry::PolicyEntry;
use super::words::{allowed, parse_allowed, target_kind};
use crate::toml_file::{self, FileError};
use culvert_base::quoted;
use culvert_wire::api::{
    ActorKind, Desired, DesiredActor, DesiredDns, DesiredDnsDomain, DesiredGroup, DesiredResource,
    DesiredSite, FieldProblem,
};
use culvert_wire::model::{Applications, Filter, TargetKind};
use serde::Deserialize;
use toml::Spanned;

/// The configuration that a file asks for, with the position of each part in the file.
#[derive(Debug)]
pub(super) struct AccessFile {
    pub(super) desired: Desired,
    lines: Lines,
}

/// Lines on which things begin, in the order of [`Desired`].
#[derive(Debug, Default)]
struct Lines {
    dns: Option<usize>,
    dns_domains: Vec<usize>,
    sites: Vec<usize>,
    actors: Vec<usize>,
    groups: Vec<usize>,
    resources: Vec<usize>,
    policies: Vec<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    dns: Option<Spanned<DnsEntry>>,
    #[serde(alias = "sites")]
    site: Vec<Spanned<SiteEntry>>,
    #[serde(alias = "actors")]
    actor: Vec<Spanned<ActorEntry>>,
    #[serde(alias = "groups")]
    group: Vec<Spanned<GroupEntry>>,
    #[serde(alias = "resources")]
    resource: Vec<Spanned<ResourceEntry>>,
    #[serde(alias = "policies")]
    policy: Vec<Spanned<PolicyEntry>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DnsEntry {
    search: OneOrMore,
    #[serde(alias = "domains")]
    domain: Vec<Spanned<DnsDomainEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DnsDomainEntry {
    name: String,
    servers: OneOrMore,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteEntry {
    name: String,
    relays: Option<OneOrMore>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActorEntry {
    name: String,
    kind: ActorKind,
    #[serde(default)]
    disabled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupEntry {
    name: String,
    members: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceEntry {
    name: String,
    site: String,
    address: String,
    kind: Option<TargetKind>,
    allow: Option<OneOrMore>,
    filters: Option<Vec<Filter>>,
    #[serde(default)]
    applications: Applications,
    within: Option<OneOrMore>,
    inbound: Option<OneOrMore>,
}

impl AccessFile {
    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        let line_of = |offset| toml_file::line_of(text, offset);
        let written: Written = toml::from_str(text).map_err(|error| FileError::of(&error, text))?;
        let mut file = Self {
            desired: Desired::default(),
            lines: Lines::default(),
        };
        let at = |line: usize| {
            move |message: String| FileError {
                line: Some(line),
                message,
            }
        };
        if let Some((line, dns)) = with_lines(written.dns.into_iter().collect(), line_of).next() {
            file.lines.dns = Some(line);
            let mut desired = DesiredDns {
                search: dns.search.into_vec(),
                domains: Vec::new(),
            };
            for (line, DnsDomainEntry { name, servers }) in with_lines(dns.domain, line_of) {
                file.lines.dns_domains.push(line);
                let servers = servers.into_vec();
                desired.domains.push(DesiredDnsDomain { name, servers });
            }
            file.desired.dns = Some(desired);
        }
        for (line, SiteEntry { name, relays }) in with_lines(written.site, line_of) {
            file.lines.sites.push(line);
            file.desired.sites.push(DesiredSite {
                name,
                relays: relays.map(OneOrMore::into_vec),
            });
        }
        for (line, actor) in with_lines(written.actor, line_of) {
            file.lines.actors.push(line);
            file.desired.actors.push(DesiredActor {
                name: actor.name,
                kind: actor.kind,
                disabled: actor.disabled,
            });
        }
        for (line, GroupEntry { name, members }) in with_lines(written.group, line_of) {
            file.lines.groups.push(line);
            file.desired.groups.push(DesiredGroup { name, members });
        }
        for (line, resource) in with_lines(written.resource, line_of) {
            file.lines.resources.push(line);
            let resource = resource.desired().map_err(at(line))?;
            file.desired.resources.push(resource);
        }
        for (line, policy) in with_lines(written.policy, line_of) {
            file.lines.policies.push(line);
            let policy = policy.desired().map_err(at(line))?;
            file.desired.policies.push(policy);
        }
        Ok(file)
    }

    /// Turns a problem that the portal found in a field into an error with the line of that field.
    pub(super) fn locate(&self, problem: &FieldProblem) -> FileError {
        let located = self.line_and_rest(&problem.field);
        let (line, field) = match located {
            Some((line, rest)) => (Some(line), rest),
            None => (None, problem.field.as_str()),
        };
        let message = match field {
            "" => problem.detail.clone(),
            field => format!("{field}: {}", problem.detail),
        };
        FileError { line, message }
    }

    /// The line of the thing in `resources[3].filters[0]`, and what follows the dot.
    fn line_and_rest<'a>(&self, field: &'a str) -> Option<(usize, &'a str)> {
        let whole = || {
            let rest = field.strip_prefix("dns")?;
            Some((self.lines.dns?, rest.trim_start_matches('.')))
        };
        let Some((list, rest)) = field.split_once('[') else {
            return whole();
        };
        let (index, rest) = rest.split_once(']')?;
        let lines = match list {
            "dns.search" => return whole(),
            "dns.domains" => &self.lines.dns_domains,
            "sites" => &self.lines.sites,
            "actors" => &self.lines.actors,
            "groups" => &self.lines.groups,
            "resources" => &self.lines.resources,
            "policies" => &self.lines.policies,
            _ => return None,
        };
        let line = lines.get(index.parse::<usize>().ok()?)?;
        Some((*line, rest.trim_start_matches('.')))
    }
}

/// Each entry with the line on which it begins.
fn with_lines<T>(
    entries: Vec<Spanned<T>>,
    line_of: impl Fn(usize) -> usize,
) -> impl Iterator<Item = (usize, T)> {
    entries.into_iter().map(move |entry| {
        let line = line_of(entry.span().start);
        (line, entry.into_inner())
    })
}

impl ResourceEntry {
    fn desired(self) -> Result<DesiredResource, String> {
        let name = self.name;
        let filters = match (self.allow, self.filters) {
            (Some(allow), None) => services("allow", allow)?,
            (None, Some(filters)) => filters,
            (Some(_), Some(_)) => {
                return Err(format!(
                    "resource {} has `allow` and `filters`, which are the same: keep one",
                    quoted(&name)
                ));
            }
            (None, None) => {
                return Err(format!(
                    "resource {} does not say what may be used: add allow = [\"tcp:443\"], or \
                     allow = [] for nothing",
                    quoted(&name)
                ));
            }
        };
        let inbound = self.inbound.map(|inbound| services("inbound", inbound));
        Ok(DesiredResource {
            name,
            site: self.site,
            kind: self.kind.unwrap_or_else(|| target_kind(&self.address)),
            address: self.address,
            filters,
            applications: self.applications,
            within: self.within.map(OneOrMore::into_vec),
            inbound: inbound.transpose()?.unwrap_or_default(),
        })
    }
}

/// The protocols and ports that a key names.
fn services(key: &str, written: OneOrMore) -> Result<Vec<Filter>, String> {
    let texts = written.into_vec();
    let each = texts.iter().map(|text| {
        parse_allowed(text).map_err(|error| format!("{key} = {}: {error}", quoted(text)))
    });
    allowed(&each.collect::<Result<Vec<_>, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::model::PortRange;
    use proptest::prelude::*;

    fn error_of(text: &str) -> String {
        AccessFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_short_form_and_the_form_of_the_api_are_the_same() {
        let head = "[[resource]]\nname = 'web'\nsite = 'office'\naddress = '10.0.0.0/8'\n";
        let short = format!("{head}allow = ['tcp:80,443', 'icmp']");
        let long = format!(
            "{head}kind = 'cidr'\nfilters = [{{protocol = 'tcp', ports = [80, 443]}}, \
             {{protocol = 'icmp'}}]"
        );
        let [short, long] = [short, long].map(|text| AccessFile::parse(&text).unwrap().desired);
        assert_eq!(short, long);

        let head = "[[policy]]\ngroup = 'staff'\nresource = 'web'\n";
        let short =
            format!("{head}verified = true\nexpires = 2027-01-31T18:00:00Z\ncountry = 'de'");
        let long = format!(
            "{head}name = 'staff may use web'\nconditions = [{{kind = 'country', countries = ['DE']}}, \
             {{kind = 'verified'}}, {{kind = 'expires', at = '2027-01-31T18:00:00Z'}}]"
        );
        let [short, long] = [short, long].map(|text| AccessFile::parse(&text).unwrap().desired);
        assert_eq!(short, long);
    }

    #[test]
    fn a_single_text_stands_for_a_list_of_one() {
        let text = "[[resource]]\nname='a'\nsite='s'\naddress='a.b'\nallow='tcp:80'";
        let resource = &AccessFile::parse(text).unwrap().desired.resources[0];
        let ports = vec![PortRange {
            first: 80,
            last: 80,
        }];
        assert_eq!(resource.filters, [Filter::Tcp { ports }]);
        assert_eq!(resource.kind, TargetKind::Dns);
    }

    #[test]
    fn a_resource_says_which_applications_may_reach_it() {
        let head = "[[resource]]\nname='a'\nsite='s'\naddress='a.b'\nallow='any'\n";
        let names = || vec!["backup".to_owned(), "sync".to_owned()];
        for (text, rule) in [
            ("", Applications::Any),
            ("applications = 'any'", Applications::Any),
            (
                "applications = {only = ['backup', 'sync']}",
                Applications::Only(names()),
            ),
            (
                "applications = {except = ['backup', 'sync']}",
                Applications::Except(names()),
            ),
        ] {
            let file = AccessFile::parse(&format!("{head}{text}")).unwrap();
            assert_eq!(file.desired.resources[0].applications, rule, "{text}");
        }
        for text in [
            "'backup'",
            "['backup']",
            "{only = 'backup'}",
            "{only = ['backup'], except = ['browser']}",
            "{}",
        ] {
            let error = error_of(&format!("{head}applications = {text}"));
            assert!(error.starts_with("6: "), "{text}: {error}");
        }
    }

    #[test]
    fn a_resource_says_in_which_networks_its_names_must_be() {
        let head = "[[resource]]\nname='a'\nsite='s'\naddress='a.b'\nallow='any'\n";
        let texts = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect());
        for (text, within) in [
            ("", None),
            ("within = '10.0.0.0/8'", texts(&["10.0.0.0/8"])),
            (
                "within = ['10.0.0.0/8', 'fd00::1']",
                texts(&["10.0.0.0/8", "fd00::1"]),
            ),
            ("within = 'anywhere'", texts(&["anywhere"])),
            // An empty list is not the same as none: the portal refuses it.
            ("within = []", texts(&[])),
        ] {
            let file = AccessFile::parse(&format!("{head}{text}")).unwrap();
            assert_eq!(file.desired.resources[0].within, within, "{text}");
        }
    }

    #[test]
    fn rules_about_names_are_one_table_with_a_list_of_domains() {
        let file = AccessFile::parse("[[site]]\nname = 'a'\n").unwrap();
        assert_eq!(file.desired.dns, None, "they stay as they are");
        let file = AccessFile::parse("[dns]\n").unwrap();
        assert_eq!(file.desired.dns, Some(DesiredDns::default()));
        let text = "[dns]\nsearch = 'corp.example'\n\n[[dns.domain]]\nname = 'corp.example'\n\
                    servers = ['10.0.0.53', 'fd00::53']\n\n[[dns.domain]]\nname = '.'\n\
                    servers = '10.0.0.54'\n";
        let file = AccessFile::parse(text).unwrap();
        let dns = file.desired.dns.as_ref().unwrap();
        assert_eq!(dns.search, ["corp.example"]);
        assert_eq!(dns.domains[0].servers, ["10.0.0.53", "fd00::53"]);
        assert_eq!(dns.domains[1].name, ".");
        let problem = |field: &str| FieldProblem {
            field: field.to_owned(),
            detail: "it is wrong".to_owned(),
        };
        for (field, shown) in [
            ("dns", "1: it is wrong"),
            ("dns.search[0]", "1: search[0]: it is wrong"),
            ("dns.domains", "1: domains: it is wrong"),
            ("dns.domains[1].name", "8: name: it is wrong"),
            ("dns.domains[0].servers[1]", "4: servers[1]: it is wrong"),
        ] {
            assert_eq!(file.locate(&problem(field)).to_string(), shown);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let resource = "[[resource]]\nname = 'web'\nsite = 'office'\naddress = '10.0.0.0/8'\n";
        let policy = "[[policy]]\ngroup = 'staff'\nresource = 'web'\n";
        for (text, begins, holds) in [
            ("[[site]]\nname = \n".to_owned(), "2: ", ""),
            ("[[site]]\nnmae = 'x'\n".to_owned(), "2: ", "nmae"),
            ("\n[[sight]]\nname = 'x'\n".to_owned(), "2: ", "sight"),
            (
                "[[actor]]\nname = 'x'\nkind = 'robot'\n".to_owned(),
                "3: ",
                "robot",
            ),
            (resource.to_owned(), "1: ", "allow = []"),
            (
                format!("\n{resource}allow = ['tcp:99999']"),
                "2: ",
                "tcp:99999",
            ),
            (
                format!("{resource}allow = ['any']\nfilters = []"),
                "1: ",
                "keep one",
            ),
            (format!("{policy}expires = '4h'"), "1: ", "instant"),
            (format!("{policy}expires = 2027-01-31"), "1: ", "instant"),
            (format!("{policy}time = 'mon 08:00-18:00'"), "1: ", "ZONE"),
            (format!("{policy}country = 5"), "4: ", "list of texts"),
            (
                format!("{policy}verified = true\nconditions = []"),
                "1: ",
                "one form",
            ),
        ] {
            let error = error_of(&text);
            assert!(error.starts_with(begins), "{text}\n{error}");
            assert!(error.contains(holds), "{text}\n{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn every_table_of_a_file_takes_known_keys_alone() {
        let resource = "[[resource]]\nname = 'web'\nsite = 'office'\naddress = '10.0.0.0/8'\n";
        let policy = "[[policy]]\ngroup = 'staff'\nresource = 'web'\n";
        let window = "days = ['mon'], from = '09:00', until = '17:00'";
        let filter = |filter: &str| format!("{resource}filters = [{{{filter}KEY}}]");
        let condition = |condition: &str| format!("{policy}conditions = [{{{condition}KEY}}]");
        for text in [
            "[dns]\nKEY".to_owned(),
            "[[dns.domain]]\nname = 'x'\nservers = []\nKEY".to_owned(),
            "[[site]]\nname = 'x'\nKEY".to_owned(),
            "[[actor]]\nname = 'x'\nkind = 'user'\nKEY".to_owned(),
            "[[group]]\nname = 'x'\nKEY".to_owned(),
            format!("{resource}allow = 'any'\nKEY"),
            format!("{policy}KEY"),
            filter("protocol = 'any'"),
            filter("protocol = 'tcp', ports = [443]"),
            filter("protocol = 'udp'"),
            filter("protocol = 'icmp'"),
            condition("kind = 'verified'"),
            condition("kind = 'country', countries = ['DE']"),
            condition("kind = 'public_address', cidrs = ['203.0.113.0/24']"),
            condition("kind = 'expires', at = '2027-01-31T18:00:00Z'"),
            condition(&format!(
                "kind = 'time', zone = 'UTC', windows = [{{{window}}}]"
            )),
            format!(
                "{policy}conditions = [{{kind = 'time', zone = 'UTC', windows = [{{{window}KEY}}]}}]"
            ),
        ] {
            let good = text.replace("KEY", "");
            assert!(AccessFile::parse(&good).is_ok(), "{good}");
            let separator = if text.contains("KEY}") { ", " } else { "" };
            let bad = text.replace("KEY", &format!("{separator}surprise = 1"));
            let error = error_of(&bad);
            assert!(error.contains("surprise"), "{bad}\n{error}");
        }
    }

    #[test]
    fn what_the_portal_says_is_about_a_line() {
        let text = "[[site]]\nname = 'a'\n\n[[site]]\nname = 'b'\n";
        let file = AccessFile::parse(text).unwrap();
        let problem = |field: &str| FieldProblem {
            field: field.to_owned(),
            detail: "it is wrong".to_owned(),
        };
        for (field, shown) in [
            ("sites[1].name", "4: name: it is wrong"),
            ("sites[0]", "1: it is wrong"),
            ("sites[2].name", " sites[2].name: it is wrong"),
            ("", " it is wrong"),
        ] {
            assert_eq!(file.locate(&problem(field)).to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[\\[(site|policy)\\]\\]\n|[a-z]+ ?= ?['\"\\[0-9ä]*\n|.){0,20}") {
            if let Err(error) = AccessFile::parse(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}

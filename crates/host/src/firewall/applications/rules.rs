//! The client's rules as text for `nft`, and its counters as text from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use culvert_policy::{ApplicationName, Applications, Prefix};

use super::ranges::{flatten, shown};
use super::refused::Refused;
use crate::cgroup::APPLICATION_LEVEL;
use crate::firewall::rules::{TABLE_PREFIX, remove_text};
use crate::{HostError, InterfaceName};

/// Ranges with a rule: as many as the client leads into the tunnel. `nft` loads them in a second.
pub const MAX_RULED_RANGES: usize = 32_768;

/// The counter of all whose application no rule names.
const OTHERS: &str = "refused_others";

/// The prefix of an application's counter; its name follows.
const REFUSED: &str = "refused_app_";

/// A program that may not hears it at once, as an error of the call that it made.
const REJECT: &str = "reject with icmpx admin-prohibited";

/// The ranges that each program may send to through the tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRules {
    /// The tunnel interface. It need not exist yet.
    pub interface: InterfaceName,
    /// The applications that may send to each range; of several ranges around an address the
    /// narrowest counts. An address outside all ranges has no rule.
    pub ranges: BTreeMap<Prefix, Applications>,
}

impl ApplicationRules {
    /// Every application that a rule names.
    #[must_use]
    pub fn applications(&self) -> BTreeSet<ApplicationName> {
        let names = self.ranges.values().flat_map(Applications::names);
        names.cloned().collect()
    }

    /// The transaction that replaces whatever is in the table by these rules. `path_of` is the cgroup
    /// of an application, as far as there is one.
    pub(super) fn to_nft(
        &self,
        path_of: impl Fn(&ApplicationName) -> Option<String>,
    ) -> Result<String, HostError> {
        if self.ranges.len() > MAX_RULED_RANGES {
            return Err(HostError::TooMany {
                what: "ranges with rules about applications",
                max: MAX_RULED_RANGES,
            });
        }
        let table = table_of(&self.interface);
        let mut text = remove_text(&table);
        // Writing into a string does not fail.
        let _written = self.write(&mut text, &table, path_of);
        Ok(text)
    }

    fn write(
        &self,
        text: &mut String,
        table: &str,
        path_of: impl Fn(&ApplicationName) -> Option<String>,
    ) -> std::fmt::Result {
        let applications = self.applications();
        writeln!(text, "table inet {table} {{")?;
        for application in &applications {
            writeln!(text, "\tcounter {REFUSED}{application} {{ }}")?;
        }
        writeln!(text, "\tcounter {OTHERS} {{ }}")?;
        for application in &applications {
            writeln!(text, "\tset app_{application} {{")?;
            writeln!(text, "\t\ttype cgroupsv2")?;
            if let Some(path) = path_of(application) {
                writeln!(text, "\t\telements = {{ \"{path}\" }}")?;
            }
            writeln!(text, "\t}}")?;
        }
        self.write_refusal(text, &applications)?;
        let rules = self.distinct();
        for (rule, number) in &rules {
            write_rule(text, *number, rule)?;
        }
        self.write_maps(text, &rules)?;
        self.write_hooks(text)?;
        writeln!(text, "}}")
    }

    /// Counts who is refused.
    fn write_refusal(
        &self,
        text: &mut String,
        applications: &BTreeSet<ApplicationName>,
    ) -> std::fmt::Result {
        writeln!(text, "\tchain refuse {{")?;
        for application in applications {
            let of = of_application(application);
            writeln!(
                text,
                "\t\t{of} counter name \"{REFUSED}{application}\" {REJECT}"
            )?;
        }
        writeln!(text, "\t\tcounter name \"{OTHERS}\" {REJECT}")?;
        writeln!(text, "\t}}")
    }

    /// The maps: the chain of the rule for each range, and the ranges that have a rule.
    fn write_maps(
        &self,
        text: &mut String,
        rules: &BTreeMap<&Applications, usize>,
    ) -> std::fmt::Result {
        let numbered: BTreeMap<Prefix, Option<usize>> = self
            .ranges
            .iter()
            .map(|(range, rule)| (*range, rules.get(rule).copied()))
            .collect();
        for (family, kind, is_ipv4) in [("4", "ipv4_addr", true), ("6", "ipv6_addr", false)] {
            let flat = flatten(&numbered, is_ipv4).into_iter();
            let ruled: Vec<(String, usize)> = flat
                .filter_map(|(first, last, number)| Some((shown(is_ipv4, first, last), number?)))
                .collect();
            let ways = ruled
                .iter()
                .map(|(range, number)| format!("{range} : goto rule_{number}"));
            let ranges = ruled.iter().map(|(range, _)| range.clone());
            writeln!(text, "\tmap ways{family} {{")?;
            writeln!(text, "\t\ttype {kind} : verdict")?;
            write_elements(text, ways)?;
            writeln!(text, "\tset ruled{family} {{")?;
            writeln!(text, "\t\ttype {kind}")?;
            write_elements(text, ranges)?;
        }
        Ok(())
    }

    fn write_hooks(&self, text: &mut String) -> std::fmt::Result {
        let out = format!("oifname \"{}\"", self.interface);
        writeln!(text, "\tchain output {{")?;
        writeln!(
            text,
            "\t\ttype filter hook output priority filter; policy accept;"
        )?;
        writeln!(text, "\t\t{out} ip daddr vmap @ways4")?;
        writeln!(text, "\t\t{out} ip6 daddr vmap @ways6")?;
        writeln!(text, "\t}}")?;
        writeln!(text, "\tchain forward {{")?;
        writeln!(
            text,
            "\t\ttype filter hook forward priority filter; policy accept;"
        )?;
        for family in ["ip daddr @ruled4", "ip6 daddr @ruled6"] {
            writeln!(
                text,
                "\t\t{out} {family} counter name \"{OTHERS}\" {REJECT}"
            )?;
        }
        writeln!(text, "\t}}")
    }

    /// Each rule but that every program may, with a number.
    fn distinct(&self) -> BTreeMap<&Applications, usize> {
        let rules: BTreeSet<&Applications> =
            self.ranges.values().filter(|rule| !rule.is_any()).collect();
        rules
            .into_iter()
            .enumerate()
            .map(|(number, rule)| (rule, number))
            .collect()
    }
}

fn write_rule(text: &mut String, number: usize, rule: &Applications) -> std::fmt::Result {
    let (of_named, of_others) = match rule {
        Applications::Only(_) => ("accept", "goto refuse"),
        Applications::Except(_) => ("goto refuse", "accept"),
    };
    writeln!(text, "\tchain rule_{number} {{")?;
    for application in rule.names() {
        writeln!(text, "\t\t{} {of_named}", of_application(application))?;
    }
    writeln!(text, "\t\t{of_others}")?;
    writeln!(text, "\t}}")
}

/// The rest of a set or map of ranges.
fn write_elements(text: &mut String, elements: impl Iterator<Item = String>) -> std::fmt::Result {
    writeln!(text, "\t\tflags interval")?;
    let elements: Vec<String> = elements.collect();
    if !elements.is_empty() {
        writeln!(text, "\t\telements = {{ {} }}", elements.join(", "))?;
    }
    writeln!(text, "\t}}")
}

/// The match of packets whose socket was made in the application's cgroup, or below.
fn of_application(application: &ApplicationName) -> String {
    format!("socket cgroupv2 level {APPLICATION_LEVEL} @app_{application}")
}

/// The name of the table of an interface, of family `inet`. It is longer than a gateway's can be, so
/// that the two are never the same.
pub(crate) fn table_of(interface: &InterfaceName) -> String {
    format!("{}applications_{interface}", TABLE_PREFIX)
}

/// The counters as `nft` prints them: a line with the name, then one with the numbers.
pub(super) fn parse_counters(text: &str) -> Refused {
    let mut refused = Refused::default();
    let mut counter = "";
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("counter"), Some(name)) => counter = name,
            (Some("packets"), Some(count)) => {
                let count = count.parse().unwrap_or(0);
                let application = counter.strip_prefix(REFUSED).and_then(|it| it.parse().ok());
                match application {
                    Some(_) if count == 0 => {}
                    Some(application) => {
                        refused.applications.insert(application, count);
                    }
                    None if counter == OTHERS => refused.others = count,
                    None => {}
                }
            }
            _ => {}
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ApplicationName {
        text.parse().unwrap()
    }

    fn names(texts: &[&str]) -> BTreeSet<ApplicationName> {
        texts.iter().map(|text| name(text)).collect()
    }

    fn rules() -> ApplicationRules {
        let only = Applications::Only(names(&["backup", "sync"]));
        let except = Applications::Except(names(&["browser"]));
        ApplicationRules {
            interface: "culvert0".parse().unwrap(),
            ranges: BTreeMap::from([
                ("10.0.0.0/8".parse().unwrap(), only.clone()),
                ("10.1.0.0/16".parse().unwrap(), Applications::ANY),
                ("10.2.3.4/32".parse().unwrap(), except),
                ("fd00:9::/64".parse().unwrap(), only),
            ]),
        }
    }

    #[test]
    fn the_text_is_as_it_was_agreed() {
        let text = rules()
            .to_nft(|application| match application.as_str() {
                "browser" => None,
                other => Some(format!("unified/culvert.slice/culvert-{other}.slice")),
            })
            .unwrap();
        assert_eq!(text, include_str!("golden.nft"));
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "table inet culvert_applications_culvert0 {\n\tcounter refused_app_backup {\n\t\t\
                    packets 3 bytes 180\n\t}\n\tcounter refused_app_sync {\n\t\tpackets 0 bytes 0\n\t}\n\
                    \tcounter refused_others {\n\t\tpackets 7 bytes 900\n\t}\n}\n";
        let refused = parse_counters(text);
        assert_eq!(refused.others, 7);
        assert_eq!(refused.applications, BTreeMap::from([(name("backup"), 3)]));
        assert_eq!(
            parse_counters("packets 9\ncounter x\npackets y"),
            Refused::default()
        );
    }
}

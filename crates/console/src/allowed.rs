//! The protocols and ports of a resource, in rows of a form: a protocol and its ports in each.

use super::fields::Fields;
use super::view::{Field, PortRow};
use culvert_portal_base::Fault;
use culvert_wire::model::Filter;
use culvert_wire::words;

const FILTERS: &str = "filters";
const PROTOCOL: &str = "protocol";
const PORTS: &str = "ports";

/// Rows of a form. More permissions are written as text.
const MAX_ROWS: usize = 12;

/// Rows of a new resource, and empty ones below those that are filled in.
const MIN_ROWS: usize = 3;
const EMPTY_ROWS: usize = 1;

/// The permissions that a form holds.
pub(super) enum Allowed {
    Rows(Vec<PortRow>),
    /// One a line: the notation of the command line says more than rows do.
    Text(String),
}

impl Allowed {
    /// Those of a resource.
    pub(super) fn of(filters: &[Filter]) -> Self {
        let rows: Option<Vec<PortRow>> = filters.iter().map(row).collect();
        match rows.filter(|rows| rows.len() <= MAX_ROWS) {
            Some(rows) => Self::Rows(rows),
            None => Self::Text(words::filters(filters).replace(' ', "\n")),
        }
    }

    pub(super) fn sent(fields: &Fields) -> Self {
        if fields.has(FILTERS) {
            return Self::Text(fields.text(FILTERS).to_owned());
        }
        let rows = (0..MAX_ROWS).map(|at| {
            let row = PortRow {
                protocol: fields.text(&format!("{PROTOCOL}.{at}")).to_owned(),
                ports: fields.text(&format!("{PORTS}.{at}")).to_owned(),
                is_wrong: false,
            };
            PortRow {
                is_wrong: row != PortRow::default() && read(&row).is_err(),
                ..row
            }
        });
        Self::Rows(rows.filter(|row| *row != PortRow::default()).collect())
    }

    pub(super) fn field(&self) -> Field {
        match self {
            Self::Text(text) => Field::lines(FILTERS, "Allowed")
                .hint("One a line: tcp:80,443, udp:53, icmp, any. Empty allows nothing.")
                .value(text),
            Self::Rows(rows) => {
                let count = (rows.len() + EMPTY_ROWS).clamp(MIN_ROWS, MAX_ROWS);
                let mut rows = rows.clone();
                rows.resize(count.max(rows.len()), PortRow::default());
                Field::ports(FILTERS, "Allowed", rows).hint(
                    "A protocol and its ports in each row. TCP and UDP without ports allow every port. Without any \
                     row the resource allows nothing: nobody can use it.",
                )
            }
        }
    }

    pub(super) fn filters(&self) -> Result<Vec<Filter>, Fault> {
        let each = match self {
            Self::Text(text) => words::parse_all_allowed(text),
            Self::Rows(rows) => rows
                .iter()
                .enumerate()
                .map(|(at, row)| read(row).map_err(|error| format!("row {}: {error}", at + 1)))
                .collect(),
        };
        each.and_then(|each| words::allowed(&each))
            .map_err(|error| Fault::invalid(FILTERS, error))
    }

    /// As the command line shows it.
    pub(super) fn text(&self) -> String {
        match (self, self.filters()) {
            (_, Ok(filters)) if filters.is_empty() => "nothing".to_owned(),
            (_, Ok(filters)) => words::filters(&filters),
            (Self::Text(text), Err(_)) => text.clone(),
            (Self::Rows(_), Err(_)) => String::new(),
        }
    }
}

/// The row of a permission; none where a row can't say it.
fn row(filter: &Filter) -> Option<PortRow> {
    let text = words::filters(std::slice::from_ref(filter));
    let (protocol, ports) = text.split_once(':').unwrap_or((&text, ""));
    let row = PortRow {
        protocol: protocol.to_owned(),
        ports: ports.replace(',', ", "),
        is_wrong: false,
    };
    read(&row).is_ok().then_some(row)
}

/// The permission of a row.
fn read(row: &PortRow) -> Result<words::Allowed, String> {
    let ports = row.ports.trim();
    match (&*row.protocol, ports) {
        // A pasted `tcp:443` says the protocol as well.
        ("", ports) => {
            words::parse_allowed(ports).map_err(|_| "choose a protocol for the ports".to_owned())
        }
        ("icmp" | "any", ports) if !ports.is_empty() => {
            Err("only TCP and UDP have ports: leave them empty".to_owned())
        }
        ("tcp" | "udp" | "icmp" | "any", "") => words::parse_allowed(&row.protocol),
        ("tcp" | "udp", ports) => words::parse_allowed(&format!("{}:{ports}", row.protocol))
            .map_err(|_| "write ports from 1 to 65535, such as 443 or 80, 8000-8100".to_owned()),
        _ => Err("choose a protocol of the list".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(query: &str) -> Allowed {
        Allowed::sent(&Fields::parse_query(query).ok().unwrap())
    }

    fn problem(query: &str) -> String {
        match sent(query).filters() {
            Err(Fault::Invalid(problems)) => problems[0].detail.clone(),
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn rows_are_read_and_empty_ones_are_nothing() {
        for (query, text) in [
            ("", "nothing"),
            ("protocol.0=&ports.0=", "nothing"),
            ("protocol.0=tcp&ports.0=80,+443", "tcp:80,443"),
            ("protocol.0=tcp&ports.0=", "tcp"),
            ("protocol.2=udp&ports.2=53&protocol.0=icmp", "icmp udp:53"),
            ("protocol.0=&ports.0=TCP:443", "tcp:443"),
            ("protocol.11=any", "any"),
            ("protocol.12=any", "nothing"),
            ("filters=tcp:80%0D%0Aicmp", "tcp:80 icmp"),
        ] {
            assert_eq!(sent(query).text(), text, "{query}");
        }
    }

    #[test]
    fn a_row_that_is_wrong_says_which_and_why() {
        for (query, told) in [
            (
                "protocol.0=tcp&ports.0=70000",
                "row 1: write ports from 1 to 65535",
            ),
            (
                "protocol.0=tcp&ports.0=80&protocol.1=udp&ports.1=-1",
                "row 2: write ports",
            ),
            ("protocol.0=tcp&ports.0=9-1", "row 1: write ports"),
            ("protocol.0=&ports.0=80", "row 1: choose a protocol"),
            (
                "protocol.0=icmp&ports.0=8",
                "row 1: only TCP and UDP have ports",
            ),
            (
                "protocol.0=sctp&ports.0=8",
                "row 1: choose a protocol of the list",
            ),
            ("protocol.0=tcp&ports.0=%E2%80%AE80", "row 1: write ports"),
            ("protocol.0=tcp&ports.0=8%E2%80%8B0", "row 1: write ports"),
            ("protocol.0=tcp&ports.0=<b>", "row 1: write ports"),
        ] {
            assert!(
                problem(query).starts_with(told),
                "{query}: {}",
                problem(query)
            );
        }
        let long = format!("protocol.0=tcp&ports.0={}", "9".repeat(10_000));
        assert!(problem(&long).len() < 100);
    }

    #[test]
    fn permissions_that_rows_cannot_say_stay_text() {
        let tcp = |ports: &[&str]| Filter::Tcp {
            ports: ports.iter().map(|ports| ports.parse().unwrap()).collect(),
        };
        assert!(matches!(
            Allowed::of(&[tcp(&["80", "443"])]),
            Allowed::Rows(_)
        ));
        assert!(matches!(Allowed::of(&[tcp(&[])]), Allowed::Text(_)));
        let many = vec![tcp(&["80"]); MAX_ROWS + 1];
        assert!(matches!(Allowed::of(&many), Allowed::Text(_)));
        for filters in [
            vec![],
            vec![tcp(&["80", "8000-8100"]), Filter::Icmp],
            vec![Filter::Any],
        ] {
            assert_eq!(Allowed::of(&filters).filters(), Ok(filters));
        }
    }
}

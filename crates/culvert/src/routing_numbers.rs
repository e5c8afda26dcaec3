//! Marks and routing tables, as options name them.

use culvert_host::{HostError, Mark, Routing, Table};

/// `usual` with the numbers that were chosen instead. A table takes the next number along.
pub(crate) fn routing(
    usual: Routing,
    mark: Option<Mark>,
    table: Option<Table>,
) -> Result<Routing, HostError> {
    let mut routing = usual;
    routing.mark = mark.unwrap_or(usual.mark);
    if let Some(table) = table {
        routing.table = table;
        routing.default_table = Table::new(table.get().wrapping_add(1))?;
    }
    Ok(routing)
}

/// A mark other than that of all packets.
pub(crate) fn mark(text: &str) -> Result<Mark, String> {
    Mark::new(number(text)?).map_err(|error| error.to_string())
}

/// A table that is not the kernel's, and neither is the next one.
pub(crate) fn table(text: &str) -> Result<Table, String> {
    let number = number(text)?;
    Table::new(number.wrapping_add(1))
        .and_then(|_| Table::new(number))
        .map_err(|error| error.to_string())
}

/// A number in decimal, or in hexadecimal behind `0x`, as `ip` writes marks and tables.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "it must be a number below 2^32, such as 51820 or 0xca6c".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(number("0xca6c"), Ok(0xca6c));
        assert_eq!(number("51820"), Ok(51820));
        assert!(number("-1").is_err() && number("0x100000000").is_err());
    }

    #[test]
    fn a_table_takes_the_next_number_along() {
        let routing = routing(Routing::CLIENT, mark("7").ok(), table("1000").ok()).unwrap();
        let tables = (routing.table.get(), routing.default_table.get());
        assert_eq!((routing.mark.get(), tables), (7, (1000, 1001)));
        assert!(table("252").is_err(), "253 is the kernel's");
        assert!(mark("0").is_err());
    }
}

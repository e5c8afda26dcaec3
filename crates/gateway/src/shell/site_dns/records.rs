//! Records of names, as the system's resolver finds them.

use crate::shell::resolver::{SystemResolver, aliases};
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, Record, RecordType};

/// The records of a name, behind those of its aliases.
pub(super) async fn records(
    resolver: &SystemResolver,
    name: Name,
    kind: RecordType,
) -> Result<Vec<Record>, NetError> {
    let found = resolver.lookup(name.clone(), kind).await;
    let found = found.map(|found| found.answers().to_vec());
    match &found {
        // The resolver takes the target of a service for an alias. Beside a real one it looks there, and finds nothing.
        Err(error) if kind == RecordType::SRV && error.is_no_records_found() => {
            let (aliases, name) = aliases(resolver, name).await;
            if aliases.is_empty() {
                return found;
            }
            let services = resolver.lookup(name, kind).await?;
            Ok([&aliases[..], services.answers()].concat())
        }
        _ => found,
    }
}

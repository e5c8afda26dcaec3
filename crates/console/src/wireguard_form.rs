//! The fields of the forms for plain WireGuard devices: the gateways with their addresses, and the key.

use super::fields::Fields;
use super::view::{Field, GatewayRow};
use culvert_ids::GatewayId;
use culvert_portal_base::Fault;
use culvert_portal_service::DeviceGateway;
use culvert_store::MAX_PLAIN_CLIENT_GATEWAYS;
use culvert_wire::PublicKey;
use std::collections::BTreeMap;

/// Gateways that a form has rows for. Two fields for each, and eight others, are fewer than the 64 of a form. If there are
/// more, the form takes their names.
const MAX_ROWS: usize = 24;

/// Separates the name of a gateway from its address.
const IS: &str = " = ";

/// The gateways of a device, and the addresses that are to be in its file.
pub(super) type Chosen = (Vec<GatewayId>, BTreeMap<GatewayId, String>);

/// The field for the gateways: as it was filled in, or with those that the device has.
pub(super) fn gateways_field(
    known: &[DeviceGateway],
    written: Option<&Fields>,
    of_device: &[GatewayId],
) -> Field {
    if known.len() > MAX_ROWS {
        return named_field(known, written, of_device);
    }
    let rows = known.iter().map(|gateway| {
        let (checkbox, endpoint) = field_names(gateway.id);
        GatewayRow {
            id: gateway.id.to_string(),
            name: gateway.name.clone(),
            about: match gateway.is_connected {
                true => format!("site {}", gateway.site_name),
                false => format!("site {}, not connected", gateway.site_name),
            },
            is_checked: match written {
                Some(fields) => fields.has(&checkbox),
                None => of_device.contains(&gateway.id),
            },
            endpoint: written.map_or_else(String::new, |fields| fields.text(&endpoint).to_owned()),
            placeholder: match gateway.is_connected {
                true => "The address that the gateway reports",
                false => "HOST:PORT, such as vpn.example.com:51820",
            },
        }
    });
    Field::gateways("gateways", "Gateways", rows.collect()).hint(
        "One of a site at most. Write an address and port if the device reaches the gateway at another one than the \
         gateway reports, such as that of your router.",
    )
}

fn named_field(
    known: &[DeviceGateway],
    written: Option<&Fields>,
    of_device: &[GatewayId],
) -> Field {
    let value = written.map_or_else(
        || {
            let used = known.iter().filter(|it| of_device.contains(&it.id));
            let names: Vec<&str> = used.map(|gateway| &*gateway.name).collect();
            names.join("\n")
        },
        |fields| fields.text("gateways").to_owned(),
    );
    Field::lines("gateways", "Gateways")
        .hint(
            "The name of a gateway in each line, one of a site at most. If the device reaches it at another address than \
             the gateway reports: office gateway = vpn.example.com:51820",
        )
        .value(value)
}

/// The gateways that a new device has at first: the one to choose, if there is one site.
pub(super) fn first_choice(known: &[DeviceGateway]) -> Vec<GatewayId> {
    let is_one_site = known.windows(2).all(|two| two[0].site == two[1].site);
    let connected = known.iter().find(|gateway| gateway.is_connected);
    let first = connected.or(known.first()).filter(|_| is_one_site);
    first.map(|gateway| gateway.id).into_iter().collect()
}

/// The gateways that the form names.
pub(super) fn chosen(known: &[DeviceGateway], fields: &Fields) -> Result<Chosen, Fault> {
    let mut chosen = Chosen::default();
    if known.len() > MAX_ROWS {
        let lines = fields.lines("gateways");
        if lines.len() > MAX_PLAIN_CLIENT_GATEWAYS {
            let text = format!("a device uses at most {MAX_PLAIN_CLIENT_GATEWAYS}");
            return Err(Fault::invalid("gateways", text));
        }
        for line in lines {
            let (name, endpoint) = match line.split_once(IS) {
                Some((name, endpoint)) => (name.trim(), Some(endpoint.trim().to_owned())),
                None => (line.as_str(), None),
            };
            let id = named(known, name)?;
            chosen.0.push(id);
            chosen.1.extend(endpoint.map(|endpoint| (id, endpoint)));
        }
    } else {
        for gateway in known {
            let (checkbox, endpoint) = field_names(gateway.id);
            if !fields.has(&checkbox) {
                continue;
            }
            chosen.0.push(gateway.id);
            let endpoint = fields.filled(&endpoint).map(str::to_owned);
            chosen
                .1
                .extend(endpoint.map(|endpoint| (gateway.id, endpoint)));
        }
    }
    match chosen.0.is_empty() {
        true => Err(Fault::invalid("gateways", "choose one gateway at least")),
        false => Ok(chosen),
    }
}

fn field_names(gateway: GatewayId) -> (String, String) {
    (
        format!("gateways.{gateway}"),
        format!("endpoints.{gateway}"),
    )
}

/// Of two gateways with one name, the one by its id.
fn named(known: &[DeviceGateway], name: &str) -> Result<GatewayId, Fault> {
    let is_meant = |gateway: &&DeviceGateway| {
        gateway.name.to_lowercase() == name.to_lowercase() || gateway.id.to_string() == name
    };
    let mut meant = known.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(gateway), None) => Ok(gateway.id),
        (None, _) => {
            let text = format!("there is no gateway {name}");
            Err(Fault::invalid("gateways", text))
        }
        (Some(first), Some(second)) => {
            let (first, second) = (first.id, second.id);
            let text =
                format!("several are called {name}: write an id, such as {first} or {second}");
            Err(Fault::invalid("gateways", text))
        }
    }
}

/// The field for the key: as it was filled in.
pub(super) fn key_field(written: Option<&Fields>) -> Field {
    let own = written.filter(|fields| !is_made(fields));
    let value = own.map_or("", |fields| fields.text("public_key"));
    // Without a script there is no choice.
    let is_own = own.is_some_and(|fields| fields.has("key"));
    Field::key("public_key", "Key", !is_own).value(value)
}

/// True if the browser made the key.
fn is_made(fields: &Fields) -> bool {
    fields.text("key") == "made"
}

/// The key that opens the private key in the browser that made it.
pub(super) fn seal(fields: &Fields) -> Option<&str> {
    Some(fields.text("seal")).filter(|_| is_made(fields))
}

/// The public key in the form.
pub(super) fn public_key(fields: &Fields) -> Result<PublicKey, Fault> {
    match fields.filled("public_key") {
        Some(_) => fields.parse("public_key"),
        None => Err(Fault::invalid("public_key", "it is missing")),
    }
}

/// A fault of an address is shown at the gateways: they have the fields for it.
pub(super) fn in_form(known: &[DeviceGateway], fault: Fault) -> Fault {
    let Fault::Invalid(mut problems) = fault else {
        return fault;
    };
    for problem in &mut problems {
        let Some(id) = problem.field.strip_prefix("endpoints.") else {
            continue;
        };
        let gateway = known.iter().find(|gateway| gateway.id.to_string() == id);
        let name = gateway.map_or(id, |gateway| &*gateway.name);
        problem.detail = format!("the address of {name}: {}", problem.detail);
        "gateways".clone_into(&mut problem.field);
    }
    Fault::Invalid(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::SiteId;

    fn gateway(number: u8, site: u8, is_connected: bool) -> DeviceGateway {
        DeviceGateway {
            id: GatewayId::from_bytes([number; 16]),
            name: format!("gw-{number}"),
            site: SiteId::from_bytes([site; 16]),
            site_name: format!("site {site}"),
            is_connected,
        }
    }

    #[test]
    fn the_only_site_is_chosen_at_first_and_none_of_several() {
        let id = |number| vec![GatewayId::from_bytes([number; 16])];
        assert_eq!(first_choice(&[]), []);
        assert_eq!(first_choice(&[gateway(1, 1, false)]), id(1));
        let two = [gateway(1, 1, false), gateway(2, 1, true)];
        assert_eq!(first_choice(&two), id(2));
        let sites = [gateway(1, 1, true), gateway(2, 2, true)];
        assert_eq!(first_choice(&sites), []);
    }

    #[test]
    fn a_form_with_many_gateways_takes_their_names() {
        let many: Vec<_> = (0..=24)
            .map(|number| gateway(number, number, true))
            .collect();
        let read = |text: &str| {
            let form = form_urlencoded::Serializer::new(String::new())
                .append_pair("gateways", text)
                .finish();
            chosen(&many, &Fields::of(form.as_bytes()).ok().unwrap())
        };
        let (ids, endpoints) = read("GW-3\n gw-4 = vpn.example.com:51820 \n").unwrap();
        assert_eq!(ids, [many[3].id, many[4].id]);
        let address = (many[4].id, "vpn.example.com:51820".to_owned());
        assert_eq!(endpoints, BTreeMap::from([address]));
        for wrong in ["", "gw-99", "gw-3 gw-4"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

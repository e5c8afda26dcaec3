//! Names of the kernel's switches.

use culvert_base::Family;

/// The name by which `sysctl` knows the switch for forwarding.
pub(crate) fn forwarding_switch(family: Family) -> &'static str {
    match family {
        Family::V4 => "net.ipv4.ip_forward",
        Family::V6 => "net.ipv6.conf.all.forwarding",
    }
}

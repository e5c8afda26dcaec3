//! Veth pairs between namespaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use culvert_base::Family;

use crate::namespace::Namespace;

/// One of 256 networks that hold two hosts each. Namespaces are separate worlds: every test may use
/// the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet(
    /// The number of the network, part of its addresses.
    pub u8,
);

impl Subnet {
    /// The address of host 1 (left) or 2 (right), or of a further one.
    #[must_use]
    pub fn host(self, family: Family, host: u8) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(10, 200, self.0, host).into(),
            Family::V6 => {
                Ipv6Addr::new(0xfd00, 0x200, self.0.into(), 0, 0, 0, 0, host.into()).into()
            }
        }
    }

    /// The whole network, as `ip route` writes it.
    #[must_use]
    pub fn network(self, family: Family) -> String {
        match family {
            Family::V4 => format!("10.200.{}.0/24", self.0),
            Family::V6 => format!("fd00:200:{:x}::/64", self.0),
        }
    }

    /// The addresses of a host with prefix lengths, of both families.
    pub(crate) fn interface_addresses(self, host: u8) -> [String; 2] {
        [
            format!("{}/24", self.host(Family::V4, host)),
            format!("{}/64", self.host(Family::V6, host)),
        ]
    }
}

/// The rate and the MTU of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkShape {
    /// The rate both ways in Mbit/s; `None` is as fast as the machine copies.
    pub rate_mbit: Option<u32>,
    /// The MTU of both ends in bytes; `None` is 1500.
    pub mtu_bytes: Option<u32>,
}

/// A veth pair: host 1 of the subnet on the left, host 2 on the right, both families, both up. The
/// interfaces vanish with their namespaces.
#[derive(Clone, Debug)]
pub struct Link {
    /// The namespace on the left.
    pub left: Namespace,
    /// The namespace on the right.
    pub right: Namespace,
    /// The subnet of its addresses.
    pub subnet: Subnet,
    /// The name of the interface, the same in both namespaces.
    pub interface: String,
}

impl Link {
    /// Joins two namespaces.
    ///
    /// # Errors
    /// When `ip` or `tc` refuses.
    pub fn new(
        left: &Namespace,
        right: &Namespace,
        subnet: Subnet,
        shape: LinkShape,
    ) -> Result<Self> {
        let interface = format!("veth{}", subnet.0);
        left.run(&format!(
            "ip link add {interface} type veth peer name {interface} netns {}",
            right.name()
        ))?;
        let link = Self {
            left: left.clone(),
            right: right.clone(),
            subnet,
            interface,
        };
        link.bring_up()?;
        link.shape(shape)?;
        Ok(link)
    }

    /// Takes over an interface of this name in each namespace, which something joins already.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn on(
        left: &Namespace,
        right: &Namespace,
        subnet: Subnet,
        interface: String,
    ) -> Result<Self> {
        let link = Self {
            left: left.clone(),
            right: right.clone(),
            subnet,
            interface,
        };
        link.bring_up()?;
        Ok(link)
    }

    fn bring_up(&self) -> Result<()> {
        for (namespace, host) in [(&self.left, 1), (&self.right, 2)] {
            for address in self.subnet.interface_addresses(host) {
                self.add_address(namespace, &address)?;
            }
            namespace.run(&format!("ip link set {} up", self.interface))?;
        }
        Ok(())
    }

    /// Takes the rate off both ends.
    ///
    /// # Errors
    /// When there is none.
    pub fn unshape(&self) -> Result<()> {
        for namespace in [&self.left, &self.right] {
            namespace.run(&format!("tc qdisc del dev {} root", self.interface))?;
        }
        Ok(())
    }

    /// Gives both ends another rate and MTU.
    ///
    /// # Errors
    /// When `ip` or `tc` refuses.
    pub fn shape(&self, shape: LinkShape) -> Result<()> {
        let interface = &self.interface;
        for namespace in [&self.left, &self.right] {
            if let Some(mtu_bytes) = shape.mtu_bytes {
                namespace.run(&format!("ip link set {interface} mtu {mtu_bytes}"))?;
            }
            if let Some(rate_mbit) = shape.rate_mbit {
                // The burst holds several superframes of 64 KiB, so that the shaper need not split
                // them; what waits longer than 20 ms is dropped.
                namespace.run(&format!(
                    "tc qdisc replace dev {interface} root tbf rate {rate_mbit}mbit burst 256kb latency 20ms"
                ))?;
            }
        }
        Ok(())
    }

    /// Makes the link keep the order of packets.
    ///
    /// A veth hands a packet to the queue of whichever processor sends it, so a sender that moves
    /// from one processor to another overtakes itself. Steering all that arrives to one processor
    /// (RPS) prevents it: what is out of order then is not the link's doing.
    ///
    /// # Errors
    /// When the kernel has no RPS.
    pub fn keep_order(&self) -> Result<()> {
        for namespace in [&self.left, &self.right] {
            let interface = &self.interface;
            namespace.shell(&format!(
                "echo 1 > /sys/class/net/{interface}/queues/rx-0/rps_cpus"
            ))?;
        }
        Ok(())
    }

    /// Adds an address with its prefix length, usable at once.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn add_address(&self, namespace: &Namespace, address: &str) -> Result<()> {
        // Without `nodad` an IPv6 address is tentative for a second.
        let flags = if address.contains(':') { " nodad" } else { "" };
        namespace.run(&format!(
            "ip address add {address} dev {}{flags}",
            self.interface
        ))?;
        Ok(())
    }
}

//! The test bed: the two ends between which a subject is measured.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use culvert_lab::measure::{IperfServer, Usage};
use culvert_lab::{Family, Link, LinkShape, Namespace, Process, Subnet, Tunnel, TunnelPlan};

use crate::metric::Metric;
use crate::plain::{self, PlainTunnel};
use crate::statistics::Samples;
use crate::subject::{Means, Subject};

/// Two namespaces, a link, and on it the subject with an iperf3 server behind it.
#[derive(Debug)]
pub(crate) struct Bed<'subject> {
    pub(crate) subject: &'subject Subject,
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// The server's address through the subject.
    pub(crate) server_address: IpAddr,
    pub(crate) iperf: IperfServer,
    pub(crate) link: Link,
    carrier: Carrier,
}

/// The means that carries packets between the two namespaces.
#[derive(Debug)]
enum Carrier {
    Link,
    WireGuard(Box<Tunnel>),
    Plain(PlainTunnel),
}

impl<'subject> Bed<'subject> {
    /// Sets up a subject and waits until packets pass.
    pub(crate) fn new(subject: &'subject Subject) -> Result<Self> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let link = Link::new(&client, &server, Subnet(1), LinkShape::default())?;
        Self::over(subject, link)
    }

    /// The same over a link that is there already.
    pub(crate) fn over(subject: &'subject Subject, link: Link) -> Result<Self> {
        let (client, server) = (link.left.clone(), link.right.clone());
        let carrier = match &subject.means {
            Means::Link => Carrier::Link,
            Means::WireGuard(implementation) => {
                let plan = TunnelPlan::between(implementation, implementation);
                let tunnel = plan.build_over(link.clone())?;
                tunnel.wait_until_up()?;
                Carrier::WireGuard(Box::new(tunnel))
            }
            Means::Plain(model) => Carrier::Plain(PlainTunnel::over(&link, *model)?),
        };
        let server_address = match &carrier {
            Carrier::Link => link.subnet.host(Family::V4, 2),
            Carrier::WireGuard(tunnel) => tunnel.right_address(Family::V4),
            Carrier::Plain(_) => plain::INNER.host(Family::V4, 2),
        };
        let iperf = IperfServer::start(&server, server_address)?;
        Ok(Self {
            subject,
            client,
            server,
            server_address,
            iperf,
            link,
            carrier,
        })
    }

    /// The process ids of both ends, the client's first; none on the bare link.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.carrier {
            Carrier::Link => Vec::new(),
            Carrier::WireGuard(tunnel) => {
                vec![tunnel.left.process.id(), tunnel.right.process.id()]
            }
            Carrier::Plain(PlainTunnel { ends }) => ends.iter().map(Process::id).collect(),
        }
    }

    /// The output of `culvert wg show --json` at the client's end.
    pub(crate) fn culvert_status(&self) -> Result<serde_json::Value> {
        match &self.carrier {
            Carrier::WireGuard(tunnel) => tunnel.left.culvert_json(),
            Carrier::Link | Carrier::Plain(_) => bail!("{} has no status", self.subject.name),
        }
    }

    /// The processor time that both ends have used; `None` on the bare link.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        let usage = self.usage()?;
        Ok(usage.map(|[left, right]| left.cpu + right.cpu))
    }

    /// Resources that both ends have used; `None` on the bare link.
    fn usage(&self) -> Result<Option<[Usage; 2]>> {
        Ok(match &self.carrier {
            Carrier::Link => None,
            Carrier::WireGuard(tunnel) => Some([tunnel.left.usage()?, tunnel.right.usage()?]),
            Carrier::Plain(PlainTunnel {
                ends: [left, right],
            }) => Some([left.usage()?, right.usage()?]),
        })
    }

    /// Notes the memory of the end that has needed more.
    pub(crate) fn record_peak_memory(&self, samples: &mut Samples) -> Result<()> {
        let Some([left, right]) = self.usage()? else {
            return Ok(());
        };
        let bytes = left.peak_rss_bytes.max(right.peak_rss_bytes);
        #[expect(
            clippy::cast_precision_loss,
            reason = "memory sizes are far below 2^53"
        )]
        samples.add(self.subject, Metric::PeakMemory, bytes as f64);
        Ok(())
    }
}

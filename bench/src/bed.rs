//! Where a subject is measured.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Result;
use culvert_lab::measure::IperfServer;
use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet, Tunnel, TunnelPlan, WireGuardEnd};

use crate::metric::Metric;
use crate::statistics::Samples;
use crate::subject::Subject;

/// Two namespaces, a link, and on it the subject with an iperf3 server behind it.
#[derive(Debug)]
pub(crate) struct Bed<'subject> {
    pub(crate) subject: &'subject Subject,
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// Where the server is reached through the subject.
    pub(crate) server_address: IpAddr,
    pub(crate) iperf: IperfServer,
    pub(crate) link: Link,
    tunnel: Option<Tunnel>,
}

impl<'subject> Bed<'subject> {
    /// Sets up a subject and waits until packets pass.
    pub(crate) fn new(subject: &'subject Subject) -> Result<Self> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let link = Link::new(&client, &server, Subnet(1), LinkShape::default())?;
        let tunnel = match &subject.implementation {
            None => None,
            Some(implementation) => {
                let plan = TunnelPlan::between(implementation, implementation);
                let tunnel = plan.build_over(link.clone())?;
                tunnel.wait_until_up()?;
                Some(tunnel)
            }
        };
        let server_address = match &tunnel {
            None => link.subnet.host(Family::V4, 2),
            Some(tunnel) => tunnel.right_address(Family::V4),
        };
        let iperf = IperfServer::start(&server, server_address)?;
        Ok(Self {
            subject,
            client,
            server,
            server_address,
            iperf,
            link,
            tunnel,
        })
    }

    /// The processor time that both ends have used; `None` on the bare link.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        let Some(tunnel) = &self.tunnel else {
            return Ok(None);
        };
        Ok(Some(tunnel.left.usage()?.cpu + tunnel.right.usage()?.cpu))
    }

    /// Notes the memory of the end that has needed more.
    pub(crate) fn record_peak_memory(&self, samples: &mut Samples) -> Result<()> {
        let Some(tunnel) = &self.tunnel else {
            return Ok(());
        };
        let peak_bytes = |end: &WireGuardEnd| -> Result<u64> { Ok(end.usage()?.peak_rss_bytes) };
        let bytes = peak_bytes(&tunnel.left)?.max(peak_bytes(&tunnel.right)?);
        #[expect(
            clippy::cast_precision_loss,
            reason = "memory sizes are far below 2^53"
        )]
        samples.add(self.subject, Metric::PeakMemory, bytes as f64);
        Ok(())
    }
}

//! The interface of the device, and its state as the host tells of it.

use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_datapath::{Mechanism, Mechanisms};
use culvert_packet::Accept;
use culvert_session::DATA_OVERHEAD;
use culvert_tun::{Device, LinkEvent, LinkWatch};
use std::io;

/// The interface.
pub(super) struct Link {
    tun: Device,
    watch: LinkWatch,
    mechanisms: Mechanisms,
    mtu: u16,
    state: LinkState,
    /// The interface lives in another network namespace, from where no events reach us.
    is_moved: bool,
    /// Kinds of superframes that the TUN has refused to a worker, and not taken since.
    refused_superframes: Accept,
}

/// The state of the link, as far as the device serves it.
#[derive(Debug)]
pub(super) enum LinkState {
    Down,
    /// The host has it up, but the sockets could not be opened, for this reason.
    WithoutSockets(String),
    Up,
}

/// A change of the link, as the host tells of it.
pub(super) enum LinkChange {
    /// The interface is up or down.
    Up(bool),
    /// The interface is gone, or has moved to another network namespace.
    Removed,
    /// Links, addresses or routes of the host changed.
    Routing,
    /// Events were lost: everything is to be read anew.
    Overflow,
}

impl Link {
    pub(super) const fn new(
        tun: Device,
        watch: LinkWatch,
        mtu: u16,
        mechanisms: Mechanisms,
    ) -> Self {
        Self {
            tun,
            watch,
            mechanisms,
            mtu,
            state: LinkState::Down,
            is_moved: false,
            refused_superframes: Accept::NONE,
        }
    }

    pub(super) const fn tun(&self) -> &Device {
        &self.tun
    }

    /// Readable when the host tells of a change.
    pub(super) const fn watch(&self) -> &LinkWatch {
        &self.watch
    }

    pub(super) const fn mechanisms(&self) -> Mechanisms {
        self.mechanisms
    }

    pub(super) const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The next event of the host.
    pub(super) fn next_event(&mut self) -> io::Result<Option<(LinkChange, Option<u32>)>> {
        let Some(event) = self.watch.next_event()? else {
            return Ok(None);
        };
        let own = self.tun.index();
        Ok(Some(match event {
            LinkEvent::Link { index, up, mtu } if index == own => (LinkChange::Up(up), Some(mtu)),
            LinkEvent::Removed { index } if index == own => (LinkChange::Removed, None),
            LinkEvent::Link { .. } | LinkEvent::Removed { .. } | LinkEvent::RoutingChanged => {
                (LinkChange::Routing, None)
            }
            LinkEvent::Overflow => (LinkChange::Overflow, None),
        }))
    }

    /// True if the interface that left this namespace lives on in another one.
    pub(super) fn find_namespace(&mut self) -> bool {
        self.is_moved = self.is_somewhere();
        self.is_moved
    }

    /// True if the interface is there, in whatever namespace.
    pub(super) fn is_somewhere(&self) -> bool {
        matches!(self.tun.current_name(), Ok(Some(_)))
    }

    pub(super) const fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// The MTU of the interface and whether it is up, read anew; `None` if it is gone.
    pub(super) fn read(&self) -> Option<(u16, bool)> {
        self.tun.mtu().ok().zip(self.tun.is_up().ok())
    }

    /// True if the host has the interface up, whether the device serves it or not.
    pub(super) fn is_up_on_host(&self) -> bool {
        self.tun.is_up().unwrap_or(false)
    }

    /// The interface has this MTU. True if it had another one before.
    pub(super) fn set_mtu(&mut self, mtu: u32) -> bool {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        if self.mechanisms.has(Mechanism::SuperframeLimit)
            && let Err(error) = limit_superframes(&self.tun, mtu)
        {
            tracing::debug!(%error, "superframes may exceed one segmented send");
        }
        let is_new = mtu != self.mtu;
        if is_new {
            tracing::debug!(mtu, "MTU changed");
            self.mtu = mtu;
        }
        is_new
    }

    /// True if the device serves the interface.
    pub(super) const fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up)
    }

    /// The reason for which the sockets could not be opened when the link came up.
    pub(super) fn down_because(&self) -> Option<&str> {
        match &self.state {
            LinkState::WithoutSockets(why) => Some(why),
            LinkState::Down | LinkState::Up => None,
        }
    }

    pub(super) fn set_state(&mut self, state: LinkState) {
        self.state = state;
    }

    /// The TUN takes these superframes again.
    pub(super) fn take_superframes(&mut self, kinds: Accept) {
        tracing::info!(?kinds, "the TUN takes superframes again");
        self.refused_superframes = self.refused_superframes.without(kinds);
    }

    /// The TUN refused these superframes to a worker.
    pub(super) fn refuse_superframes(&mut self, kinds: Accept) {
        let refused = self.refused_superframes.or(kinds);
        if refused != self.refused_superframes {
            tracing::warn!(
                ?kinds,
                "the TUN refused superframes: such packets are written one by one for a while"
            );
        }
        self.refused_superframes = refused;
    }

    pub(super) const fn refused_superframes(&self) -> Accept {
        self.refused_superframes
    }
}

/// Keeps the kernel from building superframes that one segmented send can't carry: every segment
/// grows by [`DATA_OVERHEAD`] on the way.
///
/// Only what this host sends itself is built to that measure. A larger superframe that comes from
/// elsewhere would be cut into single packets by the kernel, which costs far more than a second send,
/// so a host that forwards has no such limit.
///
/// # Errors
/// Those of netlink. The device works without: such a superframe leaves in two sends.
pub(crate) fn limit_superframes(tun: &Device, mtu: u16) -> io::Result<()> {
    /// The limit of a device that sets none (`GSO_MAX_SEGS` of `linux/netdevice.h`).
    const NO_LIMIT: u32 = 65_535;
    let segments = MAX_GSO_BYTES / (usize::from(mtu) + DATA_OVERHEAD);
    let segments = u32::try_from(segments.clamp(1, MAX_SEGMENTS)).unwrap_or(1);
    let segments = if is_router() { NO_LIMIT } else { segments };
    tun.set_gso_limits(segments, None)
}

/// True if this host forwards packets of others.
fn is_router() -> bool {
    let switches = [
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv6/conf/all/forwarding",
    ];
    switches
        .into_iter()
        .filter_map(|path| std::fs::read(path).ok())
        .any(|value| value.first().is_some_and(|digit| *digit != b'0'))
}

//! Link state, ports and paths: what the host's network does to the device.

use super::link::{LinkChange, LinkState};
use super::thread::Control;
use crate::clock;
use crate::error::EngineError;
use crate::sockets::WorkerSockets;
use culvert_base::BootTime;
use std::io;
use std::sync::Arc;

impl Control {
    /// Takes in what happened to links, addresses and routes. False where our interface is gone.
    pub(super) fn read_network_events(&mut self) -> io::Result<bool> {
        while let Some((change, mtu)) = self.link.next_event()? {
            if let Some(mtu) = mtu {
                self.set_mtu(mtu);
            }
            match change {
                LinkChange::Up(up) => self.set_up(up),
                LinkChange::Removed => {
                    if !self.is_in_another_namespace() {
                        return Ok(false);
                    }
                }
                LinkChange::Routing => self.paths.set_stale(),
                LinkChange::Overflow => {
                    self.paths.set_stale();
                    if !self.read_link() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// True if the interface that left this namespace lives on in another one. There it is taken to
    /// be up: its sockets stay here, which is what people move a WireGuard interface for. If it is
    /// deleted there, the workers find out.
    fn is_in_another_namespace(&mut self) -> bool {
        let is_moved = self.link.find_namespace();
        if is_moved {
            tracing::info!("the interface moved to another network namespace");
            self.set_up(true);
        }
        is_moved
    }

    /// Reads the state of our interface anew. False where it is gone.
    pub(super) fn read_link(&mut self) -> bool {
        if self.link.is_moved() {
            return self.link.is_somewhere();
        }
        let Some((mtu, up)) = self.link.read() else {
            return false;
        };
        self.set_mtu(u32::from(mtu));
        self.set_up(up);
        true
    }

    fn set_mtu(&mut self, mtu: u32) {
        if self.link.set_mtu(mtu) {
            self.workers.set_dirty();
        }
    }

    fn set_up(&mut self, up: bool) {
        let was_up = self.link.is_up();
        if up == was_up {
            if !up {
                // The host has taken down a link that had no sockets.
                self.link.set_state(LinkState::Down);
            }
            return;
        }
        if !up {
            self.sockets.retire();
        } else if !self.sockets.is_open() {
            match self.bind(self.sockets.listen_port()) {
                Ok(sockets) => {
                    self.sockets.set_open(sockets);
                    self.sockets.set_listen_port(self.sockets.bound_port());
                }
                Err(error) => {
                    // As the kernel's WireGuard, the link stays down for us; a change of the port
                    // or the next link event tries again.
                    tracing::error!(%error, "link up without sockets");
                    let why = error.to_string();
                    self.link.set_state(LinkState::WithoutSockets(why));
                    return;
                }
            }
        }
        self.link.set_state(match up {
            true => LinkState::Up,
            false => LinkState::Down,
        });
        self.workers.set_dirty();
        tracing::debug!(up, "link state changed");
        self.handshakes.handshaker.set_up(up, clock::clock());
        self.execute();
    }

    /// Tries a link that is up but could not bind once more.
    pub(super) fn retry_up(&mut self) {
        if !self.link.is_up() && self.link.is_up_on_host() {
            self.set_up(true);
        }
    }

    /// Has workers close sockets that were given up, for they may have the very port that is asked for next. Examples
    /// are a link that goes down and up at once, and a port that is changed and changed back.
    fn wait_for_retired_sockets(&mut self) {
        if self.sockets.has_retired() {
            self.publish();
            self.sockets.wait_for_retired();
        }
    }

    /// An error if `port` can't be had now.
    pub(super) fn try_port(&mut self, port: u16) -> Result<(), EngineError> {
        self.wait_for_retired_sockets();
        self.sockets.try_port(port)
    }

    /// Opens every worker's pair of sockets on one port.
    pub(super) fn bind(&mut self, port: u16) -> Result<Arc<[WorkerSockets]>, EngineError> {
        self.wait_for_retired_sockets();
        self.sockets.bind(port)
    }

    /// After the host's addresses or routes changed: source addresses that are gone, or from where
    /// the route no longer leaves, are not used again; small paths are measured again.
    pub(super) fn check_paths(&mut self, now: BootTime) {
        let Some(are_stale) = self.paths.begin_check(now) else {
            return;
        };
        self.follow_interfaces();
        let mark = self.sockets.mark();
        for state in self.peers.iter() {
            let peer = &state.shared;
            if let Some(to) = peer.endpoint()
                && let Some(source) = to.source
                // An error says that there is no route just now: the address may come back with it.
                && matches!(
                    culvert_udp::source_still_valid(to.address, source, mark),
                    Ok(false)
                )
            {
                tracing::debug!(peer = ?peer.public_key, "source address dropped");
                peer.forget_source();
            }
        }
        self.check_path_mtus(are_stale);
    }
}

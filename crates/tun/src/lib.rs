//! The Linux TUN device: queues, offloads, flow steering, link events.

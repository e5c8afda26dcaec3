//! Detection of a new *generation* of this machine: a clone, a restored snapshot, or a machine that
//! slept. The keys of the old generation may be in use elsewhere.
//!
//! Two signs, none of which is certain by itself:
//!
//! * The hypervisor changes the VM generation ID, and the kernel says so in a uevent.
//! * A clock jumps against the boot-time clock. All clocks of Linux follow one timekeeper, which
//!   NTP speeds up and slows down as a whole, so their distance changes in steps alone: the wall
//!   clock is set, or the machine slept. A restored machine has the distance of the snapshot until
//!   somebody sets its wall clock, which hypervisors and NTP do.
//!
//! A false alarm costs one handshake per peer.

use core::fmt;
use culvert_base::BootTime;
use std::time::Duration;

/// The largest move of a clock against the boot-time clock that makes no new generation. It is more
/// than a leap second (1 s), and more than a thread is kept waiting between two readings. A clone
/// or a restore within this time of its snapshot is not noticed by clocks.
pub const CLOCK_JUMP: Duration = Duration::from_secs(2);

/// The text that the kernel adds to the uevent of a virtual machine's generation ID that has
/// changed (`drivers/virt/vmgenid.c`).
const NEW_VMGENID: &[u8] = b"NEW_VMGENID=1";

/// True if `uevent`, as the kernel multicasts it, reports a new VM generation ID. The name of the
/// device is ignored, because firmware chooses it freely.
pub fn announces_new_generation(uevent: &[u8]) -> bool {
    // "ACTION@DEVPATH", then KEY=VALUE, each ended by a zero byte.
    let mut fields = uevent.split(|byte| *byte == 0).skip(1);
    fields.any(|field| field == NEW_VMGENID)
}

/// The offset of a clock from the boot-time clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset(i128);

impl ClockOffset {
    /// The offset of `clock`, which was read together with `boot`.
    pub fn between(boot: BootTime, clock: Duration) -> Self {
        let clock = i128::try_from(clock.as_nanos()).unwrap_or(i128::MAX);
        Self(clock.saturating_sub(i128::from(boot.as_nanos())))
    }

    /// True if the clock has moved by more than [`CLOCK_JUMP`] since it had the offset `before`.
    pub fn has_jumped_since(self, before: Self) -> bool {
        let moved = self.0.abs_diff(before.0);
        moved > CLOCK_JUMP.as_nanos()
    }
}

/// Clocks that were read together.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Time since boot, sleep included.
    pub boot: BootTime,
    /// Time since boot without sleep.
    pub awake: Duration,
    /// Time since the Unix epoch.
    pub wall: Duration,
}

/// The reason why this machine counts as a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationChange {
    /// The hypervisor says so.
    Announced,
    /// The kernel may have said so: it dropped events.
    EventsLost,
    /// The wall clock was set.
    ClockSet,
    /// The machine slept.
    Slept,
    /// A thread was stopped for longer than any thread waits.
    StoodStill,
}

impl fmt::Display for GenerationChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Announced => "the hypervisor announced a new generation of this machine",
            Self::EventsLost => {
                "the kernel dropped events that may have announced a new generation"
            }
            Self::ClockSet => "the wall clock jumped",
            Self::Slept => "the machine slept",
            Self::StoodStill => "the machine stood still",
        })
    }
}

/// Compares the clocks of this machine with what they were.
#[derive(Debug)]
pub struct ClockWatch {
    wall: ClockOffset,
    awake: ClockOffset,
}

impl ClockWatch {
    /// Compares with `clocks` from here on.
    pub fn new(clocks: Clocks) -> Self {
        Self {
            wall: ClockOffset::between(clocks.boot, clocks.wall),
            awake: ClockOffset::between(clocks.boot, clocks.awake),
        }
    }

    /// The wall clock's offset with which clocks are compared. Small steps add up against it.
    pub fn wall_offset(&self) -> ClockOffset {
        self.wall
    }

    /// Checks for a jump of a clock since the last one. Each jump is told once.
    pub fn check(&mut self, clocks: Clocks) -> Option<GenerationChange> {
        let now = Self::new(clocks);
        let change = if now.awake.has_jumped_since(self.awake) {
            GenerationChange::Slept
        } else if now.wall.has_jumped_since(self.wall) {
            GenerationChange::ClockSet
        } else {
            return None;
        };
        *self = now;
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// In the form in which Linux 6.8 and later announce the ACPI device `QEMUVGID`; written by hand, not recorded.
    const ANNOUNCED: &[u8] =
        b"change@/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00\0ACTION=change\0\
        DEVPATH=/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00\0SUBSYSTEM=acpi\0NEW_VMGENID=1\0\
        MODALIAS=acpi:QEMUVGID:VM_GEN_COUNTER:\0SEQNUM=3121\0";

    fn clocks(boot_secs: u64, asleep_secs: u64, wall_ahead_millis: u64) -> Clocks {
        let wall = Duration::from_secs(1_800_000_000 + boot_secs);
        Clocks {
            boot: BootTime::from_nanos(boot_secs * 1_000_000_000),
            awake: Duration::from_secs(boot_secs - asleep_secs),
            wall: wall + Duration::from_millis(wall_ahead_millis),
        }
    }

    #[test]
    fn the_kernels_announcement_of_a_new_generation_is_understood() {
        assert!(announces_new_generation(ANNOUNCED));
    }

    #[test]
    fn other_events_and_names_that_only_look_like_it_announce_nothing() {
        for other in [
            &b""[..],
            b"NEW_VMGENID=1",
            b"NEW_VMGENID=1@/devices/x\0ACTION=change\0",
            b"change@/devices/x\0SYNTH_ARG_NEW_VMGENID=1\0",
            b"change@/devices/x\0NEW_VMGENID=12\0",
            b"change@/devices/x\0NEW_VMGENID=0\0",
            b"add@/devices/virtual/net/veth0\0ACTION=add\0SUBSYSTEM=net\0",
        ] {
            assert!(!announces_new_generation(other), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn every_change_is_told_in_words_of_its_own() {
        let changes = [
            GenerationChange::Announced,
            GenerationChange::EventsLost,
            GenerationChange::ClockSet,
            GenerationChange::Slept,
            GenerationChange::StoodStill,
        ];
        let told: BTreeSet<_> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), changes.len());
        assert!(
            told.iter().all(|words| words.starts_with("the ")),
            "{told:?}"
        );
    }

    #[test]
    fn a_wall_clock_that_is_set_in_either_direction_is_told_once() {
        let mut watch = ClockWatch::new(clocks(1000, 0, 500_000));
        assert_eq!(watch.check(clocks(9000, 0, 500_000)), None);
        let ahead = clocks(9001, 0, 502_001);
        assert_eq!(watch.check(ahead), Some(GenerationChange::ClockSet));
        assert_eq!(watch.check(clocks(9002, 0, 502_001)), None);
        let back = clocks(9003, 0, 0);
        assert_eq!(watch.check(back), Some(GenerationChange::ClockSet));
    }

    #[test]
    fn a_leap_second_is_no_jump() {
        let mut watch = ClockWatch::new(clocks(1000, 0, 5000));
        assert_eq!(watch.check(clocks(2000, 0, 4000)), None);
        assert_eq!(watch.check(clocks(3000, 0, 7000)), None);
    }

    #[test]
    fn a_machine_that_slept_is_told_so() {
        let mut watch = ClockWatch::new(clocks(1000, 0, 0));
        assert_eq!(watch.check(clocks(2000, 2, 0)), None);
        let slept = watch.check(clocks(3000, 3, 0));
        assert_eq!(slept, Some(GenerationChange::Slept));
        assert_eq!(watch.check(clocks(4000, 3, 0)), None);
    }
}

//! CPU affinity of a worker, while there are fewer processors than threads that want to run.
//!
//! A thread that sleeps until a packet comes is woken on the processor that brought the packet, where
//! it waits for whoever runs there, while another processor may be free sooner. A tunnel's worker is
//! woken for every few packets, so it is moved about, and time and again ends up behind the thread
//! whose packets it carries. So a worker that has had to wait stays where it is; where another thread
//! turns out to want the same processor as much, it leaves that one. As long as there are processors
//! enough, the kernel decides.
//!
//! Under a stream of UDP packets it decides too, since nothing slows their sender down. A worker that waits on its
//! processor while another is free for a moment loses the packets that its socket can't hold meanwhile.

use culvert_base::BootTime;
use culvert_datapath::Mix;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The time for which a worker watches before it judges: some 15 time slices of the scheduler.
const WINDOW: Duration = Duration::from_millis(50);

/// Turns below which a worker that may run anywhere does not look: a packet now and then should not wait for that.
const FEW_TURNS: u32 = 64;

/// Waiting for a processor, as a share of the time in which the worker wanted one, from which on it stays where it is.
const CROWDED_PERCENT: u64 = 20;

/// The same share from which on it leaves where it stays. Two threads that both want all of a processor wait half of
/// the time; a worker beside a program that reads or writes what it carries waits for a third.
const SHARED_PERCENT: u64 = 43;

/// Windows in a row that ask for it before it may leave, for a window can be wrong. From then on it leaves after half of
/// them, by chance: of two workers that share a processor one only should.
const LEAVE_WINDOWS: u64 = 2;

/// The longest time for which it stays before the kernel may place it anew: other threads come and go. So do
/// interrupts, whose time does not count as waiting.
const STAY: Duration = Duration::from_secs(10);

/// The time for which the kernel decides after staying and leaving did not help.
const LEAVE_TO_KERNEL: Duration = Duration::from_secs(10);

/// The number of times in a row that a worker leaves before it gives up: with two processors, once there and once back.
const LEAVES: u32 = 4;

/// The time that a thread has run and waited since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SchedStat {
    ran_ns: u64,
    /// It could have run, and another thread did.
    waited_ns: u64,
}

impl SchedStat {
    /// The first two of the numbers in `/proc/PID/task/TID/schedstat`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        Some(Self {
            ran_ns: numbers.next()?.ok()?,
            waited_ns: numbers.next()?.ok()?,
        })
    }
}

/// A change of the processors on which a worker may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// On any processor that the kernel chooses.
    Roam,
    /// On the processor that it is on.
    Stay,
    /// On any processor but the one that it is on.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Roaming {
        until: BootTime,
    },
    Staying {
        until: BootTime,
    },
    /// It stays on the processor that it has at the end of the window.
    Leaving,
}

/// Decides from accounts, once a window.
#[derive(Debug)]
struct Judge {
    began: BootTime,
    account: SchedStat,
    state: State,
    /// Windows in a row in which another thread wanted the processor as much.
    shared: u64,
    leaves: u32,
}

impl Judge {
    fn new(now: BootTime, account: SchedStat) -> Self {
        Self {
            began: now,
            account,
            state: State::Roaming { until: now },
            shared: 0,
            leaves: 0,
        }
    }

    fn is_due(&self, now: BootTime) -> bool {
        now.has_passed(self.began, WINDOW)
    }

    /// The step after a window; `None` if everything stays as it is.
    fn judge(&mut self, now: BootTime, account: SchedStat, is_udp_stream: bool) -> Option<Step> {
        let ran_ns = account.ran_ns.saturating_sub(self.account.ran_ns);
        let waited_ns = account.waited_ns.saturating_sub(self.account.waited_ns);
        let window_ns = now.saturating_since(self.began).as_nanos();
        (self.began, self.account) = (now, account);
        let wanted_ns = ran_ns + waited_ns;
        if is_udp_stream || u128::from(wanted_ns) < window_ns / 2 {
            return self.roam(now);
        }
        let waited_percent = 100 * waited_ns / wanted_ns;
        match self.state {
            State::Roaming { until } if now < until || waited_percent < CROWDED_PERCENT => None,
            State::Staying { .. } if waited_percent >= SHARED_PERCENT => {
                self.shared += 1;
                // The last bit of a time in nanoseconds is as good as a coin.
                let is_patient = account.waited_ns % 2 == 1;
                if self.shared < LEAVE_WINDOWS || is_patient {
                    return None;
                }
                self.leave(now)
            }
            State::Staying { until } if now >= until => self.roam(now),
            State::Staying { .. } => {
                (self.shared, self.leaves) = (0, 0);
                None
            }
            State::Roaming { .. } | State::Leaving => {
                self.shared = 0;
                self.state = State::Staying {
                    until: now.saturating_add(STAY),
                };
                Some(Step::Stay)
            }
        }
    }

    fn leave(&mut self, now: BootTime) -> Option<Step> {
        if self.leaves >= LEAVES {
            return self.roam(now.saturating_add(LEAVE_TO_KERNEL));
        }
        self.leaves += 1;
        self.state = State::Leaving;
        Some(Step::Leave)
    }

    fn roam(&mut self, until: BootTime) -> Option<Step> {
        let is_new = !matches!(self.state, State::Roaming { .. });
        if is_new {
            self.state = State::Roaming { until };
            self.leaves = 0;
        }
        is_new.then_some(Step::Roam)
    }
}

/// The thread that made it, and where it may run.
pub(super) struct Affinity {
    account: File,
    judge: Judge,
    /// The processors on which others allow it to run.
    allowed: CpuSet,
    /// The processors on which it may run at present.
    now_allowed: CpuSet,
    /// Turns since it looked.
    turns: u32,
}

impl Affinity {
    /// For the calling thread. `None` where there is but one processor for it, or where the kernel keeps no account.
    pub(super) fn of_this_thread(now: BootTime) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let file = File::open("/proc/thread-self/schedstat").ok()?;
        let account = read(&file)?;
        (allowed.count() > 1).then(|| Self {
            account: file,
            judge: Judge::new(now, account),
            allowed,
            now_allowed: allowed,
            turns: 0,
        })
    }

    /// Looks whether to stay, to leave, or to leave it to the kernel. True where it begins to stay.
    pub(super) fn look(&mut self, now: BootTime, mix: &mut Mix) -> bool {
        self.turns = self.turns.saturating_add(1);
        let has_nothing_to_judge =
            self.turns < FEW_TURNS && matches!(self.judge.state, State::Roaming { .. });
        if has_nothing_to_judge || !self.judge.is_due(now) {
            return false;
        }
        self.turns = 0;
        let Some(account) = read(&self.account) else {
            return false;
        };
        let Some(step) = self.judge.judge(now, account, mix.judge(now)) else {
            return false;
        };
        self.take(step)
    }

    fn take(&mut self, step: Step) -> bool {
        let Ok(current) = sched_getaffinity(None) else {
            return false;
        };
        if current != self.now_allowed {
            // Somebody else has decided meanwhile (`taskset`, a control group).
            self.allowed = current;
        }
        let processor = sched_getcpu();
        let mut wanted = self.allowed;
        match step {
            Step::Roam => {}
            Step::Stay => {
                wanted.clear();
                wanted.set(processor);
            }
            Step::Leave => wanted.unset(processor),
        }
        // A set that is not allowed, or is empty, is refused: the worker runs where it did.
        self.now_allowed = match sched_setaffinity(None, &wanted) {
            Ok(()) => wanted,
            Err(_refused) => current,
        };
        step == Step::Stay
    }
}

fn read(account: &File) -> Option<SchedStat> {
    let mut buffer = [0; 80];
    let len = account.read_at(&mut buffer, 0).ok()?;
    SchedStat::parse(std::str::from_utf8(&buffer[..len]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that is watched window by window.
    struct Watched {
        judge: Judge,
        now: BootTime,
        account: SchedStat,
    }

    impl Watched {
        fn new() -> Self {
            let account = SchedStat {
                ran_ns: 0,
                waited_ns: 0,
            };
            let now = BootTime::from_nanos(1_000_000_000);
            Self {
                judge: Judge::new(now, account),
                now,
                account,
            }
        }

        /// A window of which it ran and waited for so many percent.
        fn window(&mut self, ran: u64, waited: u64) -> Option<Step> {
            self.window_of(ran, waited, false)
        }

        fn window_of(&mut self, ran: u64, waited: u64, is_udp_stream: bool) -> Option<Step> {
            let percent_ns = u64::try_from(WINDOW.as_nanos()).unwrap() / 100;
            self.account.ran_ns += ran * percent_ns;
            self.account.waited_ns += waited * percent_ns;
            self.now = self.now.saturating_add(WINDOW);
            assert!(self.judge.is_due(self.now));
            self.judge.judge(self.now, self.account, is_udp_stream)
        }
    }

    #[test]
    fn a_worker_that_gets_its_processor_is_left_to_the_kernel() {
        let mut watched = Watched::new();
        for _ in 0..1000 {
            assert_eq!(watched.window(90, 9), None);
        }
        assert_eq!(
            watched.window(10, 40),
            Some(Step::Stay),
            "now it has to wait"
        );
    }

    #[test]
    fn a_worker_with_little_to_do_is_left_to_the_kernel() {
        let mut watched = Watched::new();
        assert_eq!(watched.window(20, 20), None);
        assert_eq!(watched.window(60, 30), Some(Step::Stay));
        assert_eq!(watched.window(20, 20), Some(Step::Roam));
        assert_eq!(watched.window(20, 20), None);
    }

    #[test]
    fn a_worker_under_a_stream_of_udp_packets_is_left_to_the_kernel() {
        let mut watched = Watched::new();
        assert_eq!(watched.window_of(60, 30, true), None);
        assert_eq!(watched.window(60, 30), Some(Step::Stay), "the stream ended");
        assert_eq!(watched.window_of(60, 30, true), Some(Step::Roam));
        assert_eq!(watched.window_of(60, 30, true), None);
    }

    #[test]
    fn a_worker_stays_beside_a_program_and_leaves_a_thread_that_wants_as_much() {
        let mut watched = Watched::new();
        assert_eq!(watched.window(60, 30), Some(Step::Stay));
        assert_eq!(watched.window(60, 35), None);
        assert_eq!(watched.window(50, 45), None, "once is chance");
        assert_eq!(watched.window(60, 35), None);
        assert_eq!(watched.window(50, 45), None);
        assert_eq!(watched.window(50, 45), Some(Step::Leave));
        assert_eq!(watched.window(60, 35), Some(Step::Stay), "where it is now");
        assert_eq!(watched.window(60, 35), None);
    }

    #[test]
    fn of_two_that_share_a_processor_one_leaves_later_by_chance() {
        let mut watched = Watched::new();
        watched.account.waited_ns = 1;
        assert_eq!(watched.window(50, 45), Some(Step::Stay));
        assert_eq!(watched.window(50, 45), None);
        for _ in 0..3 {
            assert_eq!(watched.window(50, 45), None, "the other one may leave");
        }
        watched.account.waited_ns += 1;
        assert_eq!(watched.window(50, 45), Some(Step::Leave), "it did not");
    }

    #[test]
    fn the_kernel_places_it_anew_after_a_while() {
        let mut watched = Watched::new();
        assert_eq!(watched.window(60, 30), Some(Step::Stay));
        for _ in 1..STAY.div_duration_f64(WINDOW) as u32 {
            assert_eq!(watched.window(60, 30), None);
        }
        assert_eq!(watched.window(60, 30), Some(Step::Roam));
        assert_eq!(watched.window(60, 30), Some(Step::Stay));
    }

    #[test]
    fn a_worker_that_has_to_wait_everywhere_gives_up_for_a_while() {
        let mut watched = Watched::new();
        assert_eq!(watched.window(30, 60), Some(Step::Stay));
        for _ in 0..LEAVES {
            assert_eq!(watched.window(30, 60), None);
            assert_eq!(watched.window(30, 60), Some(Step::Leave));
            assert_eq!(watched.window(30, 60), Some(Step::Stay));
        }
        assert_eq!(watched.window(30, 60), None);
        assert_eq!(watched.window(30, 60), Some(Step::Roam));
        for _ in 1..LEAVE_TO_KERNEL.div_duration_f64(WINDOW) as u32 {
            assert_eq!(watched.window(30, 60), None);
        }
        assert_eq!(watched.window(30, 60), Some(Step::Stay), "once more");
    }

    #[test]
    fn the_kernels_account_of_a_thread_is_read() {
        let account = SchedStat::parse("14158 273 9\n");
        let expected = SchedStat {
            ran_ns: 14158,
            waited_ns: 273,
        };
        assert_eq!(account, Some(expected));
        for text in ["", "1", "1 x", "-1 2", "99999999999999999999 1"] {
            assert_eq!(SchedStat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_thread_stays_leaves_and_goes_where_it_may_again() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            let Some(mut affinity) = Affinity::of_this_thread(BootTime::ZERO) else {
                assert_eq!(before.count(), 1, "the kernel keeps accounts");
                return;
            };
            assert!(affinity.take(Step::Stay));
            let stays = sched_getaffinity(None).unwrap();
            assert_eq!(stays.count(), 1);
            assert!(!affinity.take(Step::Leave));
            let left = sched_getaffinity(None).unwrap();
            assert_eq!(left.count(), before.count() - 1);
            affinity.take(Step::Roam);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_somebody_else_allows_meanwhile_holds() {
        std::thread::spawn(|| {
            let Some(mut affinity) = Affinity::of_this_thread(BootTime::ZERO) else {
                return;
            };
            assert!(affinity.take(Step::Stay));
            let is_other =
                |&cpu: &usize| affinity.allowed.is_set(cpu) && !affinity.now_allowed.is_set(cpu);
            let mut other = CpuSet::new();
            other.set((0..CpuSet::MAX_CPU).find(is_other).unwrap());
            sched_setaffinity(None, &other).unwrap();
            affinity.take(Step::Roam);
            assert_eq!(sched_getaffinity(None).unwrap(), other);
        })
        .join()
        .unwrap();
    }
}

//! Kinds of superframes that the TUN takes: those that the kernel offered, without those that it has refused of late.

use crate::offload_retry::OffloadRetry;
use culvert_base::BootTime;
use culvert_packet::Accept;

/// Each kind by itself.
const KINDS: [Accept; 4] = [
    Accept {
        tcp4: true,
        ..Accept::NONE
    },
    Accept {
        tcp6: true,
        ..Accept::NONE
    },
    Accept {
        udp4: true,
        ..Accept::NONE
    },
    Accept {
        udp6: true,
        ..Accept::NONE
    },
];

/// The kinds of superframes of one worker.
pub(crate) struct Superframes {
    offered: Accept,
    /// Left alone at the moment.
    off: Accept,
    kinds: [OffloadRetry; KINDS.len()],
    had_refusals: bool,
}

/// News for the control thread.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Kinds that are left alone from here on.
    pub(crate) off: Option<Accept>,
    /// Kinds that the kernel takes again.
    pub(crate) on: Option<Accept>,
}

impl Superframes {
    pub(crate) fn new(offered: Accept) -> Self {
        Self {
            offered,
            off: Accept::NONE,
            kinds: Default::default(),
            had_refusals: false,
        }
    }

    /// The kinds to make where they are others than before: one that was left alone may be tried again.
    pub(crate) fn tried_again(&mut self, now: BootTime) -> Option<Accept> {
        if self.off == Accept::NONE {
            return None;
        }
        let paused = self.kinds.iter().zip(KINDS);
        let off = paused
            .filter(|(retry, _)| !retry.allows(now))
            .fold(Accept::NONE, |off, (_, kind)| off.or(kind));
        let changed = off != self.off;
        self.off = off;
        changed.then(|| self.accept())
    }

    /// The kinds to make.
    pub(crate) fn accept(&self) -> Accept {
        self.offered.without(self.off)
    }

    /// True if a superframe that the TUN takes changes anything.
    pub(crate) const fn had_refusals(&self) -> bool {
        self.had_refusals
    }

    /// Notes what the TUN has refused and taken of a receive.
    pub(crate) fn note(&mut self, refused: Accept, taken: Accept, now: BootTime) -> News {
        let mut news = News::default();
        for (retry, kind) in self.kinds.iter_mut().zip(KINDS) {
            let has = |set: Accept| set.or(kind) == set;
            // One of each in a receive: the order is not known, and the kind is not missing.
            if has(taken) && retry.had_refusals() {
                if retry.again_at().is_some() {
                    news.on = Some(news.on.unwrap_or(Accept::NONE).or(kind));
                }
                retry.accepted();
            } else if has(refused) && retry.refused(now) {
                self.off = self.off.or(kind);
                news.off = Some(news.off.unwrap_or(Accept::NONE).or(kind));
            }
        }
        self.had_refusals = self.kinds.iter().any(OffloadRetry::had_refusals);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_kind_that_is_refused_every_time_is_left_alone_and_tried_again_later() {
        let mut superframes = Superframes::new(Accept::ALL);
        let (tcp4, none) = (KINDS[0], Accept::NONE);
        let now = BootTime::from_nanos(1_000_000_000);
        for _ in 0..2 {
            assert_eq!(superframes.note(tcp4, none, now), News::default());
            assert_eq!(superframes.accept(), Accept::ALL);
        }
        let news = superframes.note(tcp4, none, now);
        assert_eq!(news.off, Some(tcp4));
        assert_eq!(superframes.accept(), Accept::ALL.without(tcp4));
        assert_eq!(superframes.tried_again(now), None);
        let later = now.saturating_add(Duration::from_secs(1));
        assert_eq!(superframes.tried_again(later), Some(Accept::ALL));
        assert_eq!(superframes.note(none, tcp4, later).on, Some(tcp4));
        assert!(!superframes.had_refusals());
    }

    #[test]
    fn a_refusal_now_and_then_changes_nothing() {
        let mut superframes = Superframes::new(Accept::ALL);
        let (udp6, none) = (KINDS[3], Accept::NONE);
        for round in 0..100 {
            let now = BootTime::from_nanos(round);
            assert_eq!(superframes.note(udp6, none, now), News::default());
            assert!(superframes.had_refusals());
            assert_eq!(superframes.note(none, udp6, now), News::default());
            assert_eq!(superframes.accept(), Accept::ALL);
        }
    }
}

//! Writes records that come at a high rate: apart from everything else, in batches, and again if
//! the database did not take them.

use super::pulse::Pulse;
use culvert_hub::SessionId;
use culvert_ids::{AccountId, GrantId, TokenId};
use culvert_portal_base::{MAX_SESSIONS, UnwrittenRecords};
use culvert_store::{
    ACTIVITY_BUCKET_MS, AccessEntry, FlowBatch, Grant, MAX_BATCH, SeenMachine, Store, StoreError,
};
use culvert_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Records that wait for the database. The worst case is a killed portal to which all sessions come
/// back at once. Each then brings 8 records: the use of its token, its coming, a line or two of the log, a
/// grant or two, and perhaps its end. Writing waits meanwhile behind the machines that enrol. A
/// record is mostly one row of some hundred bytes, so that is tens of megabytes at worst.
const MAX_WAITING: usize = 8 * MAX_SESSIONS;

/// Pause before a batch is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The interval at which uses of tokens are written down, each token once.
const TOUCH_EVERY: Duration = Duration::from_secs(10);

/// Tokens whose use waits to be written down: one batch.
const MAX_TOUCHED: usize = MAX_BATCH;

/// Minutes of what gateways carried that wait to be written down while the database takes nothing: a day.
const MAX_TRAFFIC_MINUTES: usize = 24 * 60;

/// Entries that are written down together before more are taken: some batches.
const MAX_PILE: usize = 4 * MAX_BATCH;

/// Something to be written down.
#[derive(Debug)]
pub(super) enum Record {
    Save(Vec<Grant>),
    End(Vec<GrantId>),
    Log(Vec<AccessEntry>),
    Seen(Vec<SeenMachine>),
    Touch(TokenId, Timestamp),
    Flows(Told),
    /// Traffic through gateways until then, in bytes.
    Traffic(Timestamp, u64),
    /// Everything before it has been written, or given up.
    Done(oneshot::Sender<()>),
}

impl Record {
    /// The number of its lines of the log, or of its grants.
    fn len(&self) -> usize {
        match self {
            Self::Save(grants) => grants.len(),
            Self::End(grants) => grants.len(),
            Self::Log(entries) => entries.len(),
            Self::Seen(machines) => machines.len(),
            Self::Flows(told) => told.batch.flows.len(),
            Self::Touch(..) | Self::Traffic(..) => 1,
            Self::Done(_) => 0,
        }
    }

    /// Its kind, for the log.
    const fn what(&self) -> &'static str {
        match self {
            Self::Save(_) => "grants that began",
            Self::End(_) => "grants that ended",
            Self::Log(_) => "lines of the log of access",
            Self::Seen(_) => "when machines were last seen",
            Self::Touch(..) => "the use of a token",
            Self::Flows(_) => "a report of flows",
            Self::Traffic(..) => "what gateways carried",
            Self::Done(_) => "nothing",
        }
    }
}

/// A report of flows, and who is told that it is in the log.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) session: SessionId,
    pub(super) batch: FlowBatch,
    pub(super) written: mpsc::Sender<WrittenFlows>,
}

/// A report that is in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenFlows {
    pub(super) session: SessionId,
    pub(super) run: u64,
    pub(super) batch: u64,
}

/// Takes records, and never makes anybody wait.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    records: mpsc::Sender<Record>,
    /// Lines and grants that were not written down and never will be.
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts writing. It ends, with everything written, once all copies of the handle are gone.
    pub(super) fn start(
        store: Arc<dyn Store>,
        account: AccountId,
        pulse: Pulse,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, records) = mpsc::channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let recorder = Self {
            records: sender,
            lost: Arc::clone(&lost),
        };
        (recorder, write(store, account, records, (pulse, lost)))
    }

    /// Records that do not fit are lost. For grants, a new start asks the policies again, so that
    /// the loss opens nothing. Lines of the log can't be kept for ever.
    pub(super) fn record(&self, record: Record) {
        match self.records.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(record)) => {
                count(&self.lost, record.len());
                tracing::error!(
                    what = record.what(),
                    waiting = MAX_WAITING,
                    "the database does not keep up: a record is lost"
                );
            }
            // Sessions that took too long to end.
            Err(TrySendError::Closed(record)) => tracing::warn!(
                what = record.what(),
                "the portal has stopped: a record is lost"
            ),
        }
    }

    /// The records that are not written down at this moment.
    pub(super) fn unwritten(&self) -> UnwrittenRecords {
        let taken = self.records.max_capacity() - self.records.capacity();
        UnwrittenRecords {
            waiting: taken as u64,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Waits until what was recorded is written, but not for longer than that.
    pub(super) async fn finish(&self, wait: Duration) {
        let finished = async {
            let (done, answer) = oneshot::channel();
            if self.records.send(Record::Done(done)).await.is_ok() {
                // Without an answer there is nothing that could still be written.
                let _ = answer.await;
            }
        };
        if timeout(wait, finished).await.is_err() {
            tracing::error!("the portal stops before everything is written down");
        }
    }
}

async fn write(
    store: Arc<dyn Store>,
    account: AccountId,
    mut records: mpsc::Receiver<Record>,
    (pulse, lost): (Pulse, Arc<AtomicU64>),
) {
    let mut touched = BTreeMap::new();
    let mut traffic = BTreeMap::new();
    let mut touch = interval(TOUCH_EVERY);
    touch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            record = records.recv() => {
                let Some(mut record) = record else {
                    break;
                };
                // One flush to the disk serves all that has come during the one before.
                let mut pile = Pile::default();
                loop {
                    match record {
                        Record::Touch(token, at) => {
                            if touched.len() < MAX_TOUCHED || touched.contains_key(&token) {
                                touched.insert(token, at);
                            }
                        }
                        Record::Traffic(at, bytes) => {
                            *traffic.entry(minute(at)).or_default() += bytes;
                        }
                        Record::Done(done) => {
                            record_traffic(store.as_ref(), account, &mut traffic).await;
                            insist_on_all(store.as_ref(), account, &mut pile, &records, &lost).await;
                            note_touched(store.as_ref(), account, &mut touched).await;
                            // The one that waited may have given up.
                            let _ = done.send(());
                        }
                        record => {
                            if !pile.goes_with(&record) {
                                insist_on_all(store.as_ref(), account, &mut pile, &records, &lost).await;
                            }
                            pile.add(record);
                        }
                    }
                    match records.try_recv() {
                        Ok(next) => record = next,
                        Err(_) => break,
                    }
                }
                insist_on_all(store.as_ref(), account, &mut pile, &records, &lost).await;
                pulse.beat();
            }
            _ = touch.tick() => {
                note_touched(store.as_ref(), account, &mut touched).await;
                record_traffic(store.as_ref(), account, &mut traffic).await;
            }
        }
    }
    note_touched(store.as_ref(), account, &mut touched).await;
    record_traffic(store.as_ref(), account, &mut traffic).await;
}

fn count(lost: &AtomicU64, more: usize) {
    lost.fetch_add(more as u64, Ordering::Relaxed);
}

/// Records that are written down together, those of one kind at once.
#[derive(Default)]
struct Pile {
    saves: Vec<Grant>,
    ends: BTreeSet<GrantId>,
    log: Vec<AccessEntry>,
    seen: Vec<SeenMachine>,
    flows: Vec<Told>,
}

impl Pile {
    /// True if the record may be written together with these. Grants are saved before others end,
    /// so a grant that has ended is never saved again. A pile also has a bound.
    fn goes_with(&self, record: &Record) -> bool {
        let len = self.saves.len() + self.ends.len() + self.log.len() + self.seen.len();
        let told = self.flows.iter().map(|told| told.batch.flows.len());
        let len = len + self.flows.len() + told.sum::<usize>();
        let ended_before = match record {
            Record::Save(grants) => grants.iter().any(|grant| self.ends.contains(&grant.id)),
            _ => false,
        };
        len < MAX_PILE && !ended_before
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Save(grants) => self.saves.extend(grants),
            Record::End(grants) => self.ends.extend(grants),
            Record::Log(entries) => self.log.extend(entries),
            Record::Seen(machines) => self.seen.extend(machines),
            // Nothing of theirs is written down here.
            Record::Flows(told) => self.flows.push(told),
            Record::Touch(..) | Record::Traffic(..) | Record::Done(_) => {}
        }
    }

    /// In the order in which they are to be written; it is empty afterwards.
    fn take(&mut self) -> Vec<Record> {
        let Self {
            saves,
            ends,
            log,
            seen,
            flows,
        } = std::mem::take(self);
        let ends: Vec<_> = ends.into_iter().collect();
        let saves = saves
            .chunks(MAX_BATCH)
            .map(|batch| Record::Save(batch.to_vec()));
        let ends = ends
            .chunks(MAX_BATCH)
            .map(|batch| Record::End(batch.to_vec()));
        let log = log
            .chunks(MAX_BATCH)
            .map(|batch| Record::Log(batch.to_vec()));
        let seen = seen
            .chunks(MAX_BATCH)
            .map(|batch| Record::Seen(batch.to_vec()));
        let flows = flows.into_iter().map(Record::Flows);
        saves
            .chain(ends)
            .chain(log)
            .chain(seen)
            .chain(flows)
            .collect()
    }
}

async fn insist_on_all(
    store: &dyn Store,
    account: AccountId,
    pile: &mut Pile,
    records: &mpsc::Receiver<Record>,
    lost: &AtomicU64,
) {
    for record in pile.take() {
        if !insist(store, account, &record, records).await {
            count(lost, record.len());
        }
    }
}

/// Writes a record down, however long that takes, unless nobody waits for it any more. Returns whether it is
/// written.
async fn insist(
    store: &dyn Store,
    account: AccountId,
    record: &Record,
    records: &mpsc::Receiver<Record>,
) -> bool {
    loop {
        let Err(error) = attempt(store, account, record).await else {
            return true;
        };
        let is_passing = error.is_local() && !records.is_closed();
        tracing::error!(%error, retry = is_passing, "writing down what happened");
        if !is_passing {
            return false;
        }
        sleep(RETRY).await;
    }
}

async fn attempt(store: &dyn Store, account: AccountId, record: &Record) -> Result<(), StoreError> {
    match record {
        Record::Save(grants) => store.save_grants(account, grants.clone()).await.map(drop),
        Record::End(grants) => store.end_grants(account, grants.clone()).await.map(drop),
        Record::Log(entries) => store.append_access_log(account, entries.clone()).await,
        Record::Seen(machines) => {
            for batch in machines.chunks(MAX_BATCH) {
                store.record_seen(account, batch.to_vec()).await?;
            }
            Ok(())
        }
        Record::Done(_) => Ok(()),
        Record::Flows(told) => {
            let batch = told.batch.clone();
            let (run, number) = (batch.run, batch.batch);
            store.append_flows(account, vec![batch]).await?;
            // The gateway asks again about reports that it is not told of now.
            let _ = told.written.try_send(WrittenFlows {
                session: told.session,
                run,
                batch: number,
            });
            Ok(())
        }
        Record::Traffic(at, bytes) => store.record_traffic(account, vec![(*at, *bytes)]).await,
        Record::Touch(token, at) => {
            let touched = vec![(*token, *at)];
            store.touch_tokens(account, touched).await.map(drop)
        }
    }
}

async fn note_touched(
    store: &dyn Store,
    account: AccountId,
    touched: &mut BTreeMap<TokenId, Timestamp>,
) {
    if touched.is_empty() {
        return;
    }
    let uses = touched.iter().map(|(token, at)| (*token, *at)).collect();
    match store.touch_tokens(account, uses).await {
        // The next round has them again, with those that came meanwhile.
        Err(error) if error.is_local() => tracing::warn!(%error, "noting when tokens were used"),
        Err(error) => {
            tracing::error!(%error, "noting when tokens were used");
            touched.clear();
        }
        Ok(_) => touched.clear(),
    }
}

async fn record_traffic(
    store: &dyn Store,
    account: AccountId,
    traffic: &mut BTreeMap<Timestamp, u64>,
) {
    if traffic.is_empty() {
        return;
    }
    let sums = traffic.iter().map(|(at, bytes)| (*at, *bytes)).collect();
    match store.record_traffic(account, sums).await {
        Err(error) if error.is_local() => {
            tracing::warn!(%error, "noting what gateways carried");
            // Charts lack what is older.
            while traffic.len() > MAX_TRAFFIC_MINUTES {
                traffic.pop_first();
            }
        }
        Err(error) => {
            tracing::error!(%error, "noting what gateways carried");
            traffic.clear();
        }
        Ok(()) => traffic.clear(),
    }
}

const fn minute(at: Timestamp) -> Timestamp {
    let at_ms = at.unix_ms();
    Timestamp::from_unix_ms(at_ms - at_ms % ACTIVITY_BUCKET_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::UnixTime;
    use culvert_ids::{ClientId, GatewayId, PolicyId, ResourceId};
    use culvert_portal_base::birth;
    use culvert_portal_base::now;
    use culvert_store::{
        AccessFilter, Account, AccountSettings, Author, Decision, PageLimit, Stamp,
    };
    use culvert_store_sql::{SqlStore, SqliteOptions};
    use culvert_wire::Cipher;

    fn grant(number: u8) -> Grant {
        Grant {
            id: GrantId::from_bytes([number; 16]),
            client: ClientId::from_bytes([1; 16]),
            gateway: GatewayId::from_bytes([2; 16]),
            resource: ResourceId::from_bytes([3; 16]),
            policy: PolicyId::from_bytes([4; 16]),
            cipher: Cipher::Aes256Gcm,
            issued: Timestamp::from_unix_ms(1),
            expires: Timestamp::from_unix_ms(2),
        }
    }

    #[test]
    fn what_has_come_is_written_together_by_kind_and_saved_before_it_ends() {
        let mut pile = Pile::default();
        for number in 0..100 {
            for record in [
                Record::Save(vec![grant(number)]),
                Record::End(vec![grant(number).id]),
            ] {
                assert!(pile.goes_with(&record));
                pile.add(record);
            }
        }
        assert!(
            !pile.goes_with(&Record::Save(vec![grant(7)])),
            "it has ended"
        );
        match pile.take().as_slice() {
            [Record::Save(saves), Record::End(ends)] => {
                assert_eq!((saves.len(), ends.len()), (100, 100));
            }
            other => panic!("{other:?}"),
        }
        assert!(pile.take().is_empty());
        assert!(pile.goes_with(&Record::Save(vec![grant(7)])));
    }

    #[test]
    fn a_pile_has_an_end_and_falls_into_batches() {
        let mut pile = Pile::default();
        let ends = |from: usize| {
            let ids = from..from + MAX_BATCH;
            Record::End(
                ids.map(|number| GrantId::new(UnixTime::from_millis(number as u64), [0; 10]))
                    .collect(),
            )
        };
        for number in 0..4 {
            let record = ends(number * MAX_BATCH);
            assert!(pile.goes_with(&record));
            pile.add(record);
        }
        assert!(!pile.goes_with(&ends(0)));
        let batches = pile.take();
        assert_eq!(batches.len(), 4);
        let fits = |record: &Record| matches!(record, Record::End(ends) if ends.len() == MAX_BATCH);
        assert!(batches.iter().all(fits));
    }

    async fn store() -> (Arc<dyn Store>, AccountId) {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let (born, random) = birth().unwrap();
        let account = Account {
            id: AccountId::new(born, random),
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let at = Timestamp::from_unix_ms(1);
        let account = store.create_account(account, Author::PORTAL, at).await;
        (Arc::new(store), account.unwrap().id)
    }

    fn line() -> AccessEntry {
        AccessEntry {
            at: now(),
            client: ClientId::from_bytes([1; 16]),
            actor: None,
            resource: ResourceId::from_bytes([3; 16]),
            gateway: None,
            policy: None,
            grant: None,
            decision: Decision::Denied,
            reason: "no policy".to_owned(),
        }
    }

    async fn lines(store: &dyn Store, account: AccountId) -> usize {
        let (mut lines, mut before) = (0, None);
        loop {
            let filter = AccessFilter::default();
            let page = store.access_log(account, &filter, before, PageLimit::MAX);
            let page = page.await.unwrap();
            lines += page.items.len();
            before = page.next;
            if before.is_none() {
                return lines;
            }
        }
    }

    #[tokio::test]
    async fn nothing_is_lost_while_every_session_comes_back_and_the_database_lets_records_wait() {
        let (store, account) = store().await;
        let (recorder, writing) = Recorder::start(Arc::clone(&store), account, Pulse::new());
        // Nobody writes yet. Two lines and six uses of a token for each session.
        for _ in 0..MAX_SESSIONS {
            for _ in 0..2 {
                recorder.record(Record::Log(vec![line()]));
            }
            for number in 0..6 {
                let token = TokenId::from_bytes([number; 16]);
                recorder.record(Record::Touch(token, Timestamp::from_unix_ms(1)));
            }
        }
        let writing = tokio::spawn(writing);
        recorder.finish(Duration::from_secs(60)).await;
        assert_eq!(lines(store.as_ref(), account).await, 2 * MAX_SESSIONS);
        drop(recorder);
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_and_the_rest_waits() {
        let (store, account) = store().await;
        let (recorder, writing) = Recorder::start(Arc::clone(&store), account, Pulse::new());
        for _ in 0..MAX_WAITING + 3 {
            recorder.record(Record::Log(vec![line(), line()]));
        }
        let full = UnwrittenRecords {
            waiting: MAX_WAITING as u64,
            lost: 6,
        };
        assert_eq!(recorder.unwritten(), full);
        drop(writing);
    }

    #[tokio::test]
    async fn what_was_recorded_before_the_end_is_written_when_the_end_has_come() {
        let (store, account) = store().await;
        let (recorder, writing) = Recorder::start(Arc::clone(&store), account, Pulse::new());
        let writing = tokio::spawn(writing);
        for round in 1..=20 {
            for _ in 0..50 {
                recorder.record(Record::Log(vec![line()]));
            }
            recorder.finish(Duration::from_secs(60)).await;
            assert_eq!(lines(store.as_ref(), account).await, round * 50);
        }
        writing.abort();
    }
}

//! The flow log.

use super::connection::Transaction;
use super::log_query::{LogQuery, Span};
use super::read;
use super::seen::check_batch;
use super::unwritten::insert;
use super::value::{Columns, Value, damaged};
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, RelayId, ResourceId};
use culvert_store::{
    FlowBatch, FlowEntry, FlowFilter, FlowSeq, LoggedFlow, Page, PageLimit, StoreError,
};
use culvert_wire::messages::PathKind;
use culvert_wire::model::Log;

const FLOW: &str = "SELECT seq, at_ms, started_ms, gateway_id, client_id, actor_id, resource_id, \
                    grant_id, protocol, address, port, application, sent_bytes, sent_packets, \
                    received_bytes, received_packets, flow_end, path, relay_id, inbound";

/// The columns of an entry, in the order of [`row`].
const COLUMNS: [&str; 21] = [
    "account",
    "seq",
    "at_ms",
    "started_ms",
    "gateway_id",
    "client_id",
    "actor_id",
    "resource_id",
    "grant_id",
    "protocol",
    "address",
    "port",
    "application",
    "sent_bytes",
    "sent_packets",
    "received_bytes",
    "received_packets",
    "flow_end",
    "path",
    "relay_id",
    "inbound",
];

/// Takes the report as the gateway's last one, unless that one is as new.
const TAKE: &str = "INSERT INTO flow_source (account, gateway_id, run, batch, lost) \
                    VALUES (?, ?, ?, ?, ?) \
                    ON CONFLICT (account, gateway_id) DO UPDATE SET \
                    run = excluded.run, batch = excluded.batch, lost = flow_source.lost + excluded.lost \
                    WHERE flow_source.run <> excluded.run OR flow_source.batch < excluded.batch";

pub(super) async fn append(
    mut transaction: Transaction,
    account: AccountId,
    batches: Vec<FlowBatch>,
) -> Result<(), StoreError> {
    let count = batches.iter().map(|batch| batch.flows.len()).sum();
    check_batch(&mut transaction, account, count).await?;
    let mut seq = last_flow(&mut transaction, account).await?;
    let mut rows = Vec::with_capacity(count);
    for batch in batches {
        let values = vec![
            account.as_bytes().into(),
            batch.gateway.as_bytes().into(),
            batch.run.into(),
            batch.batch.into(),
            batch.lost.into(),
        ];
        if transaction.execute(TAKE, values).await? == 0 {
            continue;
        }
        for flow in batch.flows {
            seq += 1;
            rows.push(row(account, seq, batch.gateway, flow));
        }
    }
    insert(&mut transaction, "flow_log", &COLUMNS, rows, "").await?;
    let sql = "UPDATE account SET last_flow = ? WHERE account = ?";
    let values = vec![seq.into(), account.as_bytes().into()];
    transaction.execute(sql, values).await?;
    transaction.commit().await
}

fn row(account: AccountId, seq: u64, gateway: GatewayId, flow: FlowEntry) -> Vec<Value> {
    vec![
        account.as_bytes().into(),
        seq.into(),
        flow.at.into(),
        flow.started.into(),
        gateway.as_bytes().into(),
        flow.client.as_bytes().into(),
        flow.actor.as_ref().map(ActorId::as_bytes).into(),
        flow.resource.as_bytes().into(),
        flow.grant.as_bytes().into(),
        u64::from(flow.protocol).into(),
        flow.address.to_string().into(),
        u64::from(flow.port).into(),
        flow.application.into(),
        flow.sent_bytes.into(),
        flow.sent_packets.into(),
        flow.received_bytes.into(),
        flow.received_packets.into(),
        flow.end.as_str().into(),
        flow.path.map(PathKind::as_str).into(),
        flow.relay.as_ref().map(RelayId::as_bytes).into(),
        u64::from(flow.inbound).into(),
    ]
}

async fn last_flow(connection: &mut Transaction, account: AccountId) -> Result<u64, StoreError> {
    let lock = connection.dialect().for_update();
    let sql = format!("SELECT last_flow FROM account WHERE account = ?{lock}");
    let rows = connection
        .fetch(sql, vec![account.as_bytes().into()])
        .await?;
    let row = rows.first().ok_or(StoreError::NoAccount)?;
    row.number("last_flow")
}

/// The entries that a filter leaves.
pub(super) fn log_query(
    account: AccountId,
    filter: &FlowFilter,
    before: Option<FlowSeq>,
) -> LogQuery {
    let conditions = [
        (
            "client_id = ?",
            filter.client.map(|id| id.as_bytes().into()),
        ),
        ("actor_id = ?", filter.actor.map(|id| id.as_bytes().into())),
        (
            "resource_id = ?",
            filter.resource.map(|id| id.as_bytes().into()),
        ),
        (
            "gateway_id = ?",
            filter.gateway.map(|id| id.as_bytes().into()),
        ),
        ("flow_end = ?", filter.end.map(|end| end.as_str().into())),
    ];
    let indexes = [
        ("client_id", "flow_log_client"),
        ("resource_id", "flow_log_resource"),
        ("actor_id", "flow_log_actor"),
        ("gateway_id", "flow_log_gateway"),
        ("flow_end", "flow_log_end"),
    ];
    let span = Span {
        before: before.map(|seq| seq.0),
        after: filter.after.map(|seq| seq.0),
        from: filter.from,
        until: filter.until,
    };
    LogQuery::new(
        account,
        (Log::Flows, FLOW),
        span,
        &indexes,
        conditions,
        filter.search,
    )
}

pub(super) async fn query_log(
    connection: &mut Transaction,
    account: AccountId,
    filter: &FlowFilter,
    before: Option<FlowSeq>,
    limit: PageLimit,
) -> Result<Page<LoggedFlow, FlowSeq>, StoreError> {
    read::last_seq(connection, account).await?;
    let query = log_query(account, filter, before);
    let cursor = |row: &LoggedFlow| row.seq;
    query
        .page(connection, limit, read_flow, cursor, FlowSeq)
        .await
}

pub(super) async fn after(
    connection: &mut Transaction,
    account: AccountId,
    seq: u64,
    limit: u64,
) -> Result<Vec<LoggedFlow>, StoreError> {
    let sql = format!("{FLOW} FROM flow_log WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?");
    let values = vec![account.as_bytes().into(), seq.into(), limit.into()];
    let rows = connection.fetch(sql, values).await?;
    rows.iter().map(read_flow).collect()
}

pub(super) async fn lost(
    connection: &mut Transaction,
    account: AccountId,
) -> Result<u64, StoreError> {
    read::last_seq(connection, account).await?;
    let sql =
        "SELECT CAST(coalesce(sum(lost), 0) AS BIGINT) AS lost FROM flow_source WHERE account = ?";
    let rows = connection
        .fetch(sql, vec![account.as_bytes().into()])
        .await?;
    rows.first().map_or(Ok(0), |row| row.number("lost"))
}

fn read_flow(row: Columns<'_>) -> Result<LoggedFlow, StoreError> {
    let address = row.text("address")?;
    let address = address.parse().map_err(|error| damaged("address", error))?;
    let small = |column: &str| row.number(column);
    Ok(LoggedFlow {
        seq: FlowSeq(row.number("seq")?),
        gateway: GatewayId::from_bytes(row.bytes("gateway_id")?),
        entry: FlowEntry {
            at: row.time("at_ms")?,
            started: row.time("started_ms")?,
            client: ClientId::from_bytes(row.bytes("client_id")?),
            actor: row.optional_bytes("actor_id")?.map(ActorId::from_bytes),
            resource: ResourceId::from_bytes(row.bytes("resource_id")?),
            grant: GrantId::from_bytes(row.bytes("grant_id")?),
            protocol: u8::try_from(small("protocol")?)
                .map_err(|error| damaged("protocol", error))?,
            address,
            port: u16::try_from(small("port")?).map_err(|error| damaged("port", error))?,
            inbound: small("inbound")? != 0,
            application: row.get("application")?,
            path: row
                .get::<Option<String>>("path")?
                .map(|name| PathKind::named(&name)),
            relay: row.optional_bytes("relay_id")?.map(RelayId::from_bytes),
            sent_bytes: row.number("sent_bytes")?,
            sent_packets: row.number("sent_packets")?,
            received_bytes: row.number("received_bytes")?,
            received_packets: row.number("received_packets")?,
            end: row.word("flow_end")?,
        },
    })
}

//! Tests that need the statements and the connections themselves.

use super::dialect::Dialect;
use super::log_query::{Place, SEARCHED_CHANGES, SEARCHED_ROWS};
use super::pool::Pool;
use super::value::{Value, query};
use super::{
    SqlStore, SqliteOptions, access, changes, counts, flows, grants, list, read, recent_use,
    writing,
};
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, ResourceId};
use culvert_store::rules::users_of;
use culvert_store::{
    AccessFilter, AccessSeq, Account, AccountSettings, Author, ChangeFilter, Decision, EntityId,
    EntityKind, FlowFilter, ListFilter, Order, OrderBy, PageLimit, Part, Position, Stamp, Store,
    StoreError,
};
use culvert_wire::Timestamp;
use culvert_wire::model::{Target, TargetKind};

const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
const SQLITE: Dialect = Dialect::Sqlite;
const PLACE: Place = Place { at: NOW, seq: 9 };
const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

async fn store() -> SqlStore {
    let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
    let account = Account {
        id: ACCOUNT,
        name: "Example".to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    store
        .create_account(account, Author::PORTAL, NOW)
        .await
        .unwrap();
    store
}

/// Every statement that lists rows finds them, in their order, by an index: its time depends on the
/// page and not on how many rows there are.
async fn assert_indexed(store: &SqlStore, sql: &str, values: Vec<Value>) {
    let plan = plan(store, sql, values).await;
    assert!(!plan.is_empty(), "{sql}");
    for step in &plan {
        assert!(
            !step.contains("TEMP B-TREE") && !step.starts_with("SCAN"),
            "{sql}\n{plan:#?}"
        );
    }
    assert!(
        plan.iter().any(|step| step.starts_with("SEARCH")),
        "{sql}\n{plan:#?}"
    );
}

async fn plan(store: &SqlStore, sql: &str, values: Vec<Value>) -> Vec<String> {
    let mut reading = store.reading().await.unwrap();
    let plan = format!("EXPLAIN QUERY PLAN {sql}");
    let rows = reading.fetch(plan, values).await.unwrap();
    let steps = rows.iter().map(|row| row.text("detail").unwrap());
    steps.collect()
}

#[tokio::test]
async fn lists_are_read_by_an_index() {
    let store = store().await;
    for kind in EntityKind::ALL {
        let mut filters = vec![ListFilter::default()];
        for name in ["name", "name_contains"] {
            if !matches!(kind, EntityKind::Membership | EntityKind::Identity) {
                filters.push(ListFilter {
                    name: (name == "name").then(|| "x".to_owned()),
                    name_contains: (name != "name").then(|| "x".to_owned()),
                    ..ListFilter::default()
                });
            }
        }
        if *kind == EntityKind::Resource {
            let (kind, address) = (TargetKind::Address, "10.0.0.1".to_owned());
            filters.push(ListFilter {
                target: Some(Target { kind, address }),
                refers_to: vec![EntityId::from_bytes(EntityKind::Site, [2; 16])],
                ..ListFilter::default()
            });
        }
        for part in Part::ALL.into_iter().filter(|part| part.kind() == *kind) {
            filters.push(ListFilter {
                parts: vec![part],
                ..ListFilter::default()
            });
        }
        for to in EntityKind::ALL {
            if users_of(*to).iter().any(|user| user.kind == *kind) {
                filters.push(ListFilter {
                    refers_to: vec![EntityId::from_bytes(*to, [2; 16])],
                    ..ListFilter::default()
                });
            }
        }
        for filter in filters {
            for after in [None, Some(EntityId::from_bytes(*kind, [3; 16]))] {
                let limit = PageLimit::MAX;
                let (sql, values) =
                    list::list_statement(SQLITE, ACCOUNT, *kind, &filter, after, limit).unwrap();
                assert_indexed(&store, &sql, values).await;
            }
            let (position, limit) = (Position::default(), PageLimit::MAX);
            let statements =
                list::ordered_statements(SQLITE, ACCOUNT, *kind, &filter, position, limit);
            let Ok(statements) = statements else {
                assert!(matches!(
                    kind,
                    EntityKind::Membership | EntityKind::Identity
                ));
                continue;
            };
            for (sql, values) in statements {
                assert_indexed(&store, &sql, values).await;
            }
        }
    }
}

/// The time of these depends on how many rows have the same name or address, and not on those of an account.
#[tokio::test]
async fn others_of_one_name_or_address_are_found_by_an_index_of_it() {
    let store = store().await;
    for kind in EntityKind::ALL {
        if matches!(kind, EntityKind::Membership | EntityKind::Identity) {
            continue;
        }
        for own in [None, Some(EntityId::from_bytes(*kind, [3; 16]))] {
            let (sql, values) = writing::named_statement(ACCOUNT, *kind, "J\u{30c}", own);
            assert_indexed(&store, &sql, values.clone()).await;
            let plan = plan(&store, &sql, values).await;
            assert!(plan[0].contains("name_key=?"), "{sql}\n{plan:#?}");
        }
    }
    let (kind, address) = (TargetKind::Address, "10.0.0.1".to_owned());
    let filter = ListFilter {
        target: Some(Target { kind, address }),
        refers_to: vec![EntityId::from_bytes(EntityKind::Site, [2; 16])],
        ..ListFilter::default()
    };
    let limit = PageLimit::MAX;
    let statement =
        list::list_statement(SQLITE, ACCOUNT, EntityKind::Resource, &filter, None, limit);
    let (sql, values) = statement.unwrap();
    let plan = plan(&store, &sql, values).await;
    let by = "USING INDEX resource_target (account=? AND site_id=? AND target=? AND id>?)";
    assert!(plan.len() == 1 && plan[0].ends_with(by), "{plan:#?}");
}

#[tokio::test]
async fn logs_are_read_by_an_index() {
    let store = store().await;
    let all = ChangeFilter::default();
    let filters = [
        all,
        ChangeFilter {
            kind: Some(EntityKind::Policy),
            ..all
        },
        ChangeFilter {
            id: Some(ACCOUNT.into()),
            ..all
        },
        ChangeFilter {
            actor: Some(ActorId::from_bytes([2; 16])),
            ..all
        },
        ChangeFilter {
            from: Some(NOW),
            until: Some(NOW),
            ..all
        },
    ];
    for filter in filters {
        for before in [None, Some(PLACE)] {
            let query = changes::log_query(ACCOUNT, &filter, None);
            let (sql, values) = query.statement(SQLITE, before, None, PageLimit::MAX);
            assert_indexed(&store, &sql, values).await;
        }
    }
    let all = AccessFilter::default();
    let filters = [
        all,
        AccessFilter {
            client: Some(ClientId::from_bytes([2; 16])),
            ..all
        },
        AccessFilter {
            resource: Some(ResourceId::from_bytes([2; 16])),
            ..all
        },
        AccessFilter {
            gateway: Some(GatewayId::from_bytes([2; 16])),
            ..all
        },
        AccessFilter {
            decision: Some(Decision::Denied),
            ..all
        },
        AccessFilter {
            from: Some(NOW),
            until: Some(NOW),
            ..all
        },
    ];
    for filter in filters {
        for before in [None, Some(PLACE)] {
            let query = access::log_query(ACCOUNT, &filter, None);
            let (sql, values) = query.statement(SQLITE, before, None, PageLimit::MAX);
            assert_indexed(&store, &sql, values).await;
        }
    }
    for after in [None, Some(GrantId::from_bytes([2; 16]))] {
        let (sql, values) = grants::live_statement(ACCOUNT, NOW, after, PageLimit::MAX);
        assert_indexed(&store, &sql, values).await;
    }
}

/// A filter that leaves a few of a million rows must not read the others, and nor must a time far back.
#[tokio::test]
async fn a_log_is_filtered_by_the_index_of_what_it_is_filtered_by() {
    let store = store().await;
    let until = Some(NOW);
    let client = Some(ClientId::from_bytes([2; 16]));
    let resource = Some(ResourceId::from_bytes([2; 16]));
    let all = AccessFilter::default();
    for (filter, index) in [
        (AccessFilter { until, ..all }, "at (account=?"),
        (
            AccessFilter {
                client,
                until,
                ..all
            },
            "client (account=? AND client_id=?",
        ),
        (
            AccessFilter {
                resource,
                until,
                ..all
            },
            "resource (account=? AND resource_id=?",
        ),
        (
            AccessFilter {
                decision: Some(Decision::Revoked),
                until,
                ..all
            },
            "decision (account=? AND decision=?",
        ),
    ] {
        for before in [None, Some(PLACE)] {
            let query = access::log_query(ACCOUNT, &filter, None);
            let (sql, values) = query.statement(SQLITE, before, None, PageLimit::MAX);
            let plan = plan(&store, &sql, values).await;
            let by = format!("USING INDEX access_log_{index} AND (at_ms,seq)<(?,?))");
            assert!(plan.len() == 1 && plan[0].ends_with(&by), "{sql}: {plan:?}");
        }
    }
    // Few entries come after one, whatever they are about.
    let after = Some(AccessSeq(9));
    let filter = AccessFilter {
        client,
        after,
        ..all
    };
    let query = access::log_query(ACCOUNT, &filter, None);
    let (sql, values) = query.statement(SQLITE, None, None, PageLimit::MAX);
    let found = plan(&store, &sql, values).await;
    let by = "USING PRIMARY KEY (account=? AND seq>?)";
    assert!(
        found.len() == 1 && found[0].ends_with(by),
        "{sql}: {found:?}"
    );
    let all = ChangeFilter::default();
    let kind = Some(EntityKind::Site);
    for (filter, index) in [
        (ChangeFilter { kind, ..all }, "change_log_kind"),
        (
            ChangeFilter {
                id: Some(ACCOUNT.into()),
                ..all
            },
            "change_log_row",
        ),
    ] {
        let query = changes::log_query(ACCOUNT, &filter, None);
        let (sql, values) = query.statement(SQLITE, Some(PLACE), None, PageLimit::MAX);
        let plan = plan(&store, &sql, values).await;
        assert!(plan[0].contains(index), "{sql}: {plan:?}");
    }
}

/// The time of these depends on the rows about one thing, of which a bounded number is read.
#[tokio::test]
async fn answers_about_a_thing_are_read_by_an_index_of_it() {
    let store = store().await;
    for (about, column) in [
        (EntityKind::Client, "client"),
        (EntityKind::Actor, "actor"),
        (EntityKind::Resource, "resource"),
        (EntityKind::Gateway, "gateway"),
    ] {
        let about = EntityId::from_bytes(about, [2; 16]);
        let [access, denials, flows] = recent_use::statements(SQLITE, ACCOUNT, about, NOW).unwrap();
        for ((sql, values), log) in [(access, "access"), (denials, "access"), (flows, "flow")] {
            let plan = plan(&store, &sql, values).await;
            let by = format!(
                "SEARCH {log}_log USING INDEX {log}_log_{column} (account=? AND {column}_id=? AND at_ms>?)"
            );
            assert!(plan.contains(&by), "{sql}\n{plan:#?}");
            let sorts = |step: &&String| step.contains("FOR ORDER BY") && step.contains("LAST");
            assert!(!plan.iter().any(|step| sorts(&step)), "{sql}\n{plan:#?}");
        }
    }
    let group = GroupId::from_bytes([2; 16]);
    let (sql, values) = read::member_counts_statement(ACCOUNT, &[group, group]);
    assert_indexed(&store, &sql, values).await;
    let live = ListFilter {
        parts: vec![Part::LiveGateways],
        ..ListFilter::default()
    };
    let site = EntityId::from_bytes(EntityKind::Site, [2; 16]);
    for (kind, filter, to) in [
        (EntityKind::Gateway, &live, site),
        (EntityKind::Resource, &ListFilter::default(), site),
        (EntityKind::Policy, &ListFilter::default(), group.into()),
    ] {
        let counted = counts::references_statement(SQLITE, ACCOUNT, kind, filter, &[to, to]);
        let (sql, values) = counted.unwrap();
        assert_indexed(&store, &sql, values).await;
    }
    let filter = ListFilter {
        of_actor: Some(ActorId::from_bytes([2; 16])),
        ..ListFilter::default()
    };
    let order = Order {
        by: OrderBy::Holder,
        is_descending: false,
    };
    let position = Position { order, skipped: 0 };
    let limit = PageLimit::MAX;
    let statements = list::ordered_statements(
        SQLITE,
        ACCOUNT,
        EntityKind::Policy,
        &filter,
        position,
        limit,
    );
    for (sql, values) in statements.unwrap() {
        let plan = plan(&store, &sql, values).await;
        let by = "INDEX policy_group (account=? AND group_id=?)";
        assert!(plan[0].contains(by), "{sql}\n{plan:#?}");
        let members = plan
            .iter()
            .any(|step| step.contains("INDEX membership_actor (account=? AND actor_id=?)"));
        assert!(members, "{sql}\n{plan:#?}");
    }
}

/// The rows that belong to a thing, in the orders in which its page shows the first of them.
#[tokio::test]
async fn rows_of_a_thing_are_read_by_an_index_of_it() {
    let store = store().await;
    use EntityKind as K;
    for (kind, of, by, index) in [
        (K::Policy, K::Resource, OrderBy::Created, "policy_resource"),
        (K::Policy, K::Group, OrderBy::Created, "policy_group"),
        (
            K::Membership,
            K::Actor,
            OrderBy::Created,
            "membership_actor",
        ),
        (K::Client, K::Actor, OrderBy::Seen, "client_actor"),
        (K::Gateway, K::Site, OrderBy::Seen, "gateway_site"),
    ] {
        let filter = ListFilter {
            refers_to: vec![EntityId::from_bytes(of, [2; 16])],
            ..ListFilter::default()
        };
        let order = Order {
            by,
            is_descending: by == OrderBy::Seen,
        };
        let position = Position { order, skipped: 0 };
        let limit = PageLimit::MAX;
        let statements = list::ordered_statements(SQLITE, ACCOUNT, kind, &filter, position, limit);
        for (sql, values) in statements.unwrap() {
            let plan = plan(&store, &sql, values).await;
            assert!(plan[0].starts_with("SEARCH"), "{sql}\n{plan:#?}");
            assert!(plan[0].contains(index), "{sql}\n{plan:#?}");
        }
    }
}

#[tokio::test]
async fn rows_of_a_thing_of_any_kind_are_found_in_the_order_of_their_creation() {
    let store = store().await;
    let order = Order {
        by: OrderBy::Created,
        is_descending: false,
    };
    let position = Position { order, skipped: 0 };
    for to in EntityKind::ALL {
        for user in users_of(*to) {
            let filter = ListFilter {
                refers_to: vec![EntityId::from_bytes(*to, [2; 16])],
                ..ListFilter::default()
            };
            let limit = PageLimit::MAX;
            let statements =
                list::ordered_statements(SQLITE, ACCOUNT, user.kind, &filter, position, limit);
            for (sql, values) in statements.unwrap() {
                let plan = plan(&store, &sql, values).await;
                assert!(plan[0].starts_with("SEARCH"), "{sql}\n{plan:#?}");
            }
        }
    }
}

/// A search reads rows one after another, but in their order, and no more than it is told.
#[tokio::test]
async fn a_search_reads_the_log_in_its_order_and_sorts_nothing() {
    let store = store().await;
    let text = "grant_01".parse().ok();
    let changes = ChangeFilter {
        search: text,
        ..ChangeFilter::default()
    };
    let access = AccessFilter {
        search: text,
        ..AccessFilter::default()
    };
    let flows = FlowFilter {
        search: text,
        ..FlowFilter::default()
    };
    for (query, log) in [
        (changes::log_query(ACCOUNT, &changes, None), "change_log"),
        (access::log_query(ACCOUNT, &access, None), "access_log"),
        (flows::log_query(ACCOUNT, &flows, None), "flow_log"),
    ] {
        let (sql, values) = query.last_statement(SQLITE, None);
        // Before the last row that a page looks at lie all the others that it looks at.
        let Some(Value::Integer(skipped)) = values.last() else {
            panic!("{values:?}");
        };
        let looked_at = skipped.unsigned_abs() + 1;
        assert!([SEARCHED_ROWS, SEARCHED_CHANGES].contains(&looked_at));
        assert_indexed(&store, &sql, values).await;
        let (sql, values) = query.statement(SQLITE, None, Some(PLACE), PageLimit::MAX);
        let plan = plan(&store, &sql, values).await;
        let first = format!("USING INDEX {log}_at (account=? AND (at_ms,seq)>(?,?))");
        assert!(plan[0].ends_with(&first), "{plan:#?}");
        assert!(
            !plan.iter().any(|step| step.contains("ORDER BY")),
            "{plan:#?}"
        );
    }
}

fn sqlite(pool: &Pool) -> &sqlx::SqlitePool {
    match pool {
        Pool::Sqlite(pool) => pool,
        Pool::Postgres(_) => panic!("another database"),
    }
}

async fn pragma(pool: &sqlx::SqlitePool, sql: &str) -> i64 {
    let row = query(sql, Vec::new()).fetch_one(pool).await.unwrap();
    sqlx::Row::get(&row, 0)
}

/// 2 is FULL: a commit is on the disk before it is acknowledged.
#[tokio::test]
async fn the_writer_flushes_commits_and_the_readers_write_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("culvert.db"));
    let store = SqlStore::open(&options).await.unwrap();
    assert_eq!(
        pragma(sqlite(&store.writer.pool), "PRAGMA synchronous").await,
        2
    );
    assert_eq!(
        pragma(sqlite(&store.writer.pool), "PRAGMA foreign_keys").await,
        1
    );
    assert_eq!(
        pragma(sqlite(&store.writer.pool), "PRAGMA secure_delete").await,
        1
    );
    assert_eq!(pragma(sqlite(&store.reader), "PRAGMA query_only").await, 1);
    let journal = query("PRAGMA journal_mode", Vec::new());
    let journal = journal.fetch_one(sqlite(&store.writer.pool)).await.unwrap();
    assert_eq!(sqlx::Row::get::<String, _>(&journal, 0), "wal");
    let broken = pragma(
        sqlite(&store.writer.pool),
        "SELECT count(*) FROM pragma_foreign_key_check",
    )
    .await;
    assert_eq!(broken, 0);
}

#[tokio::test]
async fn a_database_that_can_not_be_read_says_so_although_it_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("culvert.db"));
    let store = SqlStore::open(&options).await.unwrap();
    store.ping().await.unwrap();
    query("ALTER TABLE account RENAME TO elsewhere", Vec::new())
        .execute(sqlite(&store.writer.pool))
        .await
        .unwrap();
    store.writer.probe().await.unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(error.to_string().contains("account"), "{error}");
}

#[tokio::test]
async fn a_database_that_can_not_be_written_says_so() {
    let store = store().await;
    query("PRAGMA query_only = ON", Vec::new())
        .execute(sqlite(&store.writer.pool))
        .await
        .unwrap();
    let error = store
        .touch_tokens(
            ACCOUNT,
            vec![(culvert_ids::TokenId::from_bytes([1; 16]), NOW)],
        )
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("read-only"));
}

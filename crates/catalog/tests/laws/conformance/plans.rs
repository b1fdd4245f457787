//! How the databases find what is asked for: never by looking at every row.

use jiff::ToSpan as _;
use tidegate_catalog::{
    Allowance, Changes, Descriptor, Numbers, Override, Rules, RulesChange, Switch, SwitchMode, Tenant,
    TenantChange, Token, TokenHash,
};

use crate::world::{SERVER, World, ann, at};

laws! { no_question_is_answered_by_looking_at_every_row }

const ROWS: u64 = 10_000;

/// Ten thousand of everything.
fn many() -> Changes {
    let each = |number: u64| Override {
        domain: None,
        descriptor: Descriptor::own(),
        limit: None,
        allowance: Allowance::Limited(Numbers {
            requests: number,
            window: None,
            burst: None,
            algorithm: None,
        }),
        effective_at: Some(at(number.cast_signed())),
        expires_at: Some(at(2 * number.cast_signed() + 1)),
        created_at: at(0),
    };
    let tenant = |number: u64| Tenant {
        name: format!("tenant-{number}"),
        tier: Some(["free", "pro", "enterprise"][number as usize % 3].to_owned()),
        overrides: vec![each(number)],
        revision: number,
        updated_at: at(0),
    };
    let rules = |number: u64| Rules {
        domain: format!("domain-{number}"),
        version: 1,
        text: Some("text".to_owned()),
        author: "ann".to_owned(),
        comment: String::new(),
        restored_from: None,
        created_at: at(0),
        revision: number,
    };
    let token = |number: u64| Token {
        id: format!("token-{number}"),
        name: "name".to_owned(),
        role: tidegate_catalog::Role::Check,
        hash: TokenHash([0; 32]),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        revision: number,
    };
    let switch = |number: u64| {
        let rule = format!("rule-{number}");
        Switch { rule, mode: SwitchMode::Off, updated_at: at(0), revision: number }
    };
    let rules_change = |rules: Rules| RulesChange { domain: rules.domain.clone(), rules: Some(rules) };
    Changes {
        since: 0,
        version: ROWS,
        whole: true,
        tenants: (1..=ROWS).map(|number| TenantChange::Put(tenant(number))).collect(),
        rules: (1..=ROWS).map(|number| rules_change(rules(number))).collect(),
        switches: (1..=ROWS).map(switch).collect(),
        tokens: (1..=ROWS).map(token).collect(),
    }
}

const TRAIL: &str = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000) \
     INSERT INTO audit (id, at, actor, action, object_kind, object, request_id) \
     SELECT n, 1790000000000000 + n, 'actor-' || (n % 97), CASE WHEN n % 89 = 0 THEN 'put_rules' ELSE 'put_tenant' END, \
     'tenant', 'tenant-' || (n % 5000), 'r' FROM numbers";

async fn no_question_is_answered_by_looking_at_every_row(world: World) {
    let catalog = &world.catalog;
    catalog.apply(&many()).await.unwrap();
    for statement in [TRAIL, "ANALYZE"] {
        match (world.database(), world.file()) {
            (Some(database), _) => drop(SERVER.query(database, statement)),
            (_, Some(file)) => {
                let mut connection = sqlite(&file).await;
                sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
            }
            _ => unreachable!(),
        }
    }
    // It still answers, and writes go on.
    catalog.record("a", "b", "c", None, None, &ann()).await.unwrap();
    let plans = catalog.plans(ROWS - 10, at(0) + 5_000.seconds()).await.unwrap();
    assert!(plans.len() > 20);
    for (sql, plan) in plans {
        for line in &plan {
            // SQLite says SCAN for a whole table; an index in order, up to a limit, is fine. So are rows
            // that were found already.
            let sqlite = line.starts_with("SCAN") && !line.contains("INDEX") && !line.contains("turns");
            let sorted = line.contains("TEMP B-TREE FOR ORDER BY") && sql.contains("LIMIT");
            let postgres = line.contains("Seq Scan on");
            assert!(!sqlite && !sorted && !postgres, "{sql}\n{}", plan.join("\n"));
        }
    }
}

async fn sqlite(file: &std::path::Path) -> sqlx::SqliteConnection {
    use sqlx::ConnectOptions as _;
    sqlx::sqlite::SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

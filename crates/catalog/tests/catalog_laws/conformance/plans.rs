//! How the databases find what is asked for: never by looking at every row.

use jiff::ToSpan as _;
use tidegate_catalog::{
    Allowance, Catalog, Changes, Descriptor, Numbers, Override, Rules, RulesChange, Switch, SwitchMode,
    Tenant, TenantChange, Token, TokenHash,
};

use crate::world::{SERVER, World, at};

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
        tier: Some(if number.is_multiple_of(31) { "pro" } else { "free" }.to_owned()),
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
     SELECT n, 1000000 * (1790000000 + CAST(n AS BIGINT)), 'actor-' || (n % 97), CASE WHEN n % 89 = 0 THEN 'put_rules' ELSE 'put_tenant' END, \
     'tenant', 'tenant-' || (n % 5000), 'r' FROM numbers";

/// Where something is asked for by this, there is an index for it.
const INDEXES: [(&str, &str); 10] = [
    ("tier =", "tenants_tier"),
    ("revision >", "_revision"),
    ("actor =", "audit_actor"),
    ("action =", "audit_action"),
    ("object =", "audit_object"),
    ("effective_at >", "overrides_effective"),
    ("updated_at <", "tenants_gone"),
    ("d.deleted = 1", "domains_gone"),
    ("d.version >", "domains_version"),
    ("coalesce(revoked_at", "tokens_ended"),
];

async fn no_question_is_answered_by_looking_at_every_row(world: World) {
    let catalog = &world.catalog;
    catalog.apply(&many()).await.unwrap();
    run(&world, TRAIL).await;
    if world.file().is_some() {
        // Nobody tells SQLite how much there is.
        check_plans(catalog).await;
    }
    run(&world, "ANALYZE").await;
    check_plans(catalog).await;
}

pub(super) async fn run(world: &World, statement: &'static str) {
    if let Some(database) = world.database() {
        SERVER.query(database, statement);
    }
    if let Some(file) = world.file() {
        sqlx::raw_sql(statement).execute(&mut sqlite(&file).await).await.unwrap();
    }
}

async fn check_plans(catalog: &Catalog) {
    let plans = catalog.plans(ROWS - 10, at(0) + 5_000.seconds()).await.unwrap();
    assert!(plans.len() > 20);
    for (sql, plan) in plans {
        let whole = plan.join("\n");
        for (line, next) in plan.iter().zip(plan.iter().skip(1).map(Some).chain([None])) {
            assert!(!looks_at_all(&sql, line, next), "{sql}\n{line} in\n{whole}");
        }
        for (condition, index) in INDEXES {
            assert!(!sql.contains(condition) || whole.contains(index), "{sql} without {index}:\n{whole}");
        }
    }
}

/// Whether a step of a plan goes through all of a table or of an index. In the order that is asked for, and
/// only up to a limit, that is fine.
fn looks_at_all(sql: &str, line: &str, next: Option<&String>) -> bool {
    let limited = sql.contains("LIMIT");
    let sorts = line.contains("TEMP B-TREE FOR ORDER BY");
    let step = line.trim_start().trim_start_matches("->").trim_start();
    // SQLite says SCAN of what it does not search; what is in brackets or named `turns` was found before.
    let sqlite = step.starts_with("SCAN") && !step.contains("turns") && !step.contains('(');
    let by_index = step.starts_with("Index") && step.contains(" Scan ");
    let postgres = by_index && !next.is_some_and(|next| next.contains("Index Cond"));
    step.contains("Seq Scan on")
        || limited && sorts
        || sqlite && !(limited && step.contains("INDEX"))
        || postgres && !limited
}

async fn sqlite(file: &std::path::Path) -> sqlx::SqliteConnection {
    use sqlx::ConnectOptions as _;
    sqlx::sqlite::SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

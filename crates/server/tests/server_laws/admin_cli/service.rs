//! The commands and the real service.

use std::fs;

use serde_json::Value;

use super::{Run, command, finish, folder};
use crate::support::service::{Service, Setup, service};

const RULES: &str = "\
domain: api
tenant: api_key
descriptors:
  - key: api_key
    name: per_key
    rate_limit: { unit: minute, requests_per_unit: 5 }
    tiers: { pro: { minute: { requests: 50 } } }
";

const OURS: &str = "\
domain: shop
descriptors:
  - key: user
    name: per_user
    rate_limit: { unit: minute, requests_per_unit: 7 }
";

/// Runs where the service's data is, so that its own token is found.
fn run(service: &Service, args: &[&str]) -> Run {
    let mut command = command(service.folder.path(), args);
    command.env("TIDEGATE_ADMIN", format!("http://{}", service.admin));
    command.env("TIDEGATE_DATA", service.folder.path().join("data"));
    finish(command)
}

/// The output of what must succeed.
fn done(service: &Service, args: &[&str]) -> String {
    let run = run(service, args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.err);
    run.out
}

fn json(service: &Service, args: &[&str]) -> Value {
    let text = done(service, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn quotas_are_set_shown_listed_and_forgotten() {
    let service = service(RULES);
    let name = "acme/\u{fc} 100%?";
    assert!(done(&service, &["quota", "set", name, "--tier", "pro"]).contains("tier pro, 0 overrides"));
    let set = ["quota", "set", name, "--requests", "9", "--per", "minute", "--expires-at", "30d"];
    assert!(done(&service, &set).contains("tier pro, 1 override,"));
    let quota = json(&service, &["quota", "get", name]);
    assert_eq!((&quota["tenant"], &quota["tier"]), (&Value::from(name), &Value::from("pro")));
    assert_eq!(quota["limits"][0]["requests_per_unit"], 9);
    let shown = done(&service, &["quota", "get", name]);
    assert!(shown.contains("9/minute") && shown.contains("override"), "{shown}");
    assert_eq!(done(&service, &["quota", "list", "--tier", "pro", "-o", "name"]), format!("{name}\n"));
    let usage = json(&service, &["usage", name]);
    assert_eq!((&usage["usage"][0]["used"], &usage["usage"][0]["limit"]), (&Value::from(0), &Value::from(9)));
    assert!(done(&service, &["usage", name]).contains("per_key"));
    assert!(done(&service, &["reset", name]).ends_with(" reset\n"));
    // What get prints can be put again, and comes to the same.
    let file = service.folder.path().join("acme.json");
    fs::write(&file, quota.to_string()).unwrap();
    done(&service, &["quota", "set", name, "-f", "acme.json"]);
    let mut again = json(&service, &["quota", "get", name]);
    again["revision"] = quota["revision"].clone();
    again["updated_at"] = quota["updated_at"].clone();
    assert_eq!(again, quota);
    done(&service, &["quota", "delete", name, "--yes"]);
    let gone = run(&service, &["quota", "get", name]);
    assert_eq!((gone.code, gone.out.as_str()), (4, ""));
    let wrong = run(&service, &["quota", "set", name, "--tier", "gold"]);
    assert!(wrong.code == 3 && wrong.err.starts_with("error: tier: "), "{}", wrong.err);
}

#[test]
fn rules_are_pushed_compared_rolled_back_and_taken_away() {
    let service = service(RULES);
    let write = |text: &str| fs::write(service.folder.path().join("shop.yaml"), text).unwrap();
    write(OURS);
    let tried = done(&service, &["rules", "push", "-f", "shop.yaml", "--dry-run"]);
    assert!(tried.contains("+domain: shop\n") && tried.contains("dry run"), "{tried}");
    assert!(
        done(&service, &["rules", "push", "shop.yaml", "-m", "first"])
            .contains("shop: version 1; 1 rule added")
    );
    assert_eq!(done(&service, &["rules", "show", "shop"]), OURS);
    write(&OURS.replace('7', "8"));
    assert!(done(&service, &["rules", "diff", "-f", "shop.yaml"]).contains("\n+    rate_limit"));
    assert!(
        done(&service, &["rules", "push", "-f", "shop.yaml", "--if-version", "1"]).contains("1 rule changed")
    );
    let late = run(&service, &["rules", "push", "-f", "shop.yaml", "--if-version", "1"]);
    assert!(late.code == 5 && late.err.contains("run the command again"), "{}", late.err);
    assert!(
        done(&service, &["rules", "diff", "shop", "--from", "1", "--to", "2"])
            .contains("requests_per_unit: 8")
    );
    assert!(done(&service, &["rules", "rollback", "shop", "1"]).contains("shop: version 3"));
    let history = done(&service, &["rules", "history", "shop", "--no-headers"]);
    assert!(
        history.starts_with("3  ") && history.contains("back to 1") && history.contains("first"),
        "{history}"
    );
    assert_eq!(done(&service, &["rules", "list", "-o", "name"]), "api\nshop\n");
    done(&service, &["rules", "delete", "shop", "--yes"]);
    write(&RULES.replace("per_key", "other"));
    let clash = run(&service, &["rules", "push", "-f", "shop.yaml"]);
    assert!(clash.code == 5 && clash.err.contains("is in the rule file"), "{}", clash.err);
}

#[test]
fn switches_tokens_and_the_trail_of_all_that() {
    let service = service(RULES);
    done(&service, &["switch", "set", "per_key", "shadow"]);
    assert!(done(&service, &["switch", "list"]).contains("per_key  shadow   catalog\n"));
    assert_eq!(done(&service, &["switch", "get", "*"]), "*: enforce\n");
    let token = done(&service, &["token", "create", "look", "--role", "viewer", "--expires-at", "1d"]);
    let by = |args: &[&str]| run(&service, &[args, &["--token", token.trim()]].concat());
    assert_eq!(by(&["quota", "list"]).code, 0);
    let refused = by(&["switch", "set", "per_key", "off"]);
    assert!(refused.code == 3 && refused.err.contains("needs the role operator"), "{}", refused.err);
    let tokens = json(&service, &["token", "list"]);
    let id = tokens["items"][0]["id"].as_str().expect("an id");
    done(&service, &["token", "revoke", id, "--yes"]);
    let refused = by(&["quota", "list"]);
    assert!(refused.code == 3 && refused.err.contains("\nhint: give a token"), "{}", refused.err);

    let trail = done(&service, &["audit", "list", "--from", "1h", "--no-headers"]);
    assert_eq!(trail.lines().count(), 3, "{trail}");
    assert!(!trail.contains(token.trim()));
    let only = json(&service, &["audit", "list", "--object", "per_key"]);
    assert_eq!(only["items"].as_array().map(Vec::len), Some(1));
    let whole = done(&service, &["audit", "verify"]);
    assert!(whole.starts_with("whole: 3 records in 1 file"), "{whole}");
}

#[test]
fn a_token_of_a_file_counts_and_is_made_up_without_a_node() {
    let here = folder();
    let made = finish(command(here.path(), &["token", "generate"]));
    assert!(made.code == 0 && made.out.starts_with("tg_"), "{}", made.err);
    let setup = Setup::rules(RULES);
    let file = setup.path().join("given");
    fs::write(&file, &made.out).unwrap();
    let service = setup.with("admin.token_file", &file.display().to_string()).start();
    let mut list = command(here.path(), &["switch", "list", "--token-file", &file.display().to_string()]);
    list.env("TIDEGATE_ADMIN", format!("http://{}", service.admin));
    assert_eq!(finish(list).code, 0);
    let mut list = command(here.path(), &["switch", "list"]);
    list.env("TIDEGATE_ADMIN", format!("http://{}", service.admin));
    assert_eq!(finish(list).code, 3, "nobody's token is nobody's");
}

#[test]
fn tenants_are_exported_and_come_back_as_they_were() {
    let service = service(RULES);
    let names = ["acme", "globex/\u{65e5}\u{672c}", "initech 100%"];
    for name in names {
        done(
            &service,
            &[
                "quota",
                "set",
                name,
                "--tier",
                "pro",
                "--requests",
                "9",
                "--per",
                "minute",
                "--expires-at",
                "30d",
            ],
        );
    }
    let exported = done(&service, &["quota", "export"]);
    assert_eq!(exported.lines().count(), 3, "{exported}");
    fs::write(service.folder.path().join("tenants.jsonl"), &exported).unwrap();
    let same = done(&service, &["quota", "import", "tenants.jsonl"]);
    assert_eq!(same, "0 created, 0 changed, 3 unchanged\n");
    done(&service, &["quota", "delete", names[0], names[1], "--yes"]);
    done(&service, &["quota", "set", names[2], "--no-tier"]);
    let tried = done(&service, &["quota", "import", "tenants.jsonl", "--dry-run"]);
    assert_eq!(tried, "nothing was changed (dry run): 2 created, 1 changed, 0 unchanged\n");
    assert_eq!(run(&service, &["quota", "get", names[0]]).code, 4, "a dry run changes nothing");
    let imported = done(&service, &["quota", "import", "tenants.jsonl"]);
    assert_eq!(imported, "2 created, 1 changed, 0 unchanged\n");
    assert_eq!(done(&service, &["quota", "export"]), exported);

    // One line is wrong: none is imported.
    let wrong = exported.replace("\"pro\"", "\"free\"").replace("globex", "other")
        + "{\"tenant\":\"x\",\"tear\":1}\n";
    let mixed = exported.lines().next().map(|line| line.replace("acme", "newcomer")).unwrap() + "\n" + &wrong;
    fs::write(service.folder.path().join("tenants.jsonl"), mixed).unwrap();
    let refused = run(&service, &["quota", "import", "tenants.jsonl"]);
    assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{}", refused.err);
    let places: Vec<&str> =
        refused.err.lines().filter_map(|line| line.strip_prefix("error: tenants.jsonl:")).collect();
    assert_eq!(
        places.iter().map(|place| &place[..2]).collect::<Vec<_>>(),
        ["2:", "3:", "4:", "5:"],
        "{}",
        refused.err
    );
    assert_eq!(done(&service, &["quota", "export"]), exported, "nothing was changed");
}

#[test]
fn rules_of_several_files_come_into_force_together_or_not_at_all() {
    let service = service(RULES);
    let write = |file: &str, text: &str| fs::write(service.folder.path().join(file), text).unwrap();
    write("a.yaml", OURS);
    write("b.yaml", "domain: blog\ndescriptors:\n  - { key: user, rate_limits: 5 }\n");
    let refused = run(&service, &["rules", "push", "a.yaml", "b.yaml"]);
    assert_eq!(refused.code, 3);
    assert!(
        refused.err.starts_with("error: b.yaml:3:18: descriptors[0].rate_limits: unknown field"),
        "{}",
        refused.err
    );
    assert_eq!(done(&service, &["rules", "list", "-o", "name"]), "api\n");
    write("b.yaml", &OURS.replace("shop", "blog"));
    done(&service, &["rules", "push", "a.yaml", "b.yaml"]);
    assert_eq!(done(&service, &["rules", "list", "-o", "name"]), "api\nblog\nshop\n");
}

//! What is secret is shown nowhere, and nothing outside of the data folder is written.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use tidegate_server::config::{Sources, load};

use crate::support::service::{Setup, get};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]
";
const SECRET: &str = "hunter2";

const SETTINGS: [(&str, &str); 4] = [
    ("TIDEGATE_REDIS__SECRET", "hunter2"),
    ("TIDEGATE_TRACES__ENDPOINT", "http://ann:hunter2@127.0.0.1:4317"),
    ("TIDEGATE_STORE", "redis://ann:hunter2@127.0.0.1:6379"),
    ("TIDEGATE_CATALOG", "postgres://ann:hunter2@127.0.0.1/tidegate"),
];

#[test]
fn no_secret_is_among_the_settings_that_are_shown() {
    for arguments in [&["config"][..], &["config", "--json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let folder = tempfile::tempdir().expect("a folder");
        let output = command.args(arguments).current_dir(folder.path()).env_clear().envs(SETTINGS).output();
        let output = output.expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("http://***@127.0.0.1:4317"), "{shown}");
    }
    let environment = SETTINGS.map(|(name, text)| (name.into(), text.into())).to_vec();
    let settings = load(&Sources { environment, ..Sources::default() }).expect("they are fine");
    assert!(!format!("{settings:?}").contains(SECRET));
    assert_eq!(settings.redis.secret.reveal(), SECRET);
}

#[test]
fn a_mistake_in_an_address_does_not_show_its_password() {
    let mistakes = [
        ("catalog", "postgre://ann:hunter2@db/tidegate"),
        ("catalog", "postgres:ann:hunter2@db/tidegate"),
        ("catalog", "postgres:/ann:hunter2@db/tidegate"),
        ("catalog", "host=db user=ann password=hunter2"),
        ("catalog", "postgres://ann@db/tidegate?pasword=hunter2"),
        ("catalog", "postgres://ann:hunter2@db:port/tidegate"),
        ("catalog", "postgres://ann:x/hunter2@db/tidegate"),
        ("catalog", "postgres://ann:x?hunter2@db/tidegate"),
        ("store", "redis+ring://:hunter2@r:6379"),
        ("store", "redis:/:hunter2@r:6379"),
        ("store", "redis:hunter2@r"),
        ("store", "redis//:hunter2@r"),
        ("store", "redis://ann:x/hunter2@r:6379"),
        ("store", "redis://ann:hunter2/x@r:6379"),
        ("store", "redis://ann:x?hunter2@r:6379"),
        ("store", "redis://r:6379?password=hunter2"),
        ("store", "hunter2@r"),
        ("traces.endpoint", "htp://ann:hunter2@otel:4317"),
        ("traces.endpoint", "http://ann:hunter2@otel: 4317"),
        ("traces.endpoint", "ann:hunter2@otel:4317"),
        ("http.listen", "http://ann:hunter2@0.0.0.0:8080"),
        ("admin.allowed_hosts", "http://ann:hunter2@tidegate.internal"),
    ];
    for (setting, text) in mistakes {
        let name = format!("TIDEGATE_{}", setting.replace('.', "__").to_uppercase());
        let environment = vec![(name.into(), text.into())];
        let problems = load(&Sources { environment, ..Sources::default() }).expect_err(text).to_string();
        assert!(!problems.contains(SECRET), "{text}: {problems}");
        assert!(problems.contains(setting), "{text}: {problems}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tidegate.yaml");
    for text in ["redis: redis://:hunter2@r", "grpc: http://ann:hunter2@host"] {
        fs::write(&file, text).expect("a file");
        let problems = load(&Sources { file: Some(file.clone()), ..Sources::default() }).expect_err(text);
        assert!(!problems.to_string().contains(SECRET), "{text}: {problems}");
    }
}

#[test]
fn the_data_folder_is_tried_without_following_a_link() {
    let setup = Setup::rules(RULES);
    let others = setup.path().join("others");
    fs::write(&others, "precious").expect("a file");
    fs::create_dir(setup.path().join("data")).expect("a folder");
    symlink(&others, setup.path().join("data/probe")).expect("a link");
    let service = setup.start();
    assert_eq!(get(service.http, "/healthcheck").status, 200);
    assert_eq!(fs::read_to_string(&others).expect("it is there"), "precious");
    assert!(service.file("data/probe").is_symlink(), "it is not ours to remove");
    let left: Vec<_> = fs::read_dir(service.file("data")).expect("a folder").flatten().collect();
    let probes = left.iter().filter(|file| file.file_name().to_string_lossy().starts_with("probe-"));
    assert_eq!(probes.count(), 0, "what was tried is gone");
}

#[test]
fn a_lock_that_is_a_link_is_refused() {
    let setup = Setup::rules(RULES);
    let others = setup.path().join("others");
    fs::create_dir(setup.path().join("data")).expect("a folder");
    symlink(&others, setup.path().join("data/lock")).expect("a link");
    let ended = setup.fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("data folder"), "{}", ended.errors);
    assert!(!ended.folder.path().join("others").exists(), "nothing is made outside");
}

#[test]
fn a_data_folder_that_is_made_is_for_its_owner_alone() {
    let service = Setup::rules(RULES).start();
    let mode = fs::metadata(service.file("data")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

//! What stands for a `PostgreSQL`.

use tidegate_catalog::{Catalog, Error};

#[test]
fn a_url_that_is_none_is_refused_with_the_reason() {
    for (url, part) in [
        ("mysql://host/db", "must begin with postgres://"),
        ("postgres://host:port/db", "is not a valid PostgreSQL URL"),
        ("postgres://a:1,b:x/db", "is not a valid PostgreSQL URL"),
        ("postgres://host/db?sslmod=require", "sslmod is not understood"),
        ("postgres://host/db?sslmode=perhaps", "is not a valid PostgreSQL URL"),
        ("postgres://host/db?target_session_attrs=any", "target_session_attrs=any is not understood"),
    ] {
        match Catalog::postgres(url) {
            Err(Error::Invalid { field, reason }) => {
                assert_eq!(field, "catalog");
                assert!(reason.contains(part), "{url}: {reason}");
            }
            other => panic!("{url} gives {other:?}"),
        }
    }
}

#[test]
fn urls_of_one_host_and_of_many_are_understood() {
    for url in [
        "postgres://host/db",
        "postgresql://user:p%40ss@host:5433/db?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "postgres://user@a:1,b:2,[::1]:3/db?target_session_attrs=read-write&password_file=/run/secret",
        "postgres://user@%2Frun%2Fpostgresql/db?application_name=tidegate",
    ] {
        Catalog::postgres(url).unwrap();
    }
}

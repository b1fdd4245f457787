//! Every protocol as a client speaks it, compiled from `proto/`.
#![expect(unused_qualifications, unreachable_pub, clippy::pedantic, reason = "generated")]

/// A module per package, as the generated code expects.
macro_rules! package {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/clients/", $name, ".rs"));
    };
}

pub(crate) mod envoy {
    pub(crate) mod config {
        pub(crate) mod core {
            pub(crate) mod v3 {
                package!("envoy.config.core.v3");
            }
        }
    }
    pub(crate) mod extensions {
        pub(crate) mod common {
            pub(crate) mod ratelimit {
                pub(crate) mod v3 {
                    package!("envoy.extensions.common.ratelimit.v3");
                }
            }
        }
    }
    pub(crate) mod service {
        pub(crate) mod ratelimit {
            pub(crate) mod v3 {
                package!("envoy.service.ratelimit.v3");
            }
        }
    }
    pub(crate) mod r#type {
        pub(crate) mod v3 {
            package!("envoy.r#type.v3");
        }
    }
}

pub(crate) mod tidegate {
    pub(crate) mod v1 {
        package!("tidegate.v1");
    }
}

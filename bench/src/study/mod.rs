//! One file or folder per study; each returns a [`Finding`](crate::finding::Finding). `bed` starts and drives the
//! measured servers.

pub(crate) mod accuracy;
pub(crate) mod bed;
pub(crate) mod bytes;
pub(crate) mod compare;
pub(crate) mod floods;
pub(crate) mod instructions;
pub(crate) mod pauses;
pub(crate) mod recorder;
pub(crate) mod redis;
pub(crate) mod sdk;
pub(crate) mod seam;
pub(crate) mod service;
pub(crate) mod tenants;

//! One file per study; each answers a [`Finding`](crate::finding::Finding).

pub(crate) mod accuracy;
pub(crate) mod bytes;
pub(crate) mod compare;
pub(crate) mod instructions;
pub(crate) mod pauses;
pub(crate) mod seam;
pub(crate) mod service;

//! Decisions as HTTP.

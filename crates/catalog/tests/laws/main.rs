//! Laws of the catalog, each stated by the name of its test. Those in `conformance` hold for SQLite and for a
//! real PostgreSQL alike.

mod conformance;
mod copies;
mod descriptors;
mod drafts;
mod faults;
mod picture;
mod urls;
mod world;

//! Laws of the library, each stated by the name of its test.

mod rule_files;

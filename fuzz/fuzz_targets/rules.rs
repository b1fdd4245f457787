//! Loads whatever comes as a rule file: it is rules or it is refused with reasons, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match tidegate::rules::file::load("fuzz.yaml", text, &tidegate::Defaults::default()) {
        Ok(_) => {}
        Err(problems) => assert!(problems.to_string().contains("fuzz.yaml"), "each problem has a place"),
    }
});

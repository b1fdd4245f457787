//! The written form of descriptors.

use proptest::prelude::*;
use tidegate_catalog::{Descriptor, DescriptorError, Entry};

fn entry() -> impl Strategy<Value = Entry> {
    let text = || r"[a-c:|\\/ é☃]{1,6}";
    let value = proptest::option::of(prop_oneof![text().prop_map(String::from), Just(String::new())]);
    (text(), value).prop_map(|(key, value)| Entry { key, value })
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn what_is_written_is_read_again(entries in proptest::collection::vec(entry(), 0..5)) {
        let descriptor = Descriptor::new(entries.clone()).unwrap();
        let read: Descriptor = descriptor.to_string().parse().unwrap();
        prop_assert_eq!(read.entries(), &entries);
    }

    #[test]
    fn any_text_is_refused_or_written_so_that_it_reads_the_same(text in r"[a:|\\]{0,12}|.{0,40}") {
        if let Ok(descriptor) = text.parse::<Descriptor>() {
            prop_assert_eq!(descriptor.to_string().parse::<Descriptor>().unwrap(), descriptor);
        }
    }
}

#[test]
fn values_hold_colons_and_slashes_as_they_are() {
    let descriptor: Descriptor = "endpoint:POST /api/v1/orders:bulk|region".parse().unwrap();
    assert_eq!(
        descriptor.entries(),
        [Entry::with_value("endpoint", "POST /api/v1/orders:bulk"), Entry::key("region")]
    );
    assert_eq!("".parse::<Descriptor>().unwrap(), Descriptor::own());
}

#[test]
fn what_is_no_descriptor_is_refused_with_its_place() {
    for (text, error) in [
        ("|", DescriptorError::NoKey { index: 0 }),
        ("a|", DescriptorError::NoKey { index: 1 }),
        (":value", DescriptorError::NoKey { index: 0 }),
        (r"a:b\", DescriptorError::Escape { at: 3 }),
        (r"é\n", DescriptorError::Escape { at: 1 }),
    ] {
        assert_eq!(text.parse::<Descriptor>().unwrap_err(), error, "{text}");
    }
}

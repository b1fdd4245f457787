//! The text of a key.

/// Replaces `text` with the text of a key, such as `user-00000042`. It has 13 bytes for keys below 100
/// million.
pub fn write_key(key: u64, text: &mut String) {
    const DIGITS: &str = "00000000";
    let mut buffer = itoa::Buffer::new();
    let number = buffer.format(key);
    text.clear();
    text.push_str("user-");
    text.push_str(DIGITS.get(number.len()..).unwrap_or_default());
    text.push_str(number);
}

#[cfg(test)]
mod tests {
    use super::write_key;

    #[test]
    fn keys_are_as_long_as_documented_and_differ() {
        let mut text = String::new();
        for key in [0, 42, 99_999_999, 100_000_000, u64::MAX] {
            write_key(key, &mut text);
            assert_eq!(text, format!("user-{key:08}"));
        }
    }
}

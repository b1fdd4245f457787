//! Patterns for values.

/// A pattern in which each `*` matches any text, including the empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: Box<str>,
    /// The positions of the first and the last `*`.
    stars: Option<(usize, usize)>,
}

impl Pattern {
    /// Returns whether the value of a rule is a pattern.
    pub(crate) fn is_pattern(value: &str) -> bool {
        value.contains('*')
    }

    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), stars: text.find('*').zip(text.rfind('*')) }
    }

    /// Returns the text before the first `*`.
    pub(crate) fn prefix(&self) -> &str {
        self.stars.map_or(&*self.text, |(first, _)| &self.text[..first])
    }

    /// Returns the text after the last `*`.
    pub(crate) fn suffix(&self) -> &str {
        self.stars.map_or(&*self.text, |(_, last)| &self.text[last + 1..])
    }

    /// Returns whether the value matches. The first part must begin the value and the last must end it. The parts
    /// between are found from left to right, each as early as possible, which never misses a match.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some((first, last)) = self.stars else { return *self.text == *value };
        let rest = value.strip_prefix(self.prefix()).and_then(|rest| rest.strip_suffix(self.suffix()));
        let Some(mut rest) = rest else { return false };
        // Most patterns have one `*`.
        first == last
            || self.text[first + 1..last].split('*').all(|part| {
                let found = rest.find(part);
                rest = found.map_or("", |at| &rest[at + part.len()..]);
                found.is_some()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn each_star_stands_for_any_text_or_none() {
        let table = [
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("a*", "ab", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*c", "ac", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("ab*ba", "aba", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("a**b", "ab", true),
            ("*x*", "axa", true),
            ("*x*", "aaa", false),
            ("/api/*/orders", "/api/v1/orders", true),
            ("/api/*/orders", "/api/orders", false),
        ];
        for (pattern, value, expected) in table {
            assert_eq!(Pattern::new(pattern).matches(value), expected, "{pattern} against {value:?}");
        }
    }
}

//! Comparison of short texts.

/// Returns whether two texts are equal. Keys and domains are short, and for short texts two overlapping loads
/// cost a third of a call of `memcmp`.
#[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
#[inline(always)]
pub(crate) fn same(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    match one.len() {
        length if length != two.len() => false,
        8..=16 => ends::<8>(one) == ends::<8>(two),
        4..=7 => ends::<4>(one) == ends::<4>(two),
        2..=3 => ends::<2>(one) == ends::<2>(two),
        _ => one == two,
    }
}

#[inline]
fn ends<const N: usize>(text: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((text.first_chunk()?, text.last_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn texts_are_the_same_only_if_every_byte_is() {
        for length in 0..40 {
            let text: String = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEF".chars().take(length).collect();
            assert!(same(&text, &text.clone()));
            assert!(!same(&text, &format!("{text}x")));
            for at in 0..length {
                let mut other = text.clone().into_bytes();
                other[at] = b'!';
                assert!(!same(&text, &String::from_utf8(other).unwrap()), "length {length}, byte {at}");
            }
        }
    }
}

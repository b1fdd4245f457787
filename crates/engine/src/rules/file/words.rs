//! Words for messages: what was found, what is allowed, what was probably meant.

/// Longer text is cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// Longer words are not typing mistakes, and comparing them takes its time.
const MAX_COMPARED_BYTES: usize = 64;

/// The text in quotes, on one line and not too long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// `a, b, c`, or the first of them.
pub fn list<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    const MAX_LISTED: usize = 30;
    let mut words = words.into_iter();
    let mut listed: Vec<_> = words.by_ref().take(MAX_LISTED).collect();
    if words.next().is_some() {
        listed.push("...");
    }
    listed.join(", ")
}

/// `; did you mean limits?` if one of `known` is close to `word`, else nothing.
pub fn did_you_mean<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest(word, known).map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

/// The word that takes the fewest changes, if they are few; else one that begins like it.
fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if word.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let written = word.to_lowercase();
    let rank = |known: &'w str| {
        let distance = strsim::osa_distance(&written, &known.to_lowercase());
        let shorter = known.len().min(written.len());
        let begins = shorter > 2 && (known.starts_with(&written) || written.starts_with(known));
        let near = distance <= (shorter / 3).max(1);
        (near || begins).then_some(((!near, distance), known))
    };
    let known = known.into_iter().filter(|known| known.len() <= MAX_COMPARED_BYTES);
    known.filter_map(rank).min_by_key(|(rank, _)| *rank).map(|(_, known)| known)
}

//! Parts of messages: what was found, what is allowed, what was probably meant.

/// The most characters of a text that messages show.
const MAX_SHOWN_CHARS: usize = 60;

/// The longest words that are compared. Longer ones are not typing mistakes, and comparing them is slow.
const MAX_COMPARED_BYTES: usize = 64;

/// Returns the text in quotes, on one line and truncated.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Returns the words joined as in `a, b, c`. Long lists are truncated.
pub fn list<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    const MAX_LISTED: usize = 30;
    let mut words = words.into_iter();
    let mut listed: Vec<_> = words.by_ref().take(MAX_LISTED).collect();
    if words.next().is_some() {
        listed.push("...");
    }
    listed.join(", ")
}

/// Returns `; did you mean limits?` if one of `known` is similar to `word`, else an empty text.
pub fn did_you_mean<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest(word, known).map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

/// Returns the known word with the smallest edit distance, if that is small; else one with a common prefix.
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

//! Batches: a list of requests in one body, and the list of their responses.

use crate::problem::Problem;
use http::StatusCode;
use serde::de::IgnoredAny;

/// Returns whether a body is a JSON list.
pub(super) fn is_list(message: &[u8]) -> bool {
    message.trim_ascii_start().first() == Some(&b'[')
}

/// Writes the list of responses. The error of a rejected element names its index.
pub(super) fn write_list<T>(
    answers: Vec<Result<T, Problem>>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512 * answers.len() + 2);
    out.push(b'[');
    for (index, answer) in answers.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match answer {
            Ok(answer) => write(answer, &mut out),
            Err(problem) => write_refused(&problem.at(&format!("[{index}]")), &mut out),
        }
    }
    out.push(b']');
    out
}

fn write_refused(problem: &Problem, out: &mut Vec<u8>) {
    write_status(problem.status(), out);
    out.extend_from_slice(b"},\"body\":");
    problem.write(out);
    out.push(b'}');
}

/// Writes the start of an element: its status, and its headers up to the first one.
pub(super) fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":");
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b",\"headers\":{");
}

/// Splits a list into its elements, which are parsed one by one: an error in one does not affect the others, as long
/// as the whole list is valid JSON.
pub(super) fn elements(list: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let broken = |at: usize| Problem::bad(format!("expected `,` or `]` at byte {at} of the list"));
    let mut elements = Vec::new();
    let mut at = skip_space(list, 0) + 1;
    if list.get(skip_space(list, at)) == Some(&b']') {
        return ended(list, skip_space(list, at) + 1).map(|()| elements);
    }
    loop {
        let mut values = serde_json::Deserializer::from_slice(&list[at..]).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(IgnoredAny)) => {}
            Some(Err(error)) => {
                return Err(Problem::from(error).at(&format!("[{}], from byte {at}", elements.len())));
            }
            None => return Err(Problem::bad(format!("the list ends at byte {}, without `]`", list.len()))),
        }
        let end = at + values.byte_offset();
        elements.push(&list[at..end]);
        let next = skip_space(list, end);
        at = next + 1;
        match list.get(next) {
            Some(b',') => {}
            Some(b']') => return ended(list, at).map(|()| elements),
            Some(_) => return Err(broken(next)),
            None => return Err(Problem::bad(format!("the list ends at byte {next}, without `]`"))),
        }
    }
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    from + text[from..].iter().take_while(|byte| space(byte)).count()
}

fn ended(list: &[u8], at: usize) -> Result<(), Problem> {
    match skip_space(list, at) {
        end if end == list.len() => Ok(()),
        more => Err(Problem::bad(format!("something follows the list at byte {more}"))),
    }
}

//! YAML as a tree in which every value and every key has its position.
//!
//! The tree is composed from the events of granit-parser, the parser that serde-saphyr uses. serde would
//! decide the type of a scalar before the field is known: `value: 1.0` would become a number and `yes` a
//! flag, although the field is text. Here a scalar keeps its text and whether it was unquoted, and the field
//! decides.
//!
//! Aliases share the value they refer to, but their expanded size counts against a limit, so that a file of a
//! few lines cannot become a billion values.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::problem::Place;

/// The most levels of lists and mappings, with aliases expanded. Rules are nested up to 32 deep, at two
/// levels each; the rest is for the contents of a rule.
const MAX_DEPTH: usize = 100;

/// The most values and keys, with aliases expanded. The largest valid rule file has fewer.
const MAX_NODES: usize = 1_000_000;

/// The most bytes of text, with aliases expanded.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// A value.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// Where the value begins; for an alias, the position of the alias.
    pub place: Place,
    /// The contents of the value.
    pub content: Content<'t>,
}

/// The contents of a value.
#[derive(Clone, Debug)]
pub enum Content<'t> {
    /// A scalar. If it is `plain`, it may be a number, a flag or null, depending on the field.
    Scalar {
        /// The text as it is written, without quotes.
        text: Cow<'t, str>,
        /// Whether the text was written without quotes.
        plain: bool,
    },
    /// The items in the order of the file.
    List(Rc<[Node<'t>]>),
    /// The entries in the order of the file, including repeated keys.
    Mapping(Rc<[Entry<'t>]>),
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub struct Entry<'t> {
    /// The key.
    pub key: Cow<'t, str>,
    /// The position of the key.
    pub place: Place,
    /// The value.
    pub value: Node<'t>,
}

/// The reason why a text is not a single YAML document. Only the first is reported, because what follows it
/// is not reliable.
#[derive(Debug)]
pub struct Fault {
    /// Where parsing stopped.
    pub place: Place,
    /// What is wrong, and a remedy.
    pub message: String,
}

impl Node<'_> {
    /// Returns whether the value is empty, `~` or `null`.
    pub fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar { text, plain } => {
                *plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }
}

/// Parses the only document of `text`. Returns `None` if there is none.
///
/// # Errors
/// Returns the first syntax error or exceeded limit.
pub fn parse(text: &str) -> Result<Option<Node<'_>>, Fault> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let events = Parser::new_from_str_with_options(text, options);
    let mut composer = Composer { events, anchors: HashMap::new(), size: Size::default() };
    let mut document = None;
    loop {
        match composer.next()? {
            (Event::DocumentStart(..), span) if document.is_some() => {
                let message =
                    "a second document begins here; write one document per file, or remove the `---`";
                return Err(Fault::at(span.start, message));
            }
            (Event::DocumentStart(..), _) => {
                let (event, span) = composer.next()?;
                document = Some(composer.node(event, span, 1)?.0);
            }
            (Event::StreamEnd, _) => return Ok(document),
            _ => {}
        }
    }
}

/// Returns the position of the character at a byte offset, for texts that are not parsed because they are not
/// UTF-8.
pub fn place_of(text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    Place { line: line as u64, column: column as u64 }
}

fn place(mark: Marker) -> Place {
    Place { line: mark.line() as u64, column: mark.col() as u64 + 1 }
}

impl Fault {
    fn at(mark: Marker, message: impl Into<String>) -> Self {
        Self { place: place(mark), message: message.into() }
    }
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        let message = match error.kind() {
            ErrorKind::RecursionLimitExceeded => too_deep(),
            ErrorKind::UnknownAnchor => {
                "the alias has no anchor; define its anchor (`&name`) above it, or quote the text".to_owned()
            }
            ErrorKind::MissingAnchorOrAliasName => {
                "`*` begins an alias and `&` an anchor; quote text that begins so, as in \"*\"".to_owned()
            }
            kind => format!("not valid YAML: {kind}"),
        };
        Self::at(*error.marker(), message)
    }
}

fn too_deep() -> String {
    format!("lists and mappings are nested too deep; at most {MAX_DEPTH} levels are allowed")
}

/// The size of a value, with aliases expanded.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text_bytes: usize,
}

/// A value that aliases can refer to. `height` is its number of levels, 0 for a scalar.
struct Anchored<'t> {
    node: Node<'t>,
    size: Size,
    height: usize,
}

struct Composer<'t> {
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Anchored<'t>>,
    /// The size of everything composed so far.
    size: Size,
}

impl<'t> Composer<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        // The parser ends with `StreamEnd`, after which this is not called again.
        self.events.next().unwrap_or_else(|| Ok((Event::StreamEnd, Span::default()))).map_err(Fault::from)
    }

    /// Composes the value that begins with `event` at `depth`. Returns it and its height.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<(Node<'t>, usize), Fault> {
        if let Event::Alias(anchor) = event {
            return self.alias(anchor, span, depth);
        }
        let before = self.size;
        self.grow(Size { nodes: 1, text_bytes: 0 }, span)?;
        let (anchor, content, height) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.grow(Size { nodes: 0, text_bytes: text.len() }, span)?;
                let plain = matches!(kind_of(tag.as_deref(), style, span)?, Kind::Plain);
                (anchor, Content::Scalar { text, plain }, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                kind_of(tag.as_deref(), ScalarStyle::Plain, span)?;
                let (items, height) = self.list(span, depth)?;
                (anchor, Content::List(items), height)
            }
            Event::MappingStart(_, anchor, tag) => {
                kind_of(tag.as_deref(), ScalarStyle::Plain, span)?;
                let (entries, height) = self.mapping(span, depth)?;
                (anchor, Content::Mapping(entries), height)
            }
            _ => return Err(Fault::at(span.start, "not valid YAML: expected a value")),
        };
        let node = Node { place: place(span.start), content };
        if anchor != 0 {
            let size = Size {
                nodes: self.size.nodes - before.nodes,
                text_bytes: self.size.text_bytes - before.text_bytes,
            };
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, height });
        }
        Ok((node, height))
    }

    fn alias(&mut self, anchor: usize, span: Span, depth: usize) -> Result<(Node<'t>, usize), Fault> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Fault::at(
                span.start,
                "the alias is inside the value it stands for; write the value out",
            ));
        };
        let (size, height, content) = (anchored.size, anchored.height, anchored.node.content.clone());
        if depth + height > MAX_DEPTH + 1 {
            return Err(Fault::at(span.start, too_deep()));
        }
        self.grow(size, span)?;
        Ok((Node { place: place(span.start), content }, height))
    }

    fn list(&mut self, span: Span, depth: usize) -> Result<(Rc<[Node<'t>]>, usize), Fault> {
        check_depth(depth, span)?;
        let (mut items, mut height) = (Vec::new(), 0);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok((items.into(), height + 1));
            }
            let (item, item_height) = self.node(event, span, depth + 1)?;
            height = height.max(item_height);
            items.push(item);
        }
    }

    fn mapping(&mut self, span: Span, depth: usize) -> Result<(Rc<[Entry<'t>]>, usize), Fault> {
        check_depth(depth, span)?;
        let (mut entries, mut merged, mut height) = (Vec::new(), None, 0);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let (key, _) = self.node(event, span, depth + 1)?;
            let Content::Scalar { text, plain } = key.content else {
                return Err(Fault::at(span.start, "a key must be text, not a list or a mapping"));
            };
            let (event, value_span) = self.next()?;
            let (value, value_height) = self.node(event, value_span, depth + 1)?;
            height = height.max(value_height);
            if !(plain && text == "<<") {
                entries.push(Entry { key: text, place: key.place, value });
            } else if merged.replace(value).is_some() {
                let message = "a second `<<`; give the first a list of what to merge: `<<: [*a, *b]`";
                return Err(Fault::at(span.start, message));
            }
        }
        if let Some(merged) = merged {
            merge(&mut entries, &merged)?;
        }
        Ok((entries.into(), height + 1))
    }

    fn grow(&mut self, by: Size, span: Span) -> Result<(), Fault> {
        self.size.nodes += by.nodes;
        self.size.text_bytes += by.text_bytes;
        let message = if self.size.nodes > MAX_NODES {
            format!(
                "the file holds more than {MAX_NODES} values, aliases expanded; use fewer aliases or split it"
            )
        } else if self.size.text_bytes > MAX_TEXT_BYTES {
            format!(
                "the file holds more than {MAX_TEXT_BYTES} bytes of text, aliases expanded; use fewer aliases or split it"
            )
        } else {
            return Ok(());
        };
        Err(Fault::at(span.start, message))
    }
}

fn check_depth(depth: usize, span: Span) -> Result<(), Fault> {
    if depth > MAX_DEPTH { Err(Fault::at(span.start, too_deep())) } else { Ok(()) }
}

/// Adds the entries of `<<` whose keys the mapping does not have itself. If several merged mappings have a
/// key, the first one wins.
fn merge<'t>(entries: &mut Vec<Entry<'t>>, merged: &Node<'t>) -> Result<(), Fault> {
    let mut known: HashSet<Cow<'t, str>> = entries.iter().map(|entry| entry.key.clone()).collect();
    let sources = match &merged.content {
        Content::List(sources) => sources.as_ref(),
        _ => std::slice::from_ref(merged),
    };
    for source in sources {
        let Content::Mapping(more) = &source.content else {
            let message = "`<<` merges mappings; give it the alias of a mapping, or a list of such aliases";
            return Err(Fault { place: source.place, message: message.to_owned() });
        };
        entries.extend(more.iter().filter(|entry| known.insert(entry.key.clone())).cloned());
    }
    Ok(())
}

enum Kind {
    Plain,
    Text,
}

/// Returns whether a scalar is plain or text. Only the tags of YAML itself are accepted; tags such as
/// `!include` would have no effect.
fn kind_of(tag: Option<&Tag>, style: ScalarStyle, span: Span) -> Result<Kind, Fault> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { Kind::Plain } else { Kind::Text });
    };
    match tag.core_suffix() {
        Some("str") => Ok(Kind::Text),
        Some(_) => Ok(Kind::Plain),
        None if tag.handle().is_empty() && tag.suffix() == "!" => Ok(Kind::Text),
        None => {
            let written: String =
                tag.original_handle().chars().chain(tag.suffix().chars()).take(40).collect();
            let place = span.tag_start().unwrap_or(span.start);
            Err(Fault::at(place, format!("the tag {written:?} means nothing here; remove it")))
        }
    }
}

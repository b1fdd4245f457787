//! A query with optional conditions. Its SQL text consists of constants of this crate; values are arguments.

use std::fmt::Write as _;

use super::connection::Arg;

pub(crate) struct Listing {
    sql: String,
    args: Vec<Arg>,
}

impl Listing {
    /// Creates a query from a statement that already has a `WHERE` clause.
    pub(crate) fn new(sql: String) -> Self {
        Self { sql, args: Vec::new() }
    }

    /// Adds a condition whose text ends where the argument follows, such as `name >=`.
    pub(crate) fn and(&mut self, condition: &str, arg: impl Into<Arg>) {
        self.push(&format!("AND {condition}"));
        self.arg(arg);
    }

    /// Appends SQL text.
    pub(crate) fn push(&mut self, text: &str) {
        self.sql.push(' ');
        self.sql += text;
    }

    /// Appends an argument.
    pub(crate) fn arg(&mut self, arg: impl Into<Arg>) {
        self.args.push(arg.into());
        write!(self.sql, " ${}", self.args.len()).expect("a string takes all");
    }

    /// Returns the statement and its arguments.
    pub(crate) fn done(self) -> (String, Vec<Arg>) {
        (self.sql, self.args)
    }
}

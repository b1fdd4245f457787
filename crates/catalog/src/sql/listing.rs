//! A question whose conditions depend on what is asked for. Only our own words get into its text.

use std::fmt::Write as _;

use super::connection::Arg;

pub(crate) struct Listing {
    sql: String,
    args: Vec<Arg>,
}

impl Listing {
    /// Begins with a statement that has a condition already.
    pub(crate) fn new(sql: String) -> Self {
        Self { sql, args: Vec::new() }
    }

    /// One more condition, which ends where the argument belongs: `name >=`.
    pub(crate) fn and(&mut self, condition: &str, arg: impl Into<Arg>) {
        self.push(&format!("AND {condition}"));
        self.arg(arg);
    }

    /// Words.
    pub(crate) fn push(&mut self, words: &str) {
        self.sql.push(' ');
        self.sql += words;
    }

    /// An argument.
    pub(crate) fn arg(&mut self, arg: impl Into<Arg>) {
        self.args.push(arg.into());
        write!(self.sql, " ${}", self.args.len()).expect("a string takes all");
    }

    pub(crate) fn done(self) -> (String, Vec<Arg>) {
        (self.sql, self.args)
    }
}

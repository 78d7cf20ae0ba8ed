//! The one error type: a sentence that says what failed, to what, and why.

use std::fmt;
use std::io;

/// What went wrong, as a sentence for people.
#[derive(Debug)]
pub struct Fault(String);

pub type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Fault(message.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds to an error what was being done when it came.
pub trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Fault(format!("{}: {error}", doing())))
    }
}

impl<T> Context<T> for Result<T, serde_json::Error> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Fault(format!("{}: {error}", doing())))
    }
}

impl<T> Context<T> for Outcome<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|Fault(inner)| Fault(format!("{}: {inner}", doing())))
    }
}

//! The only error type: a sentence for people, and a kind, on which the daemon's reaction depends.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sys;

/// The kind of failure. The daemon only evaluates this, never the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    InvalidRequest,
    AlreadyExists,
    NoSpace,
    NoLoopDevice,
    UnusableImage,
    /// A workspace was created with other privileges than the launcher has now.
    IncompatibleWorkspace,
    Internal,
}

/// A failure: its sentence and its kind.
#[derive(Debug)]
pub struct Fault {
    kind: Kind,
    message: String,
}

pub type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Fault::of(Kind::Internal, message)
    }

    pub fn of(kind: Kind, message: impl Into<String>) -> Self {
        Fault {
            kind,
            message: message.into(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The kind to assume if the cause does not determine one.
    pub fn or_kind(self, kind: Kind) -> Self {
        match self.kind {
            Kind::Internal => Fault { kind, ..self },
            _ => self,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Adds the launcher's failed action to an error.
pub trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| {
            let kind = match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT) => Kind::NoSpace,
                _ => Kind::Internal,
            };
            Fault::of(kind, format!("{}: {error}", doing()))
        })
    }
}

impl<T> Context<T> for Result<T, serde_json::Error> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Fault::new(format!("{}: {error}", doing())))
    }
}

impl<T> Context<T> for Outcome<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|Fault { kind, message }| Fault::of(kind, format!("{}: {message}", doing())))
    }
}

/// The kind of failure of another program that writes to `directory`: it only reports it in words,
/// so check the directory.
pub fn program_failure(directory: &Path) -> Kind {
    if sys::is_full(directory) {
        Kind::NoSpace
    } else {
        Kind::Internal
    }
}

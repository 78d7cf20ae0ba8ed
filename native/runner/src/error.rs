//! The failures that a request may end in, as the protocol names them.

use serde::Serialize;
use std::io;

#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

impl Failure {
    pub fn new(code: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new("invalid", message)
    }

    pub fn cancelled() -> Failure {
        Failure::new("cancelled", "the request was cancelled")
    }

    /// An I/O error, said of a path.
    pub fn io(what: &str, path: &str, error: &io::Error) -> Failure {
        Failure::new(code_of(error), format!("{what} {path}: {error}"))
    }
}

fn code_of(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => "not_found",
        libc::EEXIST | libc::ENOTEMPTY => "exists",
        libc::EISDIR => "is_directory",
        libc::ENOTDIR => "not_directory",
        libc::EACCES | libc::EPERM | libc::EROFS => "permission",
        libc::ENOSPC | libc::EDQUOT => "no_space",
        libc::EFBIG | libc::ENAMETOOLONG => "too_large",
        libc::ELOOP => "loop",
        libc::EBUSY | libc::ETXTBSY => "busy",
        libc::ECONNREFUSED => "refused",
        libc::EINVAL => "invalid",
        _ => "io",
    }
}

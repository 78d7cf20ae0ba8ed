//! The failures that a request can end with, as the protocol names them.

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

    /// An I/O error that concerns a path.
    pub fn io(what: &str, path: &str, error: &io::Error) -> Failure {
        Failure::new(
            code_of(error),
            format!("{what} {path}: {}", reason_of(error)),
        )
    }
}

/// The system's message for an error, without its number, which does not help users.
pub fn reason_of(error: &io::Error) -> String {
    let mut words = error.to_string();
    if let Some(at) = words.find(" (os error ") {
        words.truncate(at);
    }
    words
}

fn code_of(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT | libc::ESRCH | libc::ENODATA => "not_found",
        libc::EEXIST | libc::ENOTEMPTY => "exists",
        libc::EISDIR => "is_directory",
        libc::ENOTDIR => "not_directory",
        libc::EACCES | libc::EPERM | libc::EROFS => "permission",
        libc::ENOSPC | libc::EDQUOT => "no_space",
        libc::EFBIG | libc::ENAMETOOLONG | libc::E2BIG | libc::EOVERFLOW => "too_large",
        libc::ELOOP => "loop",
        libc::EBUSY | libc::ETXTBSY => "busy",
        libc::ECONNREFUSED => "refused",
        libc::EINVAL | libc::EXDEV | libc::EBADF | libc::EILSEQ | libc::ERANGE | libc::ENOEXEC => {
            "invalid"
        }
        // The entry cannot be opened or read as a file.
        libc::ENXIO | libc::ENODEV | libc::ENOTTY | libc::ESPIPE => "not_regular",
        // The sandbox has reached one of its limits.
        libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::EMLINK => "too_many",
        libc::EOPNOTSUPP | libc::ENOSYS => "unsupported",
        _ => "io",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_error_has_its_own_code() {
        let cases = [
            (libc::ENOENT, "not_found"),
            (libc::EXDEV, "invalid"),
            (libc::ENXIO, "not_regular"),
            (libc::ENODEV, "not_regular"),
            (libc::ESPIPE, "not_regular"),
            (libc::EMFILE, "too_many"),
            (libc::ENOMEM, "too_many"),
            (libc::E2BIG, "too_large"),
            (libc::EOPNOTSUPP, "unsupported"),
            (libc::EIO, "io"),
        ];
        for (errno, code) in cases {
            assert_eq!(code_of(&io::Error::from_raw_os_error(errno)), code);
        }
    }

    #[test]
    fn a_message_has_the_reason_and_no_number() {
        let failure = Failure::io("open", "/a", &io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(failure.message, "open /a: No such file or directory");
    }
}

//! Converts paths between requests, answers and the file system.

use super::open_plainly;
use crate::protocol::base64;
use crate::protocol::failure::Failure;
use crate::protocol::message::WirePath;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where relative paths begin.
pub struct Place(pub String);

impl Place {
    pub fn path(&self, path: &WirePath) -> Result<PathBuf, Failure> {
        let raw;
        let bytes = match path {
            WirePath::Text(text) => text.as_bytes(),
            WirePath::Raw { raw: encoded } => {
                raw = base64::decode(encoded)
                    .ok_or_else(|| Failure::invalid("a raw path is not base64"))?;
                &raw
            }
        };
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(Failure::invalid("the path is empty or contains a NUL byte"));
        }
        Ok(Path::new(&self.0).join(OsStr::from_bytes(bytes)))
    }
}

pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Refuses a path that ends in a slash for a new file: it names a directory.
pub fn require_file_name(what: &str, path: &Path) -> Result<(), Failure> {
    match named_directory(path) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotADirectory => {
            let message = format!("{} ends in a slash, so it cannot be a file", shown(path));
            Err(Failure::new("is_directory", message))
        }
        _ => require_directory_if_named(what, path),
    }
}

/// Refuses a path that ends in a slash if the existing entry is not a directory.
pub fn require_directory_if_named(what: &str, path: &Path) -> Result<(), Failure> {
    match named_directory(path) {
        Some(Err(error)) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(Failure::io(what, &shown(path), &error))
        }
        _ => Ok(()),
    }
}

/// `None` if the path does not end in a slash.
fn named_directory(path: &Path) -> Option<io::Result<OwnedFd>> {
    path.as_os_str()
        .as_bytes()
        .ends_with(b"/")
        .then(|| open_plainly(path, libc::O_PATH | libc::O_DIRECTORY, 0))
}

/// The exact bytes of a path, present only if `shown` cannot represent them.
pub fn raw(path: &Path) -> Option<String> {
    let bytes = path.as_os_str().as_bytes();
    std::str::from_utf8(bytes)
        .is_err()
        .then(|| base64::encode(bytes))
}

/// An answer that names a path, with further fields.
pub fn answer(path: &Path, further: Value) -> Value {
    let mut answer = further;
    answer["path"] = json!(shown(path));
    if let Some(raw) = raw(path) {
        answer["raw_path"] = json!(raw);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_paths_name_bytes_that_are_not_text() {
        let place = Place("/workspace".into());
        let raw_path = |raw: &str| WirePath::Raw { raw: raw.into() };
        let path = place.path(&raw_path("YS//Yg==")).unwrap();
        assert_eq!(path.as_os_str().as_bytes(), b"/workspace/a/\xffb");
        assert_eq!(
            answer(&path, json!({ "size": 1 })),
            json!({ "size": 1, "path": "/workspace/a/\u{fffd}b", "raw_path": base64::encode(b"/workspace/a/\xffb") })
        );
        for refused in ["", "AA==", "a", "no base64"] {
            assert!(place.path(&raw_path(refused)).is_err(), "{refused}");
        }
        for refused in ["", "a\0b"] {
            assert!(place.path(&WirePath::Text(refused.into())).is_err());
        }
    }
}

//! The user that a process runs as, by an id of the sandbox or a name from the sandbox's own files.

use crate::protocol::failure::Failure;
use crate::sys;
use std::fs;
use std::io::Read;

/// The files belong to the image, or to code that is root: at most this much of them is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A user of the sandbox.
#[derive(Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Unknown for an id that /etc/passwd does not have.
    name: Option<String>,
    home: Option<String>,
}

impl User {
    /// Replaces the variables that name the user `before` by this user's, except those that a
    /// session has changed.
    pub fn name_in(&self, env: &mut Vec<(String, String)>, before: u32) {
        let Ok(before) = resolve(&before.to_string()) else {
            return;
        };
        for ((name, old), (_, new)) in before.variables().into_iter().zip(self.variables()) {
            let found = env.iter().find(|(existing, _)| existing == name);
            if found.is_some_and(|(_, value)| old != Some(value)) {
                continue;
            }
            env.retain(|(existing, _)| existing != name);
            env.extend(new.map(|value| (name.to_string(), value.to_string())));
        }
    }

    /// Without a value, the variable is not set.
    fn variables(&self) -> [(&'static str, Option<&str>); 3] {
        let name = self.name.as_deref();
        let home = self.home.as_deref().unwrap_or("/");
        [("HOME", Some(home)), ("USER", name), ("LOGNAME", name)]
    }
}

/// Resolves `user` or `user:group`, each an id or a name. Without a group it is the user's own
/// in /etc/passwd, else the one with the user's id.
///
/// SECURITY: an id outside the sandbox's map is refused here. 4294967295 means "as before" to the
/// kernel and would leave the process root (threat: gaining privileges). Guarded by "user" in
/// tests/e2e/shell.test.ts.
pub fn resolve(user: &str) -> Result<User, Failure> {
    let (user, group) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (user, None),
    };
    let passwd = read("/etc/passwd");
    let (key, id) = match user.parse::<u32>() {
        Ok(uid) => (2, Some(uid)),
        Err(_) => (0, None),
    };
    let (uid, own_group) = match id {
        Some(uid) => (uid, number_of(&passwd, key, user, 3).unwrap_or(uid)),
        None => (number_of(&passwd, key, user, 2))
            .zip(number_of(&passwd, key, user, 3))
            .ok_or_else(|| unknown("user", user))?,
    };
    let gid = match group {
        None => own_group,
        Some(group) => match group.parse::<u32>() {
            Ok(gid) => gid,
            Err(_) => number_of(&read("/etc/group"), 0, group, 2)
                .ok_or_else(|| unknown("group", group))?,
        },
    };
    for (kind, map, id) in [
        ("user", "/proc/self/uid_map", uid),
        ("group", "/proc/self/gid_map", gid),
    ] {
        if !is_mapped(map, id) {
            let message = format!("the sandbox has no {kind} {id}; use an id from 0 to 65535");
            return Err(Failure::invalid(message));
        }
    }
    let text = |field| field_of(&passwd, key, user, field).map(str::to_string);
    Ok(User {
        uid,
        gid,
        name: text(0),
        home: text(5).filter(|home| home.starts_with('/')),
    })
}

/// Whether the user namespace has this id: each line of the map is first, outside, count.
pub fn is_mapped(map: &str, id: u32) -> bool {
    let text = fs::read_to_string(map).unwrap_or_default();
    id != u32::MAX && text.lines().any(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(id)))
    })
}

fn unknown(kind: &str, name: &str) -> Failure {
    Failure::invalid(format!("the sandbox has no {kind} named {name}"))
}

/// Reads only the beginning, and only of a regular file: code may have put anything there.
fn read(path: &str) -> String {
    let mut bytes = Vec::new();
    let opened = sys::c_string(path)
        .and_then(|path| sys::open(&path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0));
    if let Ok(fd) = opened {
        let file = fs::File::from(fd);
        if file.metadata().is_ok_and(|data| data.is_file()) {
            let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The field `wanted` of the line whose field `key` has this value.
fn field_of<'a>(text: &'a str, key: usize, value: &str, wanted: usize) -> Option<&'a str> {
    text.lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(key) == Some(&value))
        .and_then(|fields| fields.get(wanted).copied())
}

fn number_of(text: &str, key: usize, value: &str, wanted: usize) -> Option<u32> {
    field_of(text, key, value, wanted)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{is_mapped, number_of};

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:100::/home:/bin/sh\nbad:x:y:z\n";

    #[test]
    fn names_and_ids_are_looked_up() {
        assert_eq!(number_of(PASSWD, 0, "sandbox", 2), Some(1000));
        assert_eq!(number_of(PASSWD, 2, "1000", 3), Some(100));
        assert_eq!(number_of(PASSWD, 0, "bad", 2), None);
        assert_eq!(number_of(PASSWD, 0, "nobody", 2), None);
    }

    #[test]
    fn the_id_that_means_no_change_is_never_mapped() {
        assert!(is_mapped("/proc/self/uid_map", 0));
        assert!(!is_mapped("/proc/self/uid_map", u32::MAX));
    }
}

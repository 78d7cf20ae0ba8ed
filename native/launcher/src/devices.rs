//! Rules of the version 1 devices controller: which device numbers a sandbox may open.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::fault::{Context, Fault, Outcome};
use crate::spec::RuntimeKind;
use crate::sys;

/// null, zero, full, random, urandom, tty, ptmx and the terminals created from it.
const ALLOWED: [&str; 8] = [
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
];

/// runc insists on giving its own cgroup these, which requires that ours has them at that moment.
const ASKED_BY_RUNC: [&str; 3] = ["c *:* m", "b *:* m", "c 10:200 rwm"];

/// SECURITY: a second layer behind mounts without devices: even a node that appeared inside could
/// not be opened (threat: device access; guarded by `limits_are_read_back`).
pub fn restrict(path: &Path, runtime: RuntimeKind) -> Outcome<()> {
    write(path, "devices.deny", &["a"])?;
    let mut wanted = ALLOWED.to_vec();
    if runtime == RuntimeKind::Runc {
        wanted.extend(ASKED_BY_RUNC);
    }
    write(path, "devices.allow", &wanted)?;
    verify(path, &wanted)
}

/// Removes the rules that only the start of runc needed, also from the cgroups below. The cgroup is
/// passed as a descriptor, because its path is hidden in this namespace by then.
pub fn restrict_after_start(cgroup: &File, runtime: RuntimeKind) -> Outcome<()> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", cgroup.as_raw_fd()));
    if runtime == RuntimeKind::Runc {
        write(&path, "devices.deny", &ASKED_BY_RUNC)?;
    }
    verify(&path, &ALLOWED)
}

/// The kernel accepts one rule per write.
fn write(path: &Path, file: &str, rules: &[&str]) -> Outcome<()> {
    let path = path.join(file);
    let opened = OpenOptions::new().write(true).open(&path);
    let file = opened.context(|| format!("opening {}", path.display()))?;
    rules.iter().try_for_each(|rule| {
        sys::write_once(file.as_raw_fd(), rule.as_bytes())
            .context(|| format!("writing {rule:?} to {}", path.display()))
    })
}

fn verify(path: &Path, wanted: &[&str]) -> Outcome<()> {
    let file = path.join("devices.list");
    let text = fs::read_to_string(&file).context(|| format!("reading {}", file.display()))?;
    let found: BTreeSet<&str> = text.lines().map(str::trim).collect();
    if found == wanted.iter().copied().collect() {
        return Ok(());
    }
    Err(Fault::new(format!(
        "{} reads {found:?} instead of {wanted:?}",
        file.display()
    )))
}

//! Without root: a user namespace in which the rest of the work can be done.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::fault::{Context, Fault, Outcome};
use crate::ids::IdRange;
use crate::sys::{self, Forked};
use crate::{cgroup_cover, mounts};

/// Ids 1 to 65,535 of the sandbox.
const SUBORDINATE_IDS: u32 = 65_535;

/// The ids in the user namespace that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The caller is root, and a range granted by the administrator maps the others.
    Full,
    /// The caller is root and no other id exists.
    Single,
}

impl Identity {
    pub fn is_single(self) -> bool {
        self == Identity::Single
    }

    /// The ids of the sandbox as ids of the user namespace that was entered.
    ///
    /// SECURITY: the runtime creates a second user namespace inside ours, with the same ids. The sandbox's
    /// root then has no power over our mounts, and the flags that restrict them are locked; in ours the
    /// runtime itself drops them (guarded by `without_root_missing_guarantees_are_reported`).
    pub fn range(self) -> IdRange {
        IdRange {
            base: 0,
            size: if self.is_single() {
                1
            } else {
                SUBORDINATE_IDS + 1
            },
        }
    }

    /// The guarantees that require root and are missing here.
    pub fn not_enforced(self) -> impl Iterator<Item = &'static str> {
        let code_user = (self == Identity::Single).then_some("code_user");
        std::iter::once("unique_ids").chain(code_user)
    }
}

/// The host ids that may be mapped to 1… , from `/etc/subuid` and `/etc/subgid`.
pub struct Granted {
    uid_base: u32,
    gid_base: u32,
    newuidmap: PathBuf,
    newgidmap: PathBuf,
}

/// The range that the administrator granted this user, if it is large enough and its tools are
/// installed.
pub fn granted() -> Option<Granted> {
    let uid = sys::geteuid();
    let user = user_name(uid);
    Some(Granted {
        uid_base: granted_base("/etc/subuid", uid, user.as_deref())?,
        gid_base: granted_base("/etc/subgid", uid, user.as_deref())?,
        newuidmap: find_tool("newuidmap")?,
        newgidmap: find_tool("newgidmap")?,
    })
}

fn user_name(uid: u32) -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

fn granted_base(file: &str, uid: u32, user: Option<&str>) -> Option<u32> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let owner = fields.next()?;
        let base: u32 = fields.next()?.parse().ok()?;
        let count: u32 = fields.next()?.parse().ok()?;
        let ours = Some(owner) == user || owner.parse() == Ok(uid);
        (ours && count >= SUBORDINATE_IDS).then_some(base)
    })
}

fn find_tool(name: &str) -> Option<PathBuf> {
    let found =
        ["/usr/bin", "/bin", "/usr/local/bin"].map(|directory| PathBuf::from(directory).join(name));
    found.into_iter().find(|path| path.is_file())
}

/// Creates a user namespace and enters it for good; in it the caller is root.
pub fn enter() -> Outcome<Identity> {
    match granted() {
        Some(granted) => enter_with_range(&granted).map(|()| Identity::Full),
        None => enter_alone().map(|()| Identity::Single),
    }
}

fn unshare_user() -> Outcome<()> {
    sys::unshare(libc::CLONE_NEWUSER).context(|| {
        "creating a user namespace without root (is kernel.unprivileged_userns_clone or user.max_user_namespaces 0?)"
            .into()
    })
}

fn enter_alone() -> Outcome<()> {
    let (uid, gid) = (sys::geteuid(), sys::getegid());
    unshare_user()?;
    // Without privileges, the kernel accepts a group map only after this.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ];
    for (file, text) in maps {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).context(|| format!("writing {path}"))?;
    }
    Ok(())
}

/// A range can only be mapped from outside, by privileged tools: a child stays there for that.
fn enter_with_range(granted: &Granted) -> Outcome<()> {
    let (uid, gid) = (sys::geteuid(), sys::getegid());
    let pid = std::process::id();
    let (mut ours, mut theirs) = UnixStream::pair().context(|| "creating a socket pair".into())?;
    // SAFETY: the launcher has one thread; the child runs two programs and ends.
    let child = match unsafe { sys::fork(0) }.context(|| "forking".into())? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(ours);
            let mapped = theirs.read_exact(&mut [0]).is_ok()
                && run_map_tool(&granted.newuidmap, pid, uid, granted.uid_base)
                && run_map_tool(&granted.newgidmap, pid, gid, granted.gid_base);
            std::process::exit(i32::from(!mapped));
        }
    };
    drop(theirs);
    let entered = unshare_user();
    if entered.is_ok() {
        ours.write_all(&[1])
            .context(|| "telling the child to map ids".into())?;
    }
    drop(ours);
    let status = sys::wait_child(child).context(|| "waiting for newuidmap and newgidmap".into())?;
    entered?;
    if status.success() {
        return Ok(());
    }
    Err(Fault::new(
        "newuidmap or newgidmap refused the ranges of /etc/subuid and /etc/subgid",
    ))
}

fn run_map_tool(tool: &PathBuf, pid: u32, own: u32, base: u32) -> bool {
    let numbers = [pid, 0, own, 1, 1, base, SUBORDINATE_IDS];
    Command::new(tool)
        .args(numbers.map(|number| number.to_string()))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Removes our covers from the host's directories, if any: a user namespace cannot return to its
/// original mount namespace.
pub fn uncover() {
    for uncovered in [cgroup_cover::unhide(), mounts::leave_scratch()] {
        // Refused only if there was no cover of ours.
        drop(uncovered);
    }
}

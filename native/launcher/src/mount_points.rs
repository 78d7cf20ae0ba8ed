//! Checks, before the runtime runs, that no mount point leads elsewhere through a link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fault::{Fault, Outcome};
use crate::mounts;
use crate::spec::check_path;
use crate::sys;

/// One mount of the configuration, with its source filled in.
struct Planned {
    destination: PathBuf,
    kind: String,
    source: PathBuf,
}

impl Planned {
    fn is_bind(&self) -> bool {
        self.kind == "bind"
    }
}

/// SECURITY: an image whose `/dev`, `/proc` or `/workspace` is a link would make the runtime mount
/// or write somewhere else, on the host at worst. Every destination must be a real directory (or
/// file) that is not behind a link (threat: linked mount points; guarded by
/// `linked_mount_points_are_refused`).
pub fn verify(root: BorrowedFd<'_>, config: &serde_json::Map<String, Value>) -> Outcome<()> {
    let mut earlier: Vec<Planned> = Vec::new();
    for mount in config
        .get("mounts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let planned = read_planned(mount)?;
        verify_destination(root, &earlier, &planned)?;
        earlier.push(planned);
    }
    let cwd = config
        .get("process")
        .and_then(|process| process.get("cwd"))
        .and_then(Value::as_str);
    verify_cwd(root, &earlier, Path::new(cwd.unwrap_or("/")))
}

fn read_planned(mount: &Value) -> Outcome<Planned> {
    let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
    let destination = PathBuf::from(text("destination"));
    check_path("the mount destination", &destination)?;
    let bound = mount
        .get("options")
        .and_then(Value::as_array)
        .is_some_and(|options| {
            options
                .iter()
                .any(|option| option == "bind" || option == "rbind")
        });
    let kind = if bound { "bind" } else { text("type") };
    Ok(Planned {
        destination,
        kind: kind.to_owned(),
        source: PathBuf::from(text("source")),
    })
}

/// The latest of the earlier mounts that contains `path`, with the path below it.
fn covering<'a>(earlier: &'a [Planned], path: &'a Path) -> Option<(&'a Planned, &'a Path)> {
    earlier.iter().rev().find_map(|mount| {
        path.strip_prefix(&mount.destination)
            .ok()
            .map(|rest| (mount, rest))
    })
}

fn verify_destination(root: BorrowedFd<'_>, earlier: &[Planned], planned: &Planned) -> Outcome<()> {
    let destination = &planned.destination;
    let wants_file = planned.is_bind() && planned.source.is_file();
    let found = match covering(earlier, destination) {
        None => kind_in_root(root, destination),
        Some((mount, rest)) if mount.is_bind() => kind_below(&mount.source, rest),
        // A filesystem that the runtime newly mounts contains nothing from an image.
        Some(_) => return Ok(()),
    };
    match found {
        Ok(libc::S_IFDIR) if !wants_file => Ok(()),
        Ok(libc::S_IFREG) if wants_file => Ok(()),
        other => Err(refusal("mount point", destination, wants_file, &other)),
    }
}

/// The working directory is entered after all mounts; it must be a place that cannot contain a link
/// or lead elsewhere (as `/proc/self/fd/7` does).
fn verify_cwd(root: BorrowedFd<'_>, mounts: &[Planned], cwd: &Path) -> Outcome<()> {
    check_path("the working directory", cwd)?;
    let found = match covering(mounts, cwd) {
        None => kind_in_root(root, cwd),
        Some((mount, rest)) if mount.is_bind() => kind_below(&mount.source, rest),
        Some((mount, rest)) if mount.kind == "tmpfs" && rest.as_os_str().is_empty() => {
            Ok(libc::S_IFDIR)
        }
        Some((mount, _)) => {
            return Err(Fault::new(format!(
                "the working directory {} is on the {} at {}, which is not allowed",
                cwd.display(),
                mount.kind,
                mount.destination.display()
            )));
        }
    };
    match found {
        Ok(libc::S_IFDIR) => Ok(()),
        other => Err(refusal("working directory", cwd, false, &other)),
    }
}

fn kind_in_root(root: BorrowedFd<'_>, path: &Path) -> io::Result<u32> {
    let found = mounts::open_in_root(root, path, libc::O_PATH)?;
    Ok(sys::fstat(found.as_fd())?.st_mode & libc::S_IFMT)
}

fn kind_below(source: &Path, rest: &Path) -> io::Result<u32> {
    let root = std::fs::File::open(source)?;
    if rest.as_os_str().is_empty() {
        return Ok(sys::fstat(root.as_fd())?.st_mode & libc::S_IFMT);
    }
    kind_in_root(root.as_fd(), rest)
}

fn refusal(what: &str, path: &Path, wants_file: bool, found: &io::Result<u32>) -> Fault {
    let wanted = if wants_file { "file" } else { "directory" };
    let reason = match found {
        Ok(libc::S_IFLNK) => "it is a symbolic link".to_owned(),
        Ok(_) => "it has another file type".to_owned(),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            "its path contains a symbolic link".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Fault::new(format!(
        "the {what} {} is not a real {wanted} in the image: {reason}",
        path.display()
    ))
}

//! Destroys a sandbox, complete or partial, in an order that can be resumed after a kill at any
//! instant.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fault::{Context, Fault, Outcome};
use crate::hierarchy::Hierarchies;
use crate::record::{self, Record};
use crate::remove::remove_tree;
use crate::spec::{DestroyRequest, Runtime};
use crate::{ids, loops, process, rootless, runtime, sys};

/// A create holds its lock for little longer than its runtime's deadline; a destroy holds it until
/// every process that it kills is dead.
const LOCK_WAIT: Duration = Duration::from_secs(90);
/// The last process only ends after releasing the disks and writing cached file data, up to the
/// sandbox's memory, to the host's disk.
const DEATH_WAIT: Duration = Duration::from_secs(60);
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Processes that `cgroup.kill` has not ended by then are killed one by one.
const PATIENCE: Duration = Duration::from_millis(50);

/// Destroys a sandbox after any create or destroy of it that is in progress.
pub fn destroy(request: &DestroyRequest) -> Outcome<()> {
    request.check()?;
    let _lock = lock(&request.state_dir)?;
    destroy_locked(request)
}

fn lock(state_dir: &Path) -> Outcome<Option<File>> {
    let directory = match File::open(state_dir) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context(|| format!("opening {}", state_dir.display())),
    };
    let deadline = Instant::now() + LOCK_WAIT;
    while !sys::try_lock(directory.as_fd())
        .context(|| format!("locking {}", state_dir.display()))?
    {
        if Instant::now() > deadline {
            return Err(Fault::new(format!(
                "{} is in use by another launcher",
                state_dir.display()
            )));
        }
        sleep(Duration::from_millis(2));
    }
    Ok(Some(directory))
}

/// Like `destroy`, for a caller that holds the lock. The state directory is removed last: while it
/// exists, a sweep knows that something may be left.
pub fn destroy_locked(request: &DestroyRequest) -> Outcome<()> {
    let record = record::read_record(&request.state_dir);
    // The record and the intent name the runtime that was used. Either can be missing or damaged.
    let known_runtime = record
        .as_ref()
        .map(|record| record.runtime.clone())
        .or_else(|| record::read_intent(&request.state_dir).map(|intent| intent.runtime))
        .or_else(|| request.runtime.clone());
    let hierarchies = Hierarchies::discover()?;
    let cgroups: Vec<PathBuf> = hierarchies
        .paths(&request.cgroup_parent, &request.id)
        .map(|(_, path)| path)
        .filter(|path| path.exists())
        .collect();
    let first = first_process(record.as_ref(), known_runtime.as_ref(), &request.id);
    end_processes(&cgroups, first)?;
    for cgroup in &cgroups {
        remove_cgroup(cgroup)?;
    }
    for hierarchy in &hierarchies.0 {
        remove_if_empty(&hierarchy.root.join(&request.cgroup_parent))?;
    }
    if let Some(runtime) = &known_runtime {
        remove_runtime_state(runtime, &request.id)?;
    }
    let loop_device = record
        .as_ref()
        .and_then(|record| record.loop_device.as_deref());
    release_loops(&request.state_dir.join("disk.img"), loop_device)?;
    ids::release(
        &request.ids_dir,
        &request.id,
        &request.state_dir,
        record.map(|record| record.base),
    )?;
    if sys::geteuid() != 0 && request.state_dir.exists() {
        // Only a process with the sandbox's other ids can remove their files.
        rootless::enter()?;
    }
    remove_tree(&request.state_dir)
}

/// All cgroups below and including `path`, deepest first.
fn subtree(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while let Some(at) = found.get(next).cloned() {
        next += 1;
        // A cgroup that disappears meanwhile has nothing below it.
        let Ok(listing) = fs::read_dir(at) else {
            continue;
        };
        found.extend(
            listing
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found.reverse();
    found
}

fn listed_processes(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    // 0 represents a process of another pid namespace, which we cannot name.
    text.lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| *pid > 0)
        .collect()
}

fn end_processes(cgroups: &[PathBuf], first: Option<(i32, u64)>) -> Outcome<()> {
    let started = Instant::now();
    let killed = match first {
        Some((pid, start_time)) => process::kill_exactly(pid, start_time)?,
        None => None,
    };
    kill_and_thaw(cgroups);
    if let Some(killed) = killed {
        // All others in its pid namespace die before it.
        sys::wait_readable(killed.as_fd(), PATIENCE.as_millis() as i32)
            .context(|| "waiting for the sandbox's first process".into())?;
    }
    let mut pause = Duration::from_micros(500);
    loop {
        let mut living: Vec<i32> = cgroups
            .iter()
            .flat_map(|path| subtree(path))
            .flat_map(|path| listed_processes(&path))
            .collect();
        living.extend(
            first
                .filter(|(pid, start_time)| process::is_alive(*pid, *start_time))
                .map(|(pid, _)| pid),
        );
        if living.is_empty() {
            return Ok(());
        }
        if started.elapsed() > DEATH_WAIT {
            return Err(Fault::new(format!(
                "{} processes of the sandbox are still running {} s after they were killed, {} among them",
                living.len(),
                DEATH_WAIT.as_secs(),
                living[0]
            )));
        }
        if started.elapsed() > PATIENCE {
            for pid in living {
                process::kill_listed(pid)?;
            }
            kill_and_thaw(cgroups);
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The sandbox's first process, if its start time is known; a pid alone may be reused.
fn first_process(
    record: Option<&Record>,
    runtime: Option<&Runtime>,
    id: &str,
) -> Option<(i32, u64)> {
    match record {
        Some(record) => Some((record.pid, record.start_time)),
        None => runtime::noted_process(runtime?, id),
    }
}

/// Kills before thawing, so frozen processes do not run again. Files that a hierarchy lacks
/// (`cgroup.kill` on version 1, `freezer.state` on the others) are skipped.
fn kill_and_thaw(cgroups: &[PathBuf]) {
    let write = |path: &Path, file: &str, value: &str| {
        let path = path.join(file);
        // The list of processes, checked next, shows whether it worked.
        path.exists().then(|| fs::write(path, value).ok())
    };
    for cgroup in cgroups {
        write(cgroup, "cgroup.kill", "1");
    }
    for cgroup in cgroups
        .iter()
        .filter(|path| path.join("freezer.state").exists())
    {
        for path in subtree(cgroup) {
            for pid in listed_processes(&path) {
                process::kill_listed(pid).ok();
            }
            write(&path, "freezer.state", "THAWED");
        }
    }
}

fn remove_cgroup(path: &Path) -> Outcome<()> {
    let deadline = Instant::now() + BUSY_WAIT;
    loop {
        let failed = subtree(path)
            .into_iter()
            .find_map(|at| match fs::remove_dir(&at) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Some((at, error)),
                _ => None,
            });
        match failed {
            None => return Ok(()),
            // The cgroup of an ended process may remain busy for a moment.
            Some((_, error))
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                sleep(Duration::from_millis(1));
            }
            Some((at, error)) => {
                return Err(error).context(|| format!("removing the cgroup {}", at.display()));
            }
        }
    }
}

/// Removes the parent with its last sandbox. What is above it may belong to others.
fn remove_if_empty(parent: &Path) -> Outcome<()> {
    match fs::remove_dir(parent) {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTEMPTY | libc::EBUSY)
            ) =>
        {
            Ok(())
        }
        // Without root, a cgroup that we may not remove was not created by us.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EACCES | libc::EPERM | libc::EROFS)
            ) && sys::geteuid() != 0 =>
        {
            Ok(())
        }
        other => other.context(|| format!("removing the cgroup {}", parent.display())),
    }
}

/// Its processes are dead and we manage its cgroups, so a runtime's state is only files now.
fn remove_runtime_state(runtime: &Runtime, id: &str) -> Outcome<()> {
    runtime::state_paths(runtime, id)?
        .iter()
        .try_for_each(|path| remove_tree(path))
}

/// The kernel releases a loop device when its last mount ends; a device that is held longer is
/// cleared explicitly. `noted`, if known, avoids a search.
fn release_loops(image: &Path, noted: Option<&Path>) -> Outcome<()> {
    if !image.exists() {
        return Ok(());
    }
    let deadline = Instant::now() + BUSY_WAIT;
    let mut pause = Duration::from_micros(200);
    loop {
        let devices = match noted {
            Some(device) if loops::is_backed_by(device, image) => vec![device.to_owned()],
            Some(_) => Vec::new(),
            None => loops::loops_of(image)?,
        };
        if devices.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return devices
                .iter()
                .try_for_each(|device| loops::detach_loop(device));
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

//! Limits of memory, processes and cpu: written to a cgroup and read back.

use std::fs;
use std::path::Path;

use crate::fault::{Context, Fault, Outcome};
use crate::hierarchy::Hierarchy;
use crate::spec::Limits;
use crate::sys;

const CPU_PERIOD_US: u64 = 100_000;

/// Writes the limits that a version 1 hierarchy has controllers for.
pub fn write_v1(hierarchy: &Hierarchy, path: &Path, limits: Limits) -> Outcome<()> {
    if hierarchy.has("memory") {
        write_v1_memory(path, limits.memory_bytes)?;
    }
    if hierarchy.has("pids") {
        set(path, "pids.max", &limits.pids.to_string())?;
    }
    if hierarchy.has("cpu") {
        set(path, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
        set(path, "cpu.cfs_quota_us", &quota(limits).to_string())?;
    }
    Ok(())
}

fn write_v1_memory(path: &Path, bytes: u64) -> Outcome<()> {
    set_rounded(path, "memory.limit_in_bytes", bytes)?;
    // SECURITY: memory plus swap gets the same limit as memory: swapping cannot bypass the limit
    // (threat: exhausting memory).
    if path.join("memory.memsw.limit_in_bytes").exists() {
        set_rounded(path, "memory.memsw.limit_in_bytes", bytes)?;
    }
    if path.join("memory.swappiness").exists() {
        set(path, "memory.swappiness", "0")?;
    }
    Ok(())
}

pub fn write_v2(path: &Path, limits: Limits) -> Outcome<()> {
    set_rounded(path, "memory.max", limits.memory_bytes)?;
    if path.join("memory.swap.max").exists() {
        set(path, "memory.swap.max", "0")?;
    }
    // The kernel kills only the offending process, not the whole cgroup with the runner.
    set(path, "memory.oom.group", "0")?;
    set(path, "pids.max", &limits.pids.to_string())?;
    set(
        path,
        "cpu.max",
        &format!("{} {CPU_PERIOD_US}", quota(limits)),
    )
}

fn quota(limits: Limits) -> u64 {
    limits.cpu_millicores * CPU_PERIOD_US / 1000
}

/// Writes a limit and reads it back: one that the kernel did not accept is not a limit.
pub fn set(path: &Path, file: &str, value: &str) -> Outcome<()> {
    let found = write_and_read(path, file, value)?;
    if found == value {
        return Ok(());
    }
    Err(differs(path, file, value, &found))
}

/// Like `set`, for sizes that the kernel rounds down to whole pages.
fn set_rounded(path: &Path, file: &str, bytes: u64) -> Outcome<()> {
    let found = write_and_read(path, file, &bytes.to_string())?;
    match found.parse::<u64>() {
        Ok(actual) if actual <= bytes && bytes - actual < sys::page_size() => Ok(()),
        _ => Err(differs(path, file, &bytes.to_string(), &found)),
    }
}

fn write_and_read(path: &Path, file: &str, value: &str) -> Outcome<String> {
    let file = path.join(file);
    fs::write(&file, value).context(|| format!("writing {value} to {}", file.display()))?;
    let found = fs::read_to_string(&file).context(|| format!("reading back {}", file.display()))?;
    Ok(found.trim().to_owned())
}

fn differs(path: &Path, file: &str, wanted: &str, found: &str) -> Fault {
    Fault::new(format!(
        "{} was set to {wanted}, but reads {found}",
        path.join(file).display()
    ))
}

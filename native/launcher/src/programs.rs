//! Finds programs of the host.

use std::path::PathBuf;

/// The PATH of everything that the launcher starts.
pub const STANDARD_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The first program of this name in the PATH of the launcher or in the standard one.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(std::env::split_paths(STANDARD_PATH))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

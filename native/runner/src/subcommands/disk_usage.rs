//! Measures the disk space that the files below some directories use.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Counts blocks, without holes and with hard links once, until the time limit. Directories that
/// this process may not read are not counted.
pub fn measure(roots: &[String], limit: Duration) -> u64 {
    let begun = Instant::now();
    let mut linked = HashSet::new();
    let mut bytes = 0;
    for root in roots {
        let Ok(top) = fs::symlink_metadata(root) else {
            continue;
        };
        let mut waiting = vec![PathBuf::from(root)];
        while let Some(directory) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                if begun.elapsed() > limit {
                    return bytes;
                }
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                if found.dev() != top.dev() {
                    continue;
                }
                if found.is_dir() {
                    waiting.push(entry.path());
                } else if found.nlink() > 1 && !linked.insert((found.dev(), found.ino())) {
                    continue;
                }
                bytes += found.blocks() * 512;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::measure;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn counts_files_of_all_depths_once() {
        let root = std::env::temp_dir().join(format!("disk-usage-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), vec![1u8; 1 << 20]).unwrap();
        fs::hard_link(root.join("a/b/file"), root.join("again")).unwrap();
        let sparse = fs::File::create(root.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let name = root.to_str().unwrap().to_string();
        let found = measure(&[name.clone(), "/no/such/place".into()], Duration::MAX);
        let none = measure(&[name], Duration::ZERO);
        fs::remove_dir_all(&root).unwrap();
        assert!((1 << 20..1 << 21).contains(&found), "{found}");
        assert_eq!(none, 0);
    }
}

//! Disks of sandboxes and workspaces: sparse ext4 images, copied from a template.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::fault::{Context, Fault, Outcome, program_failure};
use crate::ids;
use crate::programs::{self, STANDARD_PATH};
use crate::spec::Disk;
use crate::sys;

/// The purpose of a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Deleted with its sandbox.
    Sandbox,
    /// Kept after all sandboxes that used it are gone.
    Workspace,
}

impl Purpose {
    /// The initial directories: name, mode and owner inside the sandbox.
    fn directories(self) -> &'static [(&'static str, u32, u32)] {
        match self {
            Purpose::Sandbox => &[
                ("workspace", 0o755, 1000),
                ("home", 0o750, 1000),
                ("upper", 0o755, 0),
                ("work", 0o700, 0),
                ("tmp", 0o1777, 0),
            ],
            // Not the root of the disk, where e2fsprogs creates a directory.
            Purpose::Workspace => &[("workspace", 0o755, 1000)],
        }
    }

    /// The prefix of a template's name.
    fn template_prefix(self) -> &'static str {
        match self {
            Purpose::Sandbox => "ext4",
            Purpose::Workspace => "ext4-workspace",
        }
    }

    /// The mkfs.ext4 options for the kind of disk. No backup superblocks: fewer bytes to copy. A
    /// disk that is deleted with its sandbox needs no journal; a persistent one must survive a
    /// power failure.
    fn mkfs_options(self, bytes: u64) -> Vec<String> {
        let features = "^resize_inode,sparse_super2";
        match self {
            Purpose::Sandbox => vec!["-O".into(), format!("{features},^has_journal")],
            Purpose::Workspace => {
                let mebibytes = (bytes >> 25).clamp(4, 64);
                let journal = format!("size={mebibytes}");
                vec!["-O".into(), features.into(), "-J".into(), journal]
            }
        }
    }
}

/// Part of a template's name, so a launcher with another format does not use old templates.
const TEMPLATE_VERSION: u32 = 2;

/// Callers choose the sizes of disks, and each size needs a template; only the most recently used
/// templates are kept.
const MAX_TEMPLATES: usize = 16;

/// Creates the image of a new disk at `image` and returns it open.
pub fn make_image(disk: &Disk, purpose: Purpose, image: &Path) -> Outcome<File> {
    let (template, template_path) = open_template(disk, purpose)?;
    let target = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(image)
        .context(|| format!("making {}", image.display()))?;
    sparse_copy(&template, &target)
        .context(|| format!("copying {} to {}", template_path.display(), image.display()))?;
    // Newer kernels wait for this when a loop device is attached.
    sys::begin_writing(target.as_fd());
    Ok(target)
}

/// The template for disks of this size, marked as used now.
fn open_template(disk: &Disk, purpose: Purpose) -> Outcome<(File, PathBuf)> {
    loop {
        let path = template(disk, purpose)?;
        let opening = || format!("opening {}", path.display());
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => {
                file.set_modified(SystemTime::now()).context(opening)?;
                return Ok((file, path));
            }
            // It was removed as the least recently used one, before we marked it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(opening),
        }
    }
}

/// The template for disks of this size, created on first use.
fn template(disk: &Disk, purpose: Purpose) -> Outcome<PathBuf> {
    let name = format!(
        "{}-v{TEMPLATE_VERSION}-{}-{}.img",
        purpose.template_prefix(),
        disk.bytes,
        disk.inodes
    );
    let path = disk.templates_dir.join(name);
    if path.exists() {
        return Ok(path);
    }
    ids::make_private_directory(&disk.templates_dir)?;
    let lock_path = disk.templates_dir.join(".lock");
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .context(|| format!("opening {}", lock_path.display()))?;
    sys::lock(lock.as_fd()).context(|| format!("locking {}", lock_path.display()))?;
    if !path.exists() {
        build_template(disk, purpose, &path)?;
        prune(&disk.templates_dir)
            .context(|| format!("removing templates in {}", disk.templates_dir.display()))?;
    }
    Ok(path)
}

/// Removes the least recently used templates. Only one process does so at a time; one that has a
/// template open can still copy from it.
fn prune(templates_dir: &Path) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(templates_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b"ext4") && name.ends_with(b".img") {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    for (_, path) in found.iter().rev().skip(MAX_TEMPLATES) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Builds under a temporary name and renames: a template is complete or absent. Only one process
/// builds at a time.
fn build_template(disk: &Disk, purpose: Purpose, path: &Path) -> Outcome<()> {
    let building = disk.templates_dir.join(".building.img");
    let tree = disk.templates_dir.join(".building");
    let prepared = prepare_tree(&tree, purpose)
        .and_then(|()| {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&building)?;
            file.set_len(disk.bytes)
        })
        .context(|| {
            format!(
                "preparing a disk template in {}",
                disk.templates_dir.display()
            )
        });
    let built = prepared.and_then(|()| run_mkfs(disk, purpose, &tree, &building));
    fs::remove_dir_all(&tree).context(|| format!("removing {}", tree.display()))?;
    built?;
    fs::rename(&building, path).context(|| format!("renaming the template {}", path.display()))
}

fn prepare_tree(tree: &Path, purpose: Purpose) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(tree)?;
    fs::set_permissions(tree, fs::Permissions::from_mode(0o755))?;
    fill(tree, purpose, Owners::AsListed)
}

/// Who owns the directories of a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    AsListed,
    /// With a single id in the user namespace, only its root exists.
    Root,
}

/// Creates the directories of a disk in an empty directory.
pub fn fill(root: &Path, purpose: Purpose, owners: Owners) -> io::Result<()> {
    for (name, mode, owner) in purpose.directories() {
        let path = root.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
        if owners == Owners::AsListed {
            sys::chown(&path, *owner, *owner)?;
        }
    }
    Ok(())
}

fn run_mkfs(disk: &Disk, purpose: Purpose, tree: &Path, image: &Path) -> Outcome<()> {
    let program =
        find_mkfs().ok_or_else(|| Fault::new("mkfs.ext4 is not installed: install e2fsprogs"))?;
    let output = Command::new(&program)
        .args([
            "-q",
            "-F",
            "-b",
            "4096",
            "-m",
            "0",
            "-N",
            &disk.inodes.to_string(),
        ])
        .args(purpose.mkfs_options(disk.bytes))
        // The journal and the inode tables stay holes in the file, which read as the zeros that
        // they must be; the mount option noinit_itable keeps it so.
        .args([
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=0,root_owner=0:0",
        ])
        .arg("-d")
        .arg(tree)
        .arg(image)
        .env_clear()
        .env("PATH", STANDARD_PATH)
        .stdin(Stdio::null())
        .output()
        .context(|| format!("running {}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Fault::of(
        program_failure(&disk.templates_dir),
        format!(
            "{} failed ({}): {}",
            program.display(),
            output.status,
            said.trim()
        ),
    ))
}

/// The program that creates filesystems, if it is installed.
pub fn find_mkfs() -> Option<PathBuf> {
    programs::find("mkfs.ext4")
}

/// Copies only data; holes stay holes. Shares blocks if the filesystem can.
fn sparse_copy(from: &File, to: &File) -> io::Result<()> {
    if sys::clone_file(from.as_fd(), to.as_fd()).is_ok() {
        return Ok(());
    }
    let size = from.metadata()?.size();
    to.set_len(size)?;
    let mut offset = 0;
    while let Some((start, end)) = sys::next_data(from.as_fd(), offset)? {
        sys::copy_range(from.as_fd(), to.as_fd(), start, end)?;
        offset = end;
    }
    Ok(())
}

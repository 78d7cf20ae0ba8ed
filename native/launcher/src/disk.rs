//! The sandbox's own disk: a sparse ext4 image copied from a template, on a loop device.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fault::{Context, Fault, Outcome};
use crate::ids;
use crate::spec::Disk;
use crate::sys;

/// What every disk holds from the start: name, mode and owner inside the sandbox.
pub const DIRECTORIES: [(&str, u32, u32); 4] = [
    ("workspace", 0o755, 1000),
    ("home", 0o750, 1000),
    ("upper", 0o755, 0),
    ("work", 0o700, 0),
];

/// Part of a template's name, so that a launcher that makes other ones does not take these.
const TEMPLATE_VERSION: u32 = 1;
/// Between GET_FREE and CONFIGURE another may take the device; each loss shows that someone won.
const LOOP_ATTEMPTS: u32 = 64;

/// Makes the image of a new disk at `image` and returns it open.
pub fn make_image(disk: &Disk, image: &Path) -> Outcome<File> {
    let template_path = template(disk)?;
    let template =
        File::open(&template_path).context(|| format!("opening {}", template_path.display()))?;
    let target = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(image)
        .context(|| format!("making {}", image.display()))?;
    sparse_copy(&template, &target)
        .context(|| format!("copying {} to {}", template_path.display(), image.display()))?;
    Ok(target)
}

/// The template for disks of this size, made now if this is the first.
fn template(disk: &Disk) -> Outcome<PathBuf> {
    let name = format!(
        "ext4-v{TEMPLATE_VERSION}-{}-{}.img",
        disk.bytes, disk.inodes
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
        build_template(disk, &path)?;
    }
    Ok(path)
}

/// Builds beside the final name and renames: a template is whole or absent. Only one builds at a time.
fn build_template(disk: &Disk, path: &Path) -> Outcome<()> {
    let building = disk.templates_dir.join(".building.img");
    let tree = disk.templates_dir.join(".building");
    let prepared = prepare_tree(&tree)
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
    let built = prepared.and_then(|()| run_mkfs(disk, &tree, &building));
    fs::remove_dir_all(&tree).context(|| format!("removing {}", tree.display()))?;
    built?;
    fs::rename(&building, path).context(|| format!("naming the template {}", path.display()))
}

fn prepare_tree(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(tree)?;
    fs::set_permissions(tree, fs::Permissions::from_mode(0o755))?;
    fill(tree, Owners::AsListed)
}

/// Whose the directories of a disk are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    AsListed,
    /// With a single id in the user namespace there is nobody but its root.
    Root,
}

/// Makes the directories of a disk in an empty directory.
pub fn fill(root: &Path, owners: Owners) -> io::Result<()> {
    for (name, mode, owner) in DIRECTORIES {
        let path = root.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if owners == Owners::AsListed {
            sys::chown(&path, owner, owner)?;
        }
    }
    Ok(())
}

fn run_mkfs(disk: &Disk, tree: &Path, image: &Path) -> Outcome<()> {
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
        // No journal: a disk does not outlive its sandbox. No backup superblocks: fewer bytes to copy.
        .args(["-O", "^has_journal,^resize_inode,sparse_super2"])
        // The tables of inodes stay holes in the file; the mount option init_itable=0 leaves them so.
        .args([
            "-E",
            "lazy_itable_init=1,nodiscard,num_backup_sb=0,root_owner=0:0",
        ])
        .arg("-d")
        .arg(tree)
        .arg(image)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .context(|| format!("running {}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Fault::new(format!(
        "{} failed ({}): {}",
        program.display(),
        output.status,
        said.trim()
    )))
}

pub fn find_mkfs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fixed = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(fixed)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("mkfs.ext4"))
        .find(|program| program.is_file())
}

/// Copies only what is data; holes stay holes. Shares blocks where the filesystem can.
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

/// A loop device in use by us. It lets go of its file when it is dropped and no mount uses it.
pub struct LoopDevice {
    pub path: PathBuf,
    _device: File,
}

/// Attaches an image to a free loop device, to be detached by the kernel after its last user.
pub fn attach_loop(image: &File, name: &Path) -> Outcome<LoopDevice> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
        .context(|| "opening /dev/loop-control (is the loop module loaded?)".into())?;
    for _ in 0..LOOP_ATTEMPTS {
        let number = sys::free_loop_number(control.as_fd())
            .context(|| "asking for a free loop device".into())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_loop(&path, number).context(|| format!("opening {}", path.display()))?;
        match sys::configure_loop(device.as_fd(), image.as_fd(), name.as_os_str().as_bytes()) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _device: device,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => {
                return Err(error).context(|| format!("attaching the disk to {}", path.display()));
            }
        }
    }
    Err(Fault::new(format!(
        "no loop device was to be had in {LOOP_ATTEMPTS} attempts"
    )))
}

fn open_loop(path: &Path, number: u32) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Without devtmpfs nobody else makes the node.
            match sys::make_block_node(path, sys::LOOP_MAJOR, number) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            open()
        }
        other => other,
    }
}

/// The loop devices that have `image` as their file.
pub fn loops_of(image: &Path) -> Outcome<Vec<PathBuf>> {
    let reading = || "reading /sys/block".to_string();
    let mut found = Vec::new();
    let listing = match fs::read_dir("/sys/block") {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error).context(reading),
    };
    for entry in listing {
        let name = entry.context(reading)?.file_name();
        if !name.as_bytes().starts_with(b"loop") {
            continue;
        }
        let attribute = Path::new("/sys/block")
            .join(&name)
            .join("loop/backing_file");
        // The attribute is there only while the device is attached.
        let Ok(backing) = fs::read(&attribute) else {
            continue;
        };
        let backing = backing.strip_suffix(b"\n").unwrap_or(&backing);
        let backing = backing.strip_suffix(b" (deleted)").unwrap_or(backing);
        if backing == image.as_os_str().as_bytes() {
            found.push(Path::new("/dev").join(&name));
        }
    }
    Ok(found)
}

pub fn detach_loop(device: &Path) -> Outcome<()> {
    let file = match File::open(device) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(|| format!("opening {}", device.display())),
    };
    match sys::clear_loop(file.as_fd()) {
        // Detached by itself in the meantime.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        other => other.context(|| format!("detaching {}", device.display())),
    }
}

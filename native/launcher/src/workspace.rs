//! A persistent workspace: created completely or not at all, locked while it changes, attached once
//! for any number of sandboxes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{self, Owners, Purpose};
use crate::disk_mounts::Place;
use crate::fault::{Context, Fault, Kind, Outcome};
use crate::record::WorkspaceNote;
use crate::remove::remove_tree;
use crate::spec::Workspace;
use crate::{disk_mounts, ids, loops, record, sys};

/// A disk: the form of a workspace with root.
const IMAGE: &str = "disk.img";
/// A plain directory without a size limit: its form without root.
const FILES: &str = "files";
/// The nominal size of the plain directory, for listings.
const LIMIT: &str = "limit.json";
/// A workspace under construction, possibly left by a killed launcher. It only counts after it is
/// renamed.
const MAKING: &str = "making";

/// The possible forms of a workspace for this caller.
#[derive(Clone, Copy)]
pub enum Form {
    Image,
    Directory(Owners),
}

/// An existing workspace, which cannot be removed while it is in use: the intent of the sandbox
/// being created names it.
pub struct Held {
    id: String,
    bytes: u64,
    path: PathBuf,
    directory: File,
    /// Opened in the host's mount namespace, whose path the loop device then records.
    image: Option<File>,
}

/// The lock on a workspace's directory, released on drop.
pub struct Lock<'a>(pub &'a File);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        sys::unlock(self.0.as_fd());
    }
}

/// Waits for the lock of a directory that may be removed meanwhile. None if it does not exist and
/// is not to be created.
pub fn open_and_lock(path: &Path, make: bool) -> Outcome<Option<File>> {
    loop {
        if make {
            // SECURITY: only accessible to root, like everything that sandboxes are made of
            // (threat: replaced sockets).
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error).context(|| format!("making {}", path.display()));
                }
                _ => {}
            }
        }
        let Some(directory) = open_directory(path)? else {
            if make {
                continue;
            }
            return Ok(None);
        };
        sys::lock(directory.as_fd()).context(|| format!("locking {}", path.display()))?;
        if is_still_at(&directory, path)? {
            return Ok(Some(directory));
        }
    }
}

pub fn open_directory(path: &Path) -> Outcome<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path);
    match opened {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(|| format!("opening {}", path.display())),
    }
}

/// The previous holder of the lock may have removed the directory, and another process may have
/// recreated it.
pub fn is_still_at(directory: &File, path: &Path) -> Outcome<bool> {
    let looking = || format!("inspecting {}", path.display());
    let ours = directory.metadata().context(looking)?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context(looking),
    }
}

/// The size of the workspace in a directory; none if there is no complete one.
pub fn size(path: &Path) -> Outcome<Option<u64>> {
    if let Some(image) = found_at(&path.join(IMAGE))? {
        return Ok(Some(image.len()));
    }
    if found_at(&path.join(FILES))?.is_none() {
        return Ok(None);
    }
    let limit = path.join(LIMIT);
    let text = fs::read(&limit).context(|| format!("reading {}", limit.display()))?;
    serde_json::from_slice(&text)
        .context(|| format!("reading {}", limit.display()))
        .map(Some)
}

fn found_at(path: &Path) -> Outcome<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(|| format!("inspecting {}", path.display())),
    }
}

/// The requested workspace, created if it does not exist.
pub fn obtain(wanted: &Workspace, form: Form) -> Outcome<Held> {
    ids::make_private_directory(&wanted.workspaces_dir)?;
    let path = wanted.workspaces_dir.join(&wanted.id);
    let Some(directory) = open_and_lock(&path, true)? else {
        return Err(Fault::new(format!("{} cannot be created", path.display())));
    };
    let lock = Lock(&directory);
    let obtained = obtain_locked(wanted, form, &path, &directory);
    let obtained = match (obtained, size(&path)) {
        (Ok(image), Ok(Some(bytes))) => Ok((image, bytes)),
        (Ok(_), Ok(None)) => Err(Fault::new(format!("{} no longer exists", path.display()))),
        (Ok(_), Err(fault)) => Err(fault),
        // A failed first attempt leaves nothing; an existing workspace stays.
        (Err(fault), Ok(None)) => match remove_tree(&path) {
            Ok(()) => Err(fault),
            Err(second) => Err(Fault::new(format!(
                "{fault}; cleanup also failed: {second}"
            ))),
        },
        (Err(fault), _) => Err(fault),
    };
    drop(lock);
    let (image, bytes) = obtained?;
    Ok(Held {
        id: wanted.id.clone(),
        bytes,
        path,
        directory,
        image,
    })
}

fn obtain_locked(
    wanted: &Workspace,
    form: Form,
    path: &Path,
    directory: &File,
) -> Outcome<Option<File>> {
    let other = match form {
        Form::Image => FILES,
        Form::Directory(_) => IMAGE,
    };
    if found_at(&path.join(other))?.is_some() {
        return Err(Fault::of(
            Kind::IncompatibleWorkspace,
            format!(
                "the workspace {} was created {} root, and cannot be used {} it",
                wanted.id,
                if other == IMAGE { "with" } else { "without" },
                if other == IMAGE { "without" } else { "with" },
            ),
        ));
    }
    match form {
        Form::Image => open_or_make_image(wanted, path, directory).map(Some),
        Form::Directory(owners) => make_files(wanted, owners, path).map(|()| None),
    }
}

fn open_or_make_image(wanted: &Workspace, path: &Path, directory: &File) -> Outcome<File> {
    let image = path.join(IMAGE);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&image);
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.context(|| format!("opening {}", image.display())),
    }
    let making = path.join(MAKING);
    remove_tree(&making)?;
    let made = disk::make_image(&wanted.disk, Purpose::Workspace, &making)?;
    // Written to disk before it gets its name: an incomplete image never has that name, even after
    // a power failure.
    made.sync_all()
        .and_then(|()| fs::rename(&making, &image))
        .and_then(|()| directory.sync_all())
        .context(|| format!("finishing {}", image.display()))?;
    Ok(made)
}

fn make_files(wanted: &Workspace, owners: Owners, path: &Path) -> Outcome<()> {
    let files = path.join(FILES);
    if found_at(&files)?.is_some() {
        return Ok(());
    }
    let limit = serde_json::to_vec(&wanted.disk.bytes)
        .context(|| "encoding the size of the workspace as JSON".into())?;
    record::write_atomically(&path.join(LIMIT), &limit)?;
    let making = path.join(MAKING);
    remove_tree(&making)?;
    fs::create_dir(&making)
        .and_then(|()| fs::set_permissions(&making, fs::Permissions::from_mode(0o755)))
        .and_then(|()| disk::fill(&making, Purpose::Workspace, owners))
        .and_then(|()| fs::rename(&making, &files))
        .context(|| format!("making {}", files.display()))
}

/// Removes the workspace in a locked directory atomically; its remains are garbage.
pub fn unmake(path: &Path) -> Outcome<()> {
    let image = path.join(IMAGE);
    match fs::remove_file(&image) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context(|| format!("removing {}", image.display()));
        }
        _ => {}
    }
    let files = path.join(FILES);
    if found_at(&files)?.is_none() {
        return Ok(());
    }
    let making = path.join(MAKING);
    remove_tree(&making)?;
    fs::rename(&files, &making).context(|| format!("moving {} away", files.display()))
}

/// Whether the workspace in a locked directory is attached as a disk.
pub fn is_attached(path: &Path) -> Outcome<bool> {
    let image = path.join(IMAGE);
    match File::open(&image) {
        Ok(file) => loops::attached(&file, &image).map(|device| device.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context(|| format!("opening {}", image.display())),
    }
}

impl Held {
    pub fn note(&self) -> WorkspaceNote {
        WorkspaceNote {
            id: self.id.clone(),
            bytes: self.bytes,
        }
    }

    /// Mounts it at `place`, from its single loop device.
    pub fn mount(&self, idmap: BorrowedFd<'_>, state_dir: &Path, place: &Place) -> Outcome<()> {
        let Some(image) = &self.image else {
            return Err(Fault::new("the workspace has no image"));
        };
        sys::lock(self.directory.as_fd()).context(|| format!("locking {}", self.path.display()))?;
        let _lock = Lock(&self.directory);
        let device = loops::attach_shared(image, &self.path.join(IMAGE))?;
        disk_mounts::mount_workspace(&device, self.bytes, idmap, state_dir, place)
    }

    /// Exposes its plain directory at `place`.
    pub fn bind(&self, place: &Place) -> Outcome<()> {
        disk_mounts::bind_workspace(&self.path.join(FILES).join("workspace"), place)
    }
}

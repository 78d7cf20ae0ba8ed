//! A layer over the image, with files that only one sandbox has.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::fault::{Context, Outcome};
use crate::mounts::{self, Owner};
use crate::spec::RootFile;
use crate::sys;

/// The kernel rounds each file up to pages, and each directory takes up one.
const BYTES_PER_FILE: usize = 16 * 4096;
const INODES_PER_FILE: usize = 16;

/// The owner and the mode of a file or directory.
struct Attributes {
    uid: u32,
    gid: u32,
    mode: u32,
}

/// Mounts a filesystem with these files at `at`, to be laid over the image mounted at `image`.
pub fn mount_layer(files: &[RootFile], image: &Path, at: &Path, owner: Owner<'_>) -> Outcome<()> {
    let bytes: usize = (files.iter())
        .map(|file| file.content.len() + BYTES_PER_FILE)
        .sum();
    let inodes = files.len() * INODES_PER_FILE;
    let options = CString::new(format!("mode=0755,size={bytes},nr_inodes={inodes}"))
        .map_err(io::Error::from)
        .context(|| "formatting the size of a tmpfs".into())?;
    sys::mount_tmpfs(at, &options)
        .context(|| format!("mounting a tmpfs for files at {}", at.display()))?;
    let root = mounts::open_root(image)?;
    for file in files {
        place(file, root.as_fd(), at, owner)
            .context(|| format!("mounting {} over the image", file.path.display()))?;
    }
    Ok(())
}

/// SECURITY: the layer is a new filesystem that only contains directories and files created here,
/// so no path leads out of it; the image is read without following links (threat: linked mount
/// points; guarded by `a_file_over_the_image_follows_no_link`).
fn place(file: &RootFile, image: BorrowedFd<'_>, layer: &Path, owner: Owner<'_>) -> io::Result<()> {
    let base = owner.base();
    let relative = file.path.strip_prefix("/").unwrap_or(&file.path);
    let parents = relative.parent().unwrap_or(Path::new(""));
    let mut inside = PathBuf::from("/");
    // An overlay takes the attributes of a directory, including the root, from its topmost layer.
    adopt(layer, directory_of_image(image, &inside, base)?)?;
    for part in parents {
        inside.push(part);
        let at = layer.join(inside.strip_prefix("/").unwrap_or(&inside));
        match fs::create_dir(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        adopt(&at, directory_of_image(image, &inside, base)?)?;
    }
    let at = layer.join(relative);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&at)?
        .write_all(file.content.as_bytes())?;
    let (uid, gid, mode) = (base, base, 0o644);
    adopt(&at, Attributes { uid, gid, mode })
}

fn adopt(at: &Path, Attributes { uid, gid, mode }: Attributes) -> io::Result<()> {
    sys::chown(at, uid, gid)?;
    fs::set_permissions(at, Permissions::from_mode(mode))
}

/// The attributes of a directory of the image, or those of a new one.
fn directory_of_image(image: BorrowedFd<'_>, path: &Path, base: u32) -> io::Result<Attributes> {
    match mounts::open_in_root(image, path, libc::O_PATH | libc::O_DIRECTORY) {
        Ok(found) => {
            let stat = sys::fstat(found.as_fd())?;
            Ok(Attributes {
                uid: stat.st_uid,
                gid: stat.st_gid,
                mode: stat.st_mode & 0o7777,
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attributes {
            uid: base,
            gid: base,
            mode: 0o755,
        }),
        Err(error) => Err(error),
    }
}

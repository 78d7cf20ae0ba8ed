//! Loop devices: images attached as disks, each by a single device, and found again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fault::{Context, Fault, Kind, Outcome};
use crate::sys;

/// Between GET_FREE and CONFIGURE another process may take the device. Concurrent creates all
/// request the same one, so the loser retries with exponential backoff and jitter.
const LOOP_ATTEMPTS: u32 = 40;
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A loop device that we use. It detaches when it is dropped and no mount uses it.
pub struct LoopDevice {
    pub path: PathBuf,
    device: File,
}

impl LoopDevice {
    /// The device number of files on a filesystem of this device.
    pub fn number(&self) -> io::Result<u64> {
        self.device.metadata().map(|found| found.rdev())
    }
}

/// Attaches an image to a free loop device; the kernel detaches it after its last user.
pub fn attach_loop(image: &File, name: &Path) -> Outcome<LoopDevice> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")
        .context(|| "opening /dev/loop-control (is the loop module loaded?)".into())?;
    for attempt in 0..LOOP_ATTEMPTS {
        if attempt > 0 {
            pause(attempt);
        }
        let number = match sys::free_loop_number(control.as_fd()) {
            Ok(number) => number,
            Err(error) if is_exhaustion(&error) => continue,
            Err(error) => return Err(error).context(|| "requesting a free loop device".into()),
        };
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_loop(&path, OpenOptions::new().read(true).write(true))
            .context(|| format!("opening {}", path.display()))?;
        match sys::configure_loop(device.as_fd(), image.as_fd(), name.as_os_str().as_bytes()) {
            Ok(()) => {
                return Ok(LoopDevice { path, device });
            }
            Err(error) if is_exhaustion(&error) => {}
            Err(error) => {
                return Err(error).context(|| format!("attaching the disk to {}", path.display()));
            }
        }
    }
    Err(Fault::of(
        Kind::NoLoopDevice,
        format!("no loop device became free in {LOOP_ATTEMPTS} attempts"),
    ))
}

/// Another process took the device first, or the machine has no free device now.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBUSY | libc::ENOSPC | libc::EAGAIN | libc::ENODEV)
    )
}

/// Exponential backoff with full jitter, from 1 ms on.
fn pause(attempt: u32) {
    let longest = Duration::from_millis(1 << attempt.min(10)).min(MAX_PAUSE);
    std::thread::sleep(longest.mul_f64(sys::random_share()));
}

fn open_loop(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let digits = path.as_os_str().as_bytes().strip_prefix(b"/dev/loop");
            let number = digits.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            let number = number.ok_or(error)?;
            // Without devtmpfs no other process creates the node.
            match sys::make_block_node(path, sys::LOOP_MAJOR, number) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            options.open(path)
        }
        other => other,
    }
}

/// The loop device that has `image`, which is at `path`, as its file; attached now if there is none.
/// The caller must hold the lock that all others who attach this image take.
///
/// SECURITY: two devices on one file have separate caches, and destroy the filesystem. Through one
/// device all mounts are one filesystem (oracle N; guarded by `concurrent_creates_share_one_loop_device`).
pub fn attach_shared(image: &File, path: &Path) -> Outcome<LoopDevice> {
    match attached(image, path)? {
        Some(device) => Ok(device),
        None => attach_loop(image, path),
    }
}

/// The loop device that has `image`, which is at `path`, as its file. While we hold the device open
/// the kernel does not detach it.
pub fn attached(image: &File, path: &Path) -> Outcome<Option<LoopDevice>> {
    let looking = || format!("looking for the loop device of {}", path.display());
    let wanted = image.metadata().context(looking)?;
    // The same file may have another path where it was attached from, for instance in a container,
    // but its own name and that of its directory, which is unique, are the same everywhere.
    let Some(own_names) = last_two(path) else {
        return Err(Fault::new(format!(
            "{} is not a disk image",
            path.display()
        )));
    };
    for path in loops_with(|backing| backing.ends_with(own_names))? {
        // Not for writing: kernels may refuse that for a mounted device.
        let device = match open_loop(&path, OpenOptions::new().read(true)) {
            Ok(device) => device,
            // Detached in the meantime.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => continue,
            Err(error) => return Err(error).context(|| format!("opening {}", path.display())),
        };
        match sys::loop_backing(device.as_fd()) {
            Ok(backing) if backing == (wanted.dev(), wanted.ino()) => {
                return Ok(Some(LoopDevice { path, device }));
            }
            // Another workspace with this name, or detached in the meantime.
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
            Err(error) => return Err(error).context(|| format!("asking {}", path.display())),
        }
    }
    Ok(None)
}

/// `/name/file` at the end of a path.
fn last_two(path: &Path) -> Option<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    let mut slashes = bytes
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'/');
    slashes.nth(1).map(|(at, _)| &bytes[at..])
}

/// The loop devices that have the file at `image`.
pub fn loops_of(image: &Path) -> Outcome<Vec<PathBuf>> {
    loops_with(|backing| backing == image.as_os_str().as_bytes())
}

/// The loop devices whose file path matches.
fn loops_with(is_like: impl Fn(&[u8]) -> bool) -> Outcome<Vec<PathBuf>> {
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
        let device = Path::new("/dev").join(&name);
        if backing_file(&device).is_some_and(|backing| is_like(&backing)) {
            found.push(device);
        }
    }
    Ok(found)
}

/// Whether a loop device has the file at `image`.
pub fn is_backed_by(device: &Path, image: &Path) -> bool {
    backing_file(device).is_some_and(|backing| backing == image.as_os_str().as_bytes())
}

/// The path of a loop device's file; none if it is free.
fn backing_file(device: &Path) -> Option<Vec<u8>> {
    let attribute = Path::new("/sys/block")
        .join(device.file_name()?)
        .join("loop/backing_file");
    // The attribute exists only while the device is attached.
    let text = fs::read(attribute).ok()?;
    let path = text.strip_suffix(b"\n").unwrap_or(&text);
    Some(path.strip_suffix(b" (deleted)").unwrap_or(path).to_vec())
}

pub fn detach_loop(device: &Path) -> Outcome<()> {
    let file = match File::open(device) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(|| format!("opening {}", device.display())),
    };
    match sys::clear_loop(file.as_fd()) {
        // It was already detached.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        other => other.context(|| format!("detaching {}", device.display())),
    }
}

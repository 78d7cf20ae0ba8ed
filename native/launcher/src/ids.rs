//! Host id ranges: every sandbox gets 65,536 user and group ids that no other sandbox has.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::fault::{Context, Fault, Outcome};

pub const RANGE_SIZE: u32 = 65_536;
const FIRST_BASE: u32 = 1_000_000;
/// 1,000,000 + 32,000 × 65,536 stays below 2^31, which some tools treat as the end of ids.
const SLOTS: u32 = 32_000;

#[derive(Clone, Copy, Debug)]
pub struct IdRange {
    pub base: u32,
    pub size: u32,
}

/// Whether a host id is in the range of sandbox ids.
pub fn is_sandbox_id(id: u32) -> bool {
    (FIRST_BASE..FIRST_BASE + SLOTS * RANGE_SIZE).contains(&id)
}

/// A slot in use.
pub struct Slot {
    pub file: PathBuf,
    pub id: String,
    pub state_dir: PathBuf,
}

pub fn make_private_directory(path: &Path) -> Outcome<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .context(|| format!("creating the directory {}", path.display()))
}

/// Takes a free slot. SECURITY: the name of a slot can be linked only once, so two sandboxes never
/// share host ids, even of different daemons (threat: reaching another sandbox; guarded by
/// `two_creates_get_different_ids`).
pub fn allocate(ids_dir: &Path, id: &str, state_dir: &Path) -> Outcome<IdRange> {
    make_private_directory(ids_dir)?;
    let claim = claim_path(ids_dir, id);
    // The claim is complete before it gets its slot's name: a slot is never seen empty.
    write_claim(&claim, id, state_dir).context(|| format!("writing {}", claim.display()))?;
    let taken = link_first_free(ids_dir, &claim, id);
    fs::remove_file(&claim).context(|| format!("removing {}", claim.display()))?;
    let slot = taken?;
    Ok(IdRange {
        base: FIRST_BASE + slot * RANGE_SIZE,
        size: RANGE_SIZE,
    })
}

fn claim_path(ids_dir: &Path, id: &str) -> PathBuf {
    ids_dir.join(format!(".claim-{id}"))
}

fn write_claim(path: &Path, id: &str, state_dir: &Path) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    write!(file, "{id}\n{}\n", state_dir.display())
}

fn link_first_free(ids_dir: &Path, claim: &Path, id: &str) -> Outcome<u32> {
    let start = starting_slot(id);
    for step in 0..SLOTS {
        let slot = (start + step) % SLOTS;
        match fs::hard_link(claim, ids_dir.join(slot.to_string())) {
            Ok(()) => return Ok(slot),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .context(|| format!("taking id slot {slot} in {}", ids_dir.display()));
            }
        }
    }
    Err(Fault::new(format!(
        "all {SLOTS} id ranges in {} are in use",
        ids_dir.display()
    )))
}

/// FNV-1a, so concurrent creates seldom try the same slots.
fn starting_slot(id: &str) -> u32 {
    let hash = id.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash % SLOTS
}

/// All slots in use.
pub fn slots(ids_dir: &Path) -> Outcome<Vec<Slot>> {
    let reading = || format!("reading {}", ids_dir.display());
    let mut found = Vec::new();
    let listing = match fs::read_dir(ids_dir) {
        Ok(listing) => listing,
        // Without root we may not read it, and nothing in it is ours.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(found);
        }
        Err(error) => return Err(error).context(reading),
    };
    for entry in listing {
        let file = entry.context(reading)?.path();
        let Ok(text) = fs::read_to_string(&file) else {
            // Freed since the listing.
            continue;
        };
        let mut lines = text.lines();
        if let (Some(id), Some(state_dir)) = (lines.next(), lines.next()) {
            found.push(Slot {
                file,
                id: id.to_owned(),
                state_dir: state_dir.into(),
            });
        }
    }
    Ok(found)
}

/// Releases every slot of this sandbox. `base`, if known, avoids a search.
pub fn release(ids_dir: &Path, id: &str, state_dir: &Path, base: Option<u32>) -> Outcome<()> {
    if let Some(base) = base {
        let slot = base.saturating_sub(FIRST_BASE) / RANGE_SIZE;
        let file = ids_dir.join(slot.to_string());
        if fs::read_to_string(&file)
            .is_ok_and(|text| text == format!("{id}\n{}\n", state_dir.display()))
        {
            return remove_if_there(&file);
        }
    }
    for slot in slots(ids_dir)? {
        if slot.id == id && slot.state_dir == state_dir {
            remove_if_there(&slot.file)?;
        }
    }
    // A truncated claim does not name its owner; its file name does.
    remove_if_there(&claim_path(ids_dir, id))
}

fn remove_if_there(file: &Path) -> Outcome<()> {
    match fs::remove_file(file) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        other => other.context(|| format!("removing {}", file.display())),
    }
}

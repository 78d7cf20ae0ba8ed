//! Finds every sandbox that left a trace: a state directory, a cgroup in any hierarchy, or an id
//! slot.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::fault::{Context, Outcome};
use crate::hierarchy::{Hierarchies, UNIFIED};
use crate::record::{self, Record};
use crate::responses::{ListedSandbox, SandboxList, SandboxState};
use crate::spec::{self, ListRequest};
use crate::{ids, process};

pub fn list(request: &ListRequest) -> Outcome<SandboxList> {
    request.check()?;
    let hierarchies = Hierarchies::discover()?;
    let mut found = directory_names(&request.sandboxes_dir)?;
    for hierarchy in &hierarchies.0 {
        found.extend(directory_names(
            &hierarchy.root.join(&request.cgroup_parent),
        )?);
    }
    // All daemons of the machine share the slots; ours are those of our own sandboxes.
    let ours = |slot: &ids::Slot| slot.state_dir.parent() == Some(&request.sandboxes_dir);
    found.extend(
        ids::slots(&request.ids_dir)?
            .into_iter()
            .filter(ours)
            .map(|slot| slot.id),
    );
    let sandboxes = found
        .iter()
        .filter(|id| spec::check_id(id).is_ok())
        .map(|id| describe(id, &request.sandboxes_dir.join(id)))
        .collect();
    Ok(SandboxList { sandboxes })
}

pub fn directory_names(path: &Path) -> Outcome<BTreeSet<String>> {
    let reading = || format!("reading {}", path.display());
    let mut names = BTreeSet::new();
    let listing = match fs::read_dir(path) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        Err(error) => return Err(error).context(reading),
    };
    for entry in listing {
        let entry = match entry {
            Ok(entry) => entry,
            // A parent of cgroups is removed with its last sandbox, possibly while it is read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
            Err(error) => return Err(error).context(reading),
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.insert(name);
        }
    }
    Ok(names)
}

fn describe(id: &str, state_dir: &Path) -> ListedSandbox {
    let record = record::read_record(state_dir);
    ListedSandbox {
        id: id.to_owned(),
        state: record.as_ref().map_or(SandboxState::Partial, state),
        pid: record.map(|record| record.pid),
    }
}

fn state(record: &Record) -> SandboxState {
    if !process::is_alive(record.pid, record.start_time) {
        SandboxState::Dead
    } else if is_frozen(record) {
        SandboxState::Paused
    } else {
        SandboxState::Running
    }
}

fn is_frozen(record: &Record) -> bool {
    let reads = |name: &str, file: &str, value: &str| {
        record
            .cgroups
            .get(name)
            .and_then(|path| fs::read_to_string(path.join(file)).ok())
            .is_some_and(|text| text.trim() == value)
    };
    reads("freezer", "freezer.state", "FROZEN") || reads(UNIFIED, "cgroup.freeze", "1")
}

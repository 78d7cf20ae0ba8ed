//! The record of a created sandbox and the intent of one being created, as files in its state
//! directory.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::{Context, Outcome};
use crate::spec::Runtime;

/// Everything needed to find a live sandbox again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub pid: i32,
    pub start_time: u64,
    /// First host id of the sandbox's range; 0 without root.
    pub base: u32,
    pub size: u32,
    pub cgroups: BTreeMap<String, PathBuf>,
    pub mode: String,
    pub not_enforced: Vec<String>,
    pub created_at_ms: u64,
    pub runtime: Runtime,
    /// The loop device of the sandbox's disk; none if the disk is a plain directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_device: Option<PathBuf>,
    /// The persistent workspace that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceNote>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<WorkspaceNote>,
    pub meta: Map<String, Value>,
}

/// A persistent workspace with its actual size, whatever size was requested.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkspaceNote {
    pub id: String,
    pub bytes: u64,
}

/// The part of the intent that a teardown needs.
#[derive(Debug, Deserialize)]
pub struct Intent {
    pub runtime: Runtime,
}

pub fn intent_path(state_dir: &Path) -> PathBuf {
    state_dir.join("intent.json")
}

pub fn record_path(state_dir: &Path) -> PathBuf {
    state_dir.join("sandbox.json")
}

/// Writes under a temporary name and renames: readers see a complete file or none.
pub fn write_atomically(path: &Path, text: &[u8]) -> Outcome<()> {
    let temporary = path.with_extension("tmp");
    let written = (|| -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text)?;
        fs::rename(&temporary, path)
    })();
    written.context(|| format!("writing {}", path.display()))
}

/// A missing or incomplete file counts as absent: a kill may have come at any instant.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

pub fn read_record(state_dir: &Path) -> Option<Record> {
    read(&record_path(state_dir))
}

pub fn read_intent(state_dir: &Path) -> Option<Intent> {
    read(&intent_path(state_dir))
}

/// The persistent workspaces that a sandbox uses or is about to use. The intent is written first;
/// if it is damaged, the record names those in use.
pub fn intended_workspaces(state_dir: &Path) -> Vec<String> {
    let notes: Value = read(&intent_path(state_dir))
        .or_else(|| read(&record_path(state_dir)))
        .unwrap_or_default();
    let further = notes["workspaces"].as_array().into_iter().flatten();
    std::iter::once(&notes["workspace"])
        .chain(further.map(|further| further.get("workspace").unwrap_or(further)))
        .filter_map(|workspace| workspace["id"].as_str().map(str::to_owned))
        .collect()
}

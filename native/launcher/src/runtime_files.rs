//! The paths of files that only the runtime needs: its configuration, its state and its log.

use std::path::PathBuf;

use crate::mounts;
use crate::spec::{CreateSpec, RuntimeKind};

pub struct RuntimeFiles {
    pub in_memory: bool,
    pub bundle: PathBuf,
    pub pid: PathBuf,
    pub log: PathBuf,
    /// The runtime's state directory.
    pub root: PathBuf,
}

impl RuntimeFiles {
    /// Files in memory, in the private mount namespace, which vanish with it: creating and removing
    /// them on a disk takes a good part of a create. Cgroups identify the sandbox's processes
    /// instead.
    ///
    /// gVisor uses its state as long as the sandbox lives, and without root, where there may be no
    /// cgroups, a teardown finds the processes of an interrupted create through the runtime's state.
    pub fn of(spec: &CreateSpec, with_root: bool) -> RuntimeFiles {
        let in_memory =
            with_root && spec.runtime.kind != RuntimeKind::Runsc && !spec.keep_runtime_files;
        let (directory, root) = if in_memory {
            let directory = mounts::runtime_files_path();
            (directory.clone(), directory.join("state"))
        } else {
            (spec.state_dir.clone(), spec.runtime.root.clone())
        };
        RuntimeFiles {
            in_memory,
            bundle: directory.join("bundle"),
            pid: directory.join("pid"),
            log: directory.join("runtime.log"),
            root,
        }
    }

    pub fn config(&self) -> PathBuf {
        self.bundle.join("config.json")
    }
}

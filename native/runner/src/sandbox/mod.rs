//! The sandbox's properties, passed to the runner at its start. None of them changes.

pub mod capabilities;
pub mod guest_cgroup;
pub mod limits;
pub mod oom_score;
mod receive_fd;
pub mod usage;

use crate::sys;
use limits::Limits;
use oom_score::OomScore;
use std::io;
use std::path::Path;

pub struct Sandbox {
    /// The code user.
    pub uid: u32,
    pub gid: u32,
    /// Whether commands may run as other users; root then keeps its capabilities.
    pub allow_user: bool,
    pub workdir: String,
    pub env: Vec<(String, String)>,
    /// The limit for commands; the runner has a higher one, because it holds the pipes of all
    /// commands.
    pub open_files: libc::rlimit,
    pub oom_score: OomScore,
    pub limits: Limits,
}

impl Sandbox {
    /// A directory named by a request: relative paths begin at the workspace.
    pub fn directory(&self, named: &str) -> String {
        let path = Path::new(&self.workdir).join(named);
        path.to_string_lossy().into_owned()
    }

    /// Whether code may use this as its working directory.
    pub fn can_enter(&self, directory: &Path) -> io::Result<()> {
        // Looking up a name in it requires the right to enter it.
        sys::as_fs_user(self.uid, self.gid, || {
            let path = sys::c_path(&directory.join("."))?;
            sys::open(&path, libc::O_PATH | libc::O_DIRECTORY, 0).map(drop)
        })
    }
}

//! Lists all persistent workspaces, and removes those that no sandbox uses.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fault::{Context, Outcome};
use crate::list::directory_names;
use crate::remove::remove_tree;
use crate::responses::{DestroyedWorkspace, ListedWorkspace, WorkspaceList};
use crate::spec::{self, DestroyWorkspaceRequest, ListWorkspacesRequest};
use crate::workspace::{self, Lock};
use crate::{record, rootless, sys};

/// The kernel detaches a disk shortly after its last sandbox is gone.
const DETACH_WAIT: Duration = Duration::from_secs(2);

const GONE: DestroyedWorkspace = DestroyedWorkspace {
    destroyed: true,
    in_use_by: None,
};

/// Lists complete workspaces, and removes the leftovers of killed launchers.
pub fn list(request: &ListWorkspacesRequest) -> Outcome<WorkspaceList> {
    request.check()?;
    let mut found = Vec::new();
    for id in directory_names(&request.workspaces_dir)? {
        if spec::check_workspace_id(&id).is_err() {
            continue;
        }
        let path = request.workspaces_dir.join(&id);
        match workspace::size(&path)? {
            Some(bytes) => found.push(ListedWorkspace { id, bytes }),
            None => sweep(&path)?,
        }
    }
    Ok(WorkspaceList { workspaces: found })
}

/// Removes an incomplete workspace, unless it is being created right now.
fn sweep(path: &Path) -> Outcome<()> {
    let Some(directory) = workspace::open_directory(path)? else {
        return Ok(());
    };
    if !sys::try_lock(directory.as_fd()).context(|| format!("locking {}", path.display()))? {
        return Ok(());
    }
    let _lock = Lock(&directory);
    if workspace::is_still_at(&directory, path)? && workspace::size(path)?.is_none() {
        return remove(path);
    }
    Ok(())
}

fn remove(path: &Path) -> Outcome<()> {
    if sys::geteuid() != 0 {
        // As with sandboxes: only a process with the other ids can remove their files.
        rootless::enter()?;
    }
    remove_tree(path)
}

/// Removes a workspace with all its contents, or returns which sandboxes use it.
///
/// A create first records which workspace it will use and then waits for its lock. So under the
/// lock, either its intent is found, or it comes later and creates a new workspace.
pub fn destroy(request: &DestroyWorkspaceRequest) -> Outcome<DestroyedWorkspace> {
    request.check()?;
    let path = request.workspaces_dir.join(&request.id);
    let Some(directory) = workspace::open_and_lock(&path, false)? else {
        return Ok(GONE);
    };
    let _lock = Lock(&directory);
    let users = users(&request.sandboxes_dir, &request.id)?;
    if !users.is_empty() || !detached_soon(&path)? {
        return Ok(DestroyedWorkspace {
            destroyed: false,
            in_use_by: Some(users),
        });
    }
    workspace::unmake(&path)?;
    remove(&path)?;
    Ok(GONE)
}

/// The sandboxes, live, dead or partial, that name the workspace in their records.
fn users(sandboxes_dir: &Path, id: &str) -> Outcome<Vec<String>> {
    let names = directory_names(sandboxes_dir)?;
    Ok(names
        .into_iter()
        .filter(|name| {
            let intended = record::intended_workspaces(&sandboxes_dir.join(name));
            intended.iter().any(|intended| intended == id)
        })
        .collect())
}

fn detached_soon(path: &Path) -> Outcome<bool> {
    let deadline = Instant::now() + DETACH_WAIT;
    while workspace::is_attached(path)? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        sleep(Duration::from_millis(2));
    }
    Ok(true)
}

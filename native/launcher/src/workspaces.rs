//! All persistent workspaces: listed, and removed when no sandbox has them.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::answers::{DestroyedWorkspace, ListedWorkspace, WorkspaceList};
use crate::fault::{Context, Outcome};
use crate::list::directory_names;
use crate::remove::remove_tree;
use crate::spec::{self, DestroyWorkspaceRequest, ListWorkspacesRequest};
use crate::workspace::{self, Lock};
use crate::{record, rootless, sys};

/// The kernel detaches a disk a little after its last sandbox has gone.
const DETACH_WAIT: Duration = Duration::from_secs(2);

const GONE: DestroyedWorkspace = DestroyedWorkspace {
    destroyed: true,
    in_use_by: None,
};

/// Lists what is whole, and sweeps up what a launcher that was killed has left.
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

/// Removes what is no whole workspace, unless somebody is making one of it right now.
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
        // As with sandboxes: files of the other ids are removed by who has these ids.
        rootless::enter()?;
    }
    remove_tree(path)
}

/// Removes a workspace with all that is in it, or tells which sandboxes have it.
///
/// A create first writes down which workspace it will take and then waits for its lock. Under the
/// lock, therefore, either its intent is found, or it comes after us and makes a new workspace.
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

/// The sandboxes, whole, dead or half-made, that name the workspace in their notes.
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

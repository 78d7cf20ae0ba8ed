//! The steps of a create, in order; each leaves only what `destroy` can find.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::create::Creation;
use crate::disk::{self, Owners, Purpose};
use crate::disk_mounts::Place;
use crate::fault::{Context, Fault, Kind, Outcome};
use crate::hierarchy::Hierarchies;
use crate::mounts::{HostPaths, Owner};
use crate::record::{self, Record};
use crate::runtime;
use crate::warm_up::{self, WarmUp};
use crate::{
    bundle, cgroup, cgroup_cover, device_nodes, disk_mounts, ids, loops, mount_points, mounts,
    process, rootless, sys, user_namespace, workspace,
};

impl Creation {
    pub fn state_dir(&mut self) -> Outcome<()> {
        let path = self.spec.state_dir.clone();
        self.hierarchies = Hierarchies::discover()?;
        for (_, cgroup) in self
            .hierarchies
            .paths(&self.spec.cgroup_parent, &self.spec.id)
        {
            if cgroup.exists() {
                return Err(Fault::of(
                    Kind::AlreadyExists,
                    format!(
                        "the cgroup {} already exists; destroy it first",
                        cgroup.display()
                    ),
                ));
            }
        }
        // SECURITY: only root can access its contents (socket, disk, log) (threat: replaced
        // sockets).
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Fault::of(
                    Kind::AlreadyExists,
                    format!("{} already exists", path.display()),
                ));
            }
            other => other.context(|| format!("making {}", path.display()))?,
        }
        self.begun = true;
        let directory = File::open(&path).context(|| format!("opening {}", path.display()))?;
        sys::lock(directory.as_fd()).context(|| format!("locking {}", path.display()))?;
        self.lock = Some(directory);
        self.check_wanted()?;
        self.reserved = Some(runtime::reserve_fds()?);
        let intent =
            serde_json::to_vec(&self.spec).context(|| "encoding the intent as JSON".into())?;
        record::write_atomically(&record::intent_path(&path), &intent)
    }

    /// Fails if the server is gone: its successor has destroyed every visible part of this sandbox.
    /// From here on, the locked directory is visible, and a teardown waits for it.
    fn check_wanted(&self) -> Outcome<()> {
        match self.server {
            Some(server) if sys::parent_id() != server => Err(Fault::new(
                "the launcher server has ended, so the sandbox was not created",
            )),
            _ => Ok(()),
        }
    }

    pub fn ids(&mut self) -> Outcome<()> {
        if sys::geteuid() == 0 {
            self.range = Some(ids::allocate(
                &self.spec.ids_dir,
                &self.spec.id,
                &self.spec.state_dir,
            )?);
            return Ok(());
        }
        let identity = rootless::enter()?;
        self.not_enforced
            .extend(identity.not_enforced().map(str::to_owned));
        self.rootless = Some(identity);
        Ok(())
    }

    pub fn disk(&mut self) -> Outcome<()> {
        match (&self.spec.disk, self.range) {
            (Some(disk), Some(_)) => {
                let image = disk::make_image(disk, Purpose::Sandbox, &self.image_path())?;
                self.image = Some(image);
            }
            _ => {
                self.make_plain_disk()?;
                self.not_enforced.push("disk_quota".to_owned());
            }
        }
        Ok(())
    }

    fn image_path(&self) -> PathBuf {
        self.spec.state_dir.join("disk.img")
    }

    fn make_plain_disk(&self) -> Outcome<()> {
        let path = self.spec.state_dir.join("disk");
        let made = fs::create_dir(&path)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .and_then(|()| disk::fill(&path, Purpose::Sandbox, self.disk_owners()));
        made.context(|| format!("creating the directories of {}", path.display()))
    }

    pub fn is_single(&self) -> bool {
        self.rootless.is_some_and(rootless::Identity::is_single)
    }

    fn disk_owners(&self) -> Owners {
        if self.is_single() {
            Owners::Root
        } else {
            Owners::AsListed
        }
    }

    /// A workspace stays if a later step fails: complete, and empty if it is new.
    pub fn workspace(&mut self) -> Outcome<()> {
        let form = match self.rootless {
            None => workspace::Form::Image,
            Some(_) => workspace::Form::Directory(self.disk_owners()),
        };
        if let Some(wanted) = &self.spec.workspace {
            self.workspace = Some(workspace::obtain(wanted, form)?);
        }
        for further in &self.spec.workspaces {
            let held = workspace::obtain(&further.workspace, form)?;
            self.further_workspaces.push(held);
        }
        Ok(())
    }

    pub fn user_namespace(&mut self) -> Outcome<()> {
        let procs = warm_up::own_procs(&self.hierarchies);
        if let Some(range) = self.range {
            let (namespace, warm_up) = user_namespace::make(range, procs)?;
            self.user_namespace = Some(namespace);
            self.warm_up = warm_up;
        } else {
            self.warm_up = procs.as_ref().and_then(WarmUp::fork);
        }
        // Without root, everything is charged to the user who runs the daemon.
        if self.rootless.is_some() || !user_namespace::is_joined_by(self.spec.runtime.kind) {
            self.not_enforced.push("shared_kernel_counts".to_owned());
        }
        Ok(())
    }

    pub fn mount_namespace(&mut self) -> Outcome<()> {
        let host =
            File::open("/proc/self/ns/mnt").context(|| "opening /proc/self/ns/mnt".into())?;
        self.host_mounts = Some(host.into());
        mounts::enter_private_namespace()
    }

    fn owner(&self) -> Owner<'_> {
        match (self.range, &self.user_namespace) {
            (Some(range), Some(namespace)) => Owner::Range {
                base: range.base,
                idmap: namespace.as_fd(),
            },
            _ => Owner::Ourselves,
        }
    }

    pub fn mount_disk(&mut self) -> Outcome<()> {
        match (&self.image, &self.spec.disk, self.owner()) {
            (Some(image), Some(disk), Owner::Range { idmap, .. }) => {
                let device = loops::attach_loop(image, &self.image_path())?;
                disk_mounts::mount_disk(&device, disk.bytes, idmap, &self.spec.state_dir)?;
                self.loop_device = Some(device.path);
                Ok(())
            }
            (_, _, owner) => disk_mounts::bind_disk(&self.spec.state_dir.join("disk"), owner),
        }
    }

    pub fn mount_workspace(&mut self) -> Outcome<()> {
        if let Some(workspace) = &self.workspace {
            self.place_workspace(workspace, &Place::own())?;
        }
        let further = self.further_workspaces.iter().zip(&self.spec.workspaces);
        for (number, (workspace, wanted)) in further.enumerate() {
            let place = Place::further(number, wanted.read_only)?;
            self.place_workspace(workspace, &place)?;
            mounts::make_mount_point(&wanted.path, self.owner())
                .context(|| format!("creating a mount point for {}", wanted.path.display()))?;
        }
        Ok(())
    }

    fn place_workspace(&self, workspace: &workspace::Held, place: &Place) -> Outcome<()> {
        match self.owner() {
            Owner::Range { idmap, .. } => workspace.mount(idmap, &self.spec.state_dir, place),
            Owner::Ourselves => workspace.bind(place),
        }
    }

    pub fn device_nodes(&mut self) -> Outcome<()> {
        device_nodes::make(self.owner())
    }

    pub fn mount_rootfs(&mut self) -> Outcome<()> {
        self.mount_image()
            .map_err(|fault| fault.or_kind(Kind::UnusableImage))
    }

    fn mount_image(&mut self) -> Outcome<()> {
        let image = mounts::mount_rootfs(&self.spec.rootfs, self.owner())?;
        let runner = mounts::mount_runner(&self.spec.runner)?;
        // Without root the disk is a directory of the host, which its mounts reveal.
        if self.rootless.is_some() || [image, runner].contains(&HostPaths::Visible) {
            self.not_enforced.push("host_paths".to_owned());
        }
        bundle::fill_sources(&mut self.config)?;
        bundle::add_workspaces(&mut self.config, &self.spec.workspaces);
        let root = mounts::open_root(&mounts::rootfs_path())?;
        mount_points::verify(root.as_fd(), &self.config)
    }

    pub fn cgroups(&mut self) -> Outcome<()> {
        let tolerant = self.rootless.is_some();
        let plan = cgroup::Plan {
            parent: &self.spec.cgroup_parent,
            id: &self.spec.id,
            limits: self.spec.limits,
            owner: self.range.map_or(0, |range| range.base),
            runtime: self.spec.runtime.kind,
            tolerant,
        };
        self.cgroups = cgroup::make(&self.hierarchies, &plan)?;
        self.not_enforced.extend(
            self.cgroups
                .not_enforced
                .iter()
                .map(|name| (*name).to_owned()),
        );
        cgroup_cover::hide_from_runtime(&self.hierarchies, self.spec.runtime.kind, tolerant)
    }

    pub fn socket(&mut self) -> Outcome<()> {
        let directory = self
            .lock
            .as_ref()
            .ok_or_else(|| Fault::new("the state directory is not open"))?;
        // Through the descriptor the path is short, whatever the length of the real one.
        let path = PathBuf::from(format!(
            "/proc/self/fd/{}/runner.sock",
            directory.as_raw_fd()
        ));
        let listener = UnixListener::bind(&path)
            .and_then(|listener| {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                Ok(listener)
            })
            .context(|| format!("listening at {}/runner.sock", self.spec.state_dir.display()))?;
        self.listener = Some(listener);
        Ok(())
    }

    pub fn record(&mut self) -> Outcome<()> {
        let pid = process::read_pid_file(&self.runtime_files().pid)?;
        let start_time = process::start_time(pid).ok_or_else(|| {
            let console =
                fs::read_to_string(self.spec.state_dir.join("console.log")).unwrap_or_default();
            Fault::new(format!(
                "the sandbox's first process, {pid}, exited immediately: {}",
                console.trim()
            ))
        })?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |age| age.as_millis() as u64);
        let record = Record {
            id: self.spec.id.clone(),
            pid,
            start_time,
            base: self.range.map_or(0, |range| range.base),
            size: self.range.map_or(0, |range| range.size),
            cgroups: std::mem::take(&mut self.cgroups.paths),
            mode: if self.rootless.is_some() {
                "rootless"
            } else {
                "root"
            }
            .to_owned(),
            not_enforced: std::mem::take(&mut self.not_enforced),
            created_at_ms: now,
            runtime: self.spec.runtime.clone(),
            loop_device: self.loop_device.take(),
            workspace: self.workspace.as_ref().map(workspace::Held::note),
            workspaces: (self.further_workspaces.iter())
                .map(workspace::Held::note)
                .collect(),
            meta: std::mem::take(&mut self.spec.meta),
        };
        let text = serde_json::to_vec(&record).context(|| "encoding the record as JSON".into())?;
        record::write_atomically(&record::record_path(&self.spec.state_dir), &text)?;
        self.record = Some(record);
        Ok(())
    }
}

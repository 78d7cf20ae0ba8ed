//! Creates a sandbox: a fixed list of steps, each of which leaves only what `destroy` can find.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::awaited_config::AwaitedConfig;
use crate::cgroup::Made;
use crate::fault::{Context, Fault, Kind, Outcome};
use crate::hierarchy::Hierarchies;
use crate::ids::IdRange;
use crate::record::Record;
use crate::rlimits::Rlimit;
use crate::runtime::{PASSED_FDS, ReservedFds, Running};
use crate::spec::CreateSpec;
use crate::warm_up::WarmUp;
use crate::{destroy, rootless, sys, workspace};

type Step = (&'static str, fn(&mut Creation) -> Outcome<()>);

const STEPS: [Step; 16] = [
    ("state_dir", Creation::state_dir),
    ("ids", Creation::ids),
    ("disk", Creation::disk),
    ("workspace", Creation::workspace),
    ("user_namespace", Creation::user_namespace),
    ("mount_namespace", Creation::mount_namespace),
    ("cgroups", Creation::cgroups),
    ("socket", Creation::socket),
    ("runtime", Creation::runtime),
    ("mount_disk", Creation::mount_disk),
    ("mount_workspace", Creation::mount_workspace),
    ("device_nodes", Creation::device_nodes),
    ("mount_rootfs", Creation::mount_rootfs),
    ("bundle", Creation::bundle),
    ("start", Creation::start),
    ("record", Creation::record),
];

pub fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

/// A failure and its step.
pub struct Failure {
    pub step: &'static str,
    pub fault: Fault,
}

/// A sandbox under construction.
pub struct Creation {
    pub spec: CreateSpec,
    /// The requesting process, if it may end before we are done.
    pub server: Option<u32>,
    /// True once there is something to undo.
    pub begun: bool,
    pub hierarchies: Hierarchies,
    pub warm_up: Option<WarmUp>,
    /// The host's mount namespace, to return to on failure.
    pub host_mounts: Option<OwnedFd>,
    /// Held during the create: a teardown of the same sandbox waits for it.
    pub lock: Option<File>,
    pub reserved: Option<ReservedFds>,
    pub range: Option<IdRange>,
    pub rootless: Option<rootless::Identity>,
    /// Maps the owners of mounts; the runtime joins it if possible.
    pub user_namespace: Option<OwnedFd>,
    pub image: Option<File>,
    pub loop_device: Option<PathBuf>,
    pub workspace: Option<workspace::Held>,
    /// In the order of the spec.
    pub further_workspaces: Vec<workspace::Held>,
    pub cgroups: Made,
    pub listener: Option<UnixListener>,
    pub pass: Option<[OwnedFd; PASSED_FDS]>,
    /// Passes the runner the file of its score.
    pub score: Option<UnixStream>,
    pub awaited_config: Option<AwaitedConfig>,
    pub running: Option<Running>,
    pub rlimits: Vec<Rlimit>,
    pub config: Map<String, Value>,
    pub not_enforced: Vec<String>,
    pub record: Option<Record>,
}

/// Creates the sandbox and returns its record, or undoes everything and returns the reason.
pub fn create(spec: CreateSpec, server: Option<u32>) -> Result<Value, Failure> {
    spec.check(&step_names()).map_err(|fault| Failure {
        step: "spec",
        fault: fault.or_kind(Kind::InvalidRequest),
    })?;
    sys::setsid();
    let mut creation = Creation::new(spec, server);
    let mut timings = Map::new();
    for (name, step) in STEPS {
        let started = Instant::now();
        let outcome = step(&mut creation).and_then(|()| creation.test_hooks(name));
        timings.insert(name.to_owned(), json!(started.elapsed().as_micros() as u64));
        if let Err(fault) = outcome {
            return Err(Failure {
                step: name,
                fault: creation.undo(fault),
            });
        }
    }
    let mut answer = json!(creation.record);
    answer["timings_us"] = Value::Object(timings);
    Ok(answer)
}

impl Creation {
    fn new(mut spec: CreateSpec, server: Option<u32>) -> Self {
        let config = std::mem::take(&mut spec.config);
        Creation {
            spec,
            server,
            config,
            begun: false,
            hierarchies: Hierarchies::default(),
            warm_up: None,
            host_mounts: None,
            lock: None,
            reserved: None,
            range: None,
            rootless: None,
            user_namespace: None,
            image: None,
            loop_device: None,
            workspace: None,
            further_workspaces: Vec::new(),
            cgroups: Made::default(),
            listener: None,
            pass: None,
            score: None,
            awaited_config: None,
            running: None,
            rlimits: Vec::new(),
            not_enforced: Vec::new(),
            record: None,
        }
    }

    fn test_hooks(&self, step: &str) -> Outcome<()> {
        if self.spec.die_after.as_deref() == Some(step) {
            sys::kill_self();
        }
        if self.spec.fail_after.as_deref() == Some(step) {
            return Err(Fault::new(format!(
                "failing after the step {step}, as requested"
            )));
        }
        Ok(())
    }

    /// Undoes everything with the code of `destroy`; a second failure is added to the first.
    fn undo(mut self, fault: Fault) -> Fault {
        if !self.begun {
            return fault;
        }
        let request = self.spec.destroy_request();
        match self
            .return_to_host()
            .and_then(|()| destroy::destroy_locked(&request))
        {
            Ok(()) => fault,
            Err(second) => Fault::of(
                fault.kind(),
                format!("{fault}; cleanup also failed: {second}"),
            ),
        }
    }

    /// Releases all mounts, which end with the namespace, and everything else that keeps the disk
    /// in use.
    fn return_to_host(&mut self) -> Outcome<()> {
        self.image = None;
        self.workspace = None;
        self.further_workspaces.clear();
        self.listener = None;
        self.pass = None;
        self.cgroups = Made::default();
        self.end_runtime()?;
        match (&self.host_mounts, &self.rootless) {
            (Some(host), None) => sys::setns(host.as_fd(), libc::CLONE_NEWNS)
                .context(|| "returning to the host's mount namespace".into()),
            (Some(_), Some(_)) => {
                rootless::uncover();
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

//! The steps of a create in which the runtime is started.

use std::fs;
use std::io::PipeReader;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::awaited_config::AwaitedConfig;
use crate::create::Creation;
use crate::fault::{Context, Fault, Outcome};
use crate::runtime::{self, Running, Start};
use crate::runtime_files::RuntimeFiles;
use crate::spec::RuntimeKind;
use crate::{
    bundle, devices, ids, network, oom, process, record, rlimits, rootless, user_namespace,
};

impl Creation {
    pub fn runtime_files(&self) -> RuntimeFiles {
        RuntimeFiles::of(&self.spec, self.rootless.is_none())
    }

    /// Starts crun early, if a teardown of an interrupted create can find it by its cgroups alone.
    pub fn runtime(&mut self) -> Outcome<()> {
        let files = self.runtime_files();
        fs::create_dir(&files.bundle).context(|| format!("making {}", files.bundle.display()))?;
        ids::make_private_directory(&files.root)?;
        if files.in_memory && self.spec.runtime.kind == RuntimeKind::Crun {
            let (config, pipe) = AwaitedConfig::make(&files.config(), runtime::AWAITED_CONFIG_FD)?;
            self.awaited_config = Some(config);
            self.begin_runtime(Some(&pipe))?;
        }
        Ok(())
    }

    fn begin_runtime(&mut self, awaited_config: Option<&PipeReader>) -> Outcome<()> {
        if self.pass.is_none() {
            self.pass = Some(self.passed_fds()?);
        }
        let pass = self
            .pass
            .as_ref()
            .ok_or_else(|| Fault::new("the sandbox has no descriptors"))?;
        let running = runtime::begin(&Start {
            runtime: &self.spec.runtime,
            id: &self.spec.id,
            files: &self.runtime_files(),
            join: &self.cgroups.join,
            rlimits: std::mem::take(&mut self.rlimits),
            pass,
            awaited_config,
        })?;
        self.running = Some(running);
        Ok(())
    }

    fn passed_fds(&mut self) -> Outcome<[OwnedFd; runtime::PASSED_FDS]> {
        let listener = self
            .listener
            .take()
            .ok_or_else(|| Fault::new("the sandbox has no socket"))?;
        let (score, scores) = UnixStream::pair().context(|| "creating a socket pair".into())?;
        self.score = Some(score);
        Ok([
            listener.into(),
            or_nothing(self.cgroups.runner_dir.take())?,
            or_nothing(self.cgroups.memory_events.take().map(OwnedFd::from))?,
            scores.into(),
        ])
    }

    pub fn end_runtime(&mut self) -> Outcome<()> {
        self.running.take().map_or(Ok(()), Running::end)
    }

    pub fn bundle(&mut self) -> Outcome<()> {
        let range = self.range.or(self.rootless.map(rootless::Identity::range));
        let range = range.ok_or_else(|| Fault::new("the sandbox has no id range"))?;
        let runtime = self.spec.runtime.kind;
        bundle::finish(&mut self.config, range)?;
        if let Some(namespace) = &self.user_namespace
            && user_namespace::is_joined_by(runtime)
        {
            let path = user_namespace::path_of(namespace.as_fd());
            bundle::join_user_namespace(&mut self.config, &path)?;
            if rlimits::are_ours_to_set(runtime) {
                self.rlimits = rlimits::take(&mut self.config)?;
            }
        }
        if self.rootless.is_some() {
            bundle::bind_device_nodes(&mut self.config);
        }
        if self.is_single() {
            bundle::leave_out_other_groups(&mut self.config);
        }
        let text = serde_json::to_vec(&self.config)
            .context(|| "encoding the configuration as JSON".into())?;
        match self.awaited_config.take() {
            None => record::write_atomically(&self.runtime_files().config(), &text),
            Some(awaited) => awaited.give(&text, runtime::DEADLINE),
        }
    }

    pub fn start(&mut self) -> Outcome<()> {
        if self.running.is_none() {
            self.begin_runtime(None)?;
        }
        let files = self.runtime_files();
        let (Some(running), Some(score)) = (self.running.take(), self.score.take()) else {
            return Err(Fault::new("the runtime was not started"));
        };
        let (runtime, state_dir) = (&self.spec.runtime, &self.spec.state_dir);
        running.finish(runtime, &files, state_dir, self.warm_up.take())?;
        self.pass = None;
        let pid = process::read_pid_file(&files.pid)?;
        oom::hand_score(&score, pid)?;
        // gVisor has its own network stack, which cannot be reached from here.
        if self.spec.network && runtime.kind != RuntimeKind::Runsc {
            network::give_range(pid)?;
        }
        match &self.cgroups.devices {
            Some(cgroup) => devices::restrict_after_start(cgroup, runtime.kind),
            None => Ok(()),
        }
    }
}

/// The runner gets an empty file in place of what this machine cannot provide.
fn or_nothing(fd: Option<OwnedFd>) -> Outcome<OwnedFd> {
    match fd {
        Some(fd) => Ok(fd),
        None => runtime::empty_file(),
    }
}

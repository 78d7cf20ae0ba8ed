//! An isolated environment for each test: a busybox image, a sandbox directory, a cgroup parent,
//! and a check that nothing is left of it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const HIERARCHIES: &str = "/sys/fs/cgroup";
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// The user who runs the launcher.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Root,
    Nobody,
}

const UNPRIVILEGED_ID: u32 = 64_321;

/// The environment of one test; removed on drop.
pub struct World {
    pub base: PathBuf,
    pub cgroup_parent: String,
    pub caller: Caller,
    launcher: PathBuf,
}

/// Why the tests cannot run here, if so.
pub fn missing(runtime: &str) -> Option<String> {
    if unsafe { libc::geteuid() } != 0 {
        return Some("not root".into());
    }
    for needed in ["/bin/busybox", &runtime_path(runtime)] {
        if !Path::new(needed).exists() {
            return Some(format!("{needed} is not installed"));
        }
    }
    None
}

/// gVisor as built by set-up, because distributions have no recent enough version.
pub fn runtime_path(kind: &str) -> String {
    if kind == "runsc" {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let built = project.unwrap().join(".toolchain/runtimes/runsc");
        return built.display().to_string();
    }
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .iter()
        .map(|directory| format!("{directory}/{kind}"))
        .find(|path| Path::new(path).exists())
        .unwrap_or_else(|| format!("/usr/bin/{kind}"))
}

/// Creates a world, or prints why the test is skipped and returns from it.
#[macro_export]
macro_rules! world_or_skip {
    ($runtime:expr) => {
        match support::missing($runtime) {
            Some(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
            None => support::World::new(support::Caller::Root),
        }
    };
}

impl World {
    pub fn new(caller: Caller) -> World {
        World::named(caller, "t")
    }

    pub fn named(caller: Caller, suffix: &str) -> World {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandkasten-test-{}-{number}", std::process::id());
        let base = std::env::temp_dir().join(&name).join(suffix);
        fs::create_dir_all(base.join("sandboxes")).unwrap();
        let launcher = base.join("launcher");
        // Copied by another process: a child forked while we have the copy open for writing would
        // keep it open, and a file that is open for writing cannot be executed.
        let copied = Command::new("cp")
            .args([Path::new(env!("CARGO_BIN_EXE_launcher")), &launcher])
            .status()
            .unwrap();
        assert!(copied.success());
        let world = World {
            base,
            cgroup_parent: name,
            caller,
            launcher,
        };
        world.make_image();
        if caller == Caller::Nobody {
            for path in [world.base.clone(), world.base.join("sandboxes")] {
                std::os::unix::fs::chown(path, Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID))
                    .unwrap();
            }
        }
        world
    }

    pub fn image(&self) -> PathBuf {
        self.base.join("image")
    }

    fn make_image(&self) {
        let image = self.image();
        for directory in [
            "bin",
            "dev",
            "proc",
            "tmp",
            "workspace",
            "run",
            "home/sandbox",
            "etc",
            "host",
        ] {
            fs::create_dir_all(image.join(directory)).unwrap();
        }
        fs::copy("/bin/busybox", image.join("bin/busybox")).unwrap();
        fs::set_permissions(image.join("bin/busybox"), fs::Permissions::from_mode(0o755)).unwrap();
        for applet in [
            "sh", "sleep", "ls", "cat", "id", "dd", "env", "touch", "stat", "mkdir", "cp", "chmod",
            "wc",
        ] {
            symlink("busybox", image.join("bin").join(applet)).unwrap();
        }
    }

    pub fn state_dir(&self, id: &str) -> PathBuf {
        self.base.join("sandboxes").join(id)
    }

    pub fn runtime_root(&self) -> PathBuf {
        self.base.join("runtime")
    }

    /// A spec whose sandbox runs `script` and then sleeps.
    pub fn spec(&self, id: &str, runtime: &str, script: &str) -> Value {
        json!({
            "id": id,
            "state_dir": self.state_dir(id),
            "ids_dir": self.base.join("ids"),
            "runtime": { "kind": runtime, "path": runtime_path(runtime), "root": self.runtime_root() },
            "rootfs": { "path": self.image(), "binds": [], "writable": false },
            "runner": "/bin/busybox",
            "disk": { "bytes": 16 << 20, "inodes": 1024, "templates_dir": self.base.join("templates") },
            "limits": { "memory_bytes": 128 << 20, "cpu_millicores": 1500, "pids": 64 },
            "cgroup_parent": self.cgroup_parent,
            "config": config(script),
            "meta": { "image": "busybox" },
        })
    }

    /// The same with a workspace of 16 MiB, created if it does not exist.
    pub fn with_workspace(&self, mut spec: Value, id: &str) -> Value {
        spec["workspace"] = json!({
            "id": id,
            "workspaces_dir": self.base.join("workspaces"),
            "disk": { "bytes": 16 << 20, "inodes": 1024, "templates_dir": self.base.join("templates") },
        });
        spec
    }

    pub fn workspace_dir(&self, id: &str) -> PathBuf {
        self.base.join("workspaces").join(id)
    }

    /// All workspaces, as (id, bytes).
    pub fn workspaces(&self) -> Vec<(String, u64)> {
        let request = json!({ "workspaces_dir": self.base.join("workspaces") });
        let answer = self.run("list-workspaces", &request).unwrap();
        let found = answer["workspaces"].as_array().unwrap().iter();
        found
            .map(|entry| {
                let id = entry["id"].as_str().unwrap().to_owned();
                (id, entry["bytes"].as_u64().unwrap())
            })
            .collect()
    }

    pub fn destroy_workspace(&self, id: &str) -> Result<Value, String> {
        self.run(
            "destroy-workspace",
            &json!({
                "id": id,
                "workspaces_dir": self.base.join("workspaces"),
                "sandboxes_dir": self.base.join("sandboxes"),
            }),
        )
    }

    pub fn run(&self, command: &str, request: &Value) -> Result<Value, String> {
        let mut process = Command::new(&self.launcher);
        process
            .arg(command)
            .env("SANDKASTEN_TEST_SECRET", "do-not-tell")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if self.caller == Caller::Nobody {
            process.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
        }
        let mut child = process.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        match stdin.write_all(request.to_string().as_bytes()) {
            // A command without a request may have ended already.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        match (output.status.success(), answer["error"]["message"].as_str()) {
            (true, None) => Ok(answer),
            (false, Some(message)) => Err(format!(
                "{}: {message}",
                answer["error"]["step"].as_str().unwrap()
            )),
            _ => Err(format!("{}: {text}", output.status)),
        }
    }

    pub fn create(&self, spec: &Value) -> Result<Value, String> {
        self.run("create", spec)
    }

    pub fn destroy(&self, id: &str) -> Result<Value, String> {
        self.run(
            "destroy",
            &json!({
                "id": id,
                "state_dir": self.state_dir(id),
                "ids_dir": self.base.join("ids"),
                "cgroup_parent": self.cgroup_parent,
                // Taken from the record that the create returned.
                "runtime": null,
            }),
        )
    }

    /// The state of a sandbox in the list, if it is there.
    pub fn listed(&self, id: &str) -> Option<String> {
        let request = json!({
            "sandboxes_dir": self.base.join("sandboxes"),
            "ids_dir": self.base.join("ids"),
            "cgroup_parent": self.cgroup_parent,
        });
        let answer = self.run("list", &request).unwrap();
        let found = answer["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["id"] == id)?;
        Some(found["state"].as_str().unwrap().to_owned())
    }

    /// Everything on this machine that belongs to sandboxes of this world.
    pub fn traces(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for directory in ["sandboxes", "ids", "runtime"] {
            for entry in fs::read_dir(self.base.join(directory))
                .into_iter()
                .flatten()
                .flatten()
            {
                found.insert(format!("file {}", entry.path().display()));
            }
        }
        for cgroup in self.cgroups().into_iter().filter(|path| path.exists()) {
            found.insert(format!("cgroup {}", cgroup.display()));
            for entry in fs::read_dir(cgroup)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.path().is_dir())
            {
                found.insert(format!("cgroup {}", entry.path().display()));
            }
        }
        let base = self.base.to_str().unwrap();
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
            if line.contains(base) || line.contains(" /sys/firmware ") {
                found.insert(format!("mount {line}"));
            }
        }
        for device in self.loops() {
            found.insert(format!("loop {device}"));
        }
        found
    }

    pub fn loops(&self) -> Vec<String> {
        let devices = fs::read_dir("/sys/block").unwrap().flatten();
        let backing = devices
            .filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
        backing
            .filter(|file| file.contains(self.base.to_str().unwrap()))
            .collect()
    }

    pub fn assert_no_trace(&self, when: &str) {
        assert_eq!(self.traces(), BTreeSet::new(), "left over {when}");
    }

    /// The parent of the sandboxes' cgroups in every hierarchy, whether it exists or not.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let hierarchies = fs::read_dir(HIERARCHIES)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        hierarchies
            .chain([PathBuf::from(HIERARCHIES)])
            .map(|root| root.join(&self.cgroup_parent))
            .collect()
    }

    /// The sandbox's output once it printed the line `done`.
    pub fn printed(&self, record: &Value) -> String {
        let console = format!("/proc/{}/fd/1", record["pid"]);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let bytes = fs::read(&console).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes)
                .trim_end_matches('\0')
                .to_owned();
            if text.contains("done\n") {
                return text;
            }
            assert!(
                Instant::now() < deadline,
                "the sandbox has only printed: {text}"
            );
            sleep(Duration::from_millis(5));
        }
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(
            Instant::now() < deadline,
            "timed out after 10 s, waiting until: {what}"
        );
        sleep(Duration::from_millis(2));
    }
}

/// The names of the steps of a create, in order.
pub fn steps() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_launcher"))
        .arg("steps")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        let left: Vec<_> = fs::read_dir(self.base.join("sandboxes"))
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        for entry in left {
            if let Err(error) = self.destroy(entry.file_name().to_str().unwrap()) {
                eprintln!("cleaning up: {error}");
            }
        }
        for cgroup in self.cgroups().into_iter().filter(|path| path.exists()) {
            fs::remove_dir(cgroup).ok();
        }
        fs::remove_dir_all(&self.base).ok();
        fs::remove_dir(self.base.parent().unwrap()).ok();
    }
}

/// A configuration as the daemon creates it, without the seccomp profile.
fn config(script: &str) -> Value {
    let capabilities = json!(["CAP_SETUID", "CAP_SETGID", "CAP_KILL"]);
    let tmpfs = |at: &str, options: &str| json!({ "destination": at, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", options] });
    let bind = |at: &str, from: &str, access: &str| json!({ "destination": at, "type": "bind", "source": from, "options": ["bind", "nosuid", "nodev", access] });
    let namespaces: Vec<Value> = ["pid", "network", "ipc", "uts", "mount", "user"]
        .map(|kind| json!({ "type": kind }))
        .to_vec();
    json!({
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/sh", "-c", format!("{script}\nexec sleep 1000")],
            "env": ["PATH=/bin"],
            "cwd": "/workspace",
            "noNewPrivileges": true,
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
        },
        "root": { "readonly": true },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"] },
            { "destination": "/dev", "type": "bind", "source": "@dev", "options": ["rbind", "rw", "nosuid", "noexec"] },
            { "destination": "/dev/pts", "type": "devpts", "source": "devpts",
              "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] },
            tmpfs("/tmp", "mode=1777"),
            tmpfs("/run", "mode=755"),
            bind("/run/sandkasten/runner", "@runner", "ro"),
            bind("/workspace", "@disk/workspace", "rw"),
            bind("/home/sandbox", "@disk/home", "rw"),
        ],
        "linux": { "namespaces": namespaces, "maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"] },
    })
}

//! Tests the launcher's own isolation guarantees, from inside and outside of sandboxes.

mod support;

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

fn read(directory: &Value, file: &str) -> String {
    fs::read_to_string(Path::new(directory.as_str().unwrap()).join(file))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn linked_mount_points_are_refused() {
    let world = world_or_skip!("crun");
    let target = world.base.join("target");
    fs::create_dir(&target).unwrap();
    for (linked, destination) in [
        ("workspace", "/workspace"),
        ("dev", "/dev"),
        ("proc", "/proc"),
        ("home", "/home/sandbox"),
    ] {
        let path = world.image().join(linked);
        let kept = world.base.join("kept");
        fs::rename(&path, &kept).unwrap();
        symlink(&target, &path).unwrap();
        let error = world
            .create(&world.spec("sbx_link", "crun", ""))
            .unwrap_err();
        assert!(
            error.starts_with("mount_rootfs: ") && error.contains(&format!(" {destination} ")),
            "{error}"
        );
        world.assert_no_trace("after a refusal");
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    assert_eq!(
        fs::read_dir(target).unwrap().count(),
        0,
        "something was written through a link"
    );
}

#[test]
fn a_missing_mount_point_is_refused_by_name() {
    let world = world_or_skip!("crun");
    fs::remove_dir(world.image().join("workspace")).unwrap();
    let error = world
        .create(&world.spec("sbx_gone", "crun", ""))
        .unwrap_err();
    assert!(
        error.contains("the mount point /workspace is not a real directory"),
        "{error}"
    );
}

#[test]
fn a_working_directory_that_leads_elsewhere_is_refused() {
    let world = world_or_skip!("crun");
    symlink("/", world.image().join("etc/loop")).unwrap();
    for cwd in [
        "/proc/self/fd/7",
        "/proc",
        "/etc/loop",
        "/etc/../etc",
        "/tmp/deeper",
        "relative",
    ] {
        let mut spec = world.spec("sbx_cwd", "crun", "");
        spec["config"]["process"]["cwd"] = json!(cwd);
        let error = world.create(&spec).unwrap_err();
        assert!(error.contains("working directory"), "{cwd}: {error}");
        world.assert_no_trace("after a refusal");
    }
}

#[test]
fn odd_names_are_refused() {
    let world = world_or_skip!("crun");
    for id in ["..", "a/b", "", "-x", "A", "x\n", &"x".repeat(65)] {
        let mut spec = world.spec("sbx_odd", "crun", "");
        spec["id"] = json!(id);
        let error = world.create(&spec).unwrap_err();
        assert!(error.starts_with("spec: "), "{id:?}: {error}");
    }
    for (key, value) in [
        ("cgroup_parent", "../x"),
        ("cgroup_parent", ""),
        ("state_dir", "/tmp/../etc"),
        ("state_dir", "/etc"),
    ] {
        let mut spec = world.spec("sbx_odd", "crun", "");
        spec[key] = json!(value);
        assert!(
            world.create(&spec).unwrap_err().starts_with("spec: "),
            "{key} {value}"
        );
        let request = json!({ "id": "sbx_odd", "state_dir": spec["state_dir"], "ids_dir": spec["ids_dir"], "cgroup_parent": spec["cgroup_parent"] });
        world.run("destroy", &request).unwrap_err();
    }
    world.assert_no_trace("after refusals");
}

#[test]
fn a_missing_namespace_is_refused() {
    let world = world_or_skip!("crun");
    for kind in ["user", "pid", "mount", "network", "ipc", "uts"] {
        let mut spec = world.spec("sbx_ns", "crun", "");
        let namespaces = spec["config"]["linux"]["namespaces"]
            .as_array_mut()
            .unwrap();
        namespaces.retain(|namespace| namespace["type"] != kind);
        let error = world.create(&spec).unwrap_err();
        assert!(
            error.contains(&format!("does not request a new {kind} namespace")),
            "{error}"
        );
    }
    world.assert_no_trace("after refusals");
}

/// The descriptor returned by a namespace ioctl, or a value written to `answer`.
fn ask_namespace(file: &fs::File, question: libc::c_ulong, answer: &mut u32) -> i32 {
    // SAFETY: a live descriptor and a live place for the answer, which some questions leave alone.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), question, answer) };
    assert!(result >= 0, "{}", std::io::Error::last_os_error());
    result
}

#[test]
fn what_the_kernel_counts_is_charged_to_the_sandbox() {
    const NS_GET_USERNS: libc::c_ulong = 0xb701;
    const NS_GET_OWNER_UID: libc::c_ulong = 0xb704;
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world
            .create(&world.spec("sbx_account", runtime, ""))
            .unwrap();
        let open =
            |name: &str| fs::File::open(format!("/proc/{}/ns/{name}", record["pid"])).unwrap();
        let user = open("user");
        let mut owner = 0;
        ask_namespace(&user, NS_GET_OWNER_UID, &mut owner);
        assert_eq!(json!(owner), record["base"], "{runtime}");
        for name in ["pid", "mnt", "net", "ipc", "uts"] {
            let fd = ask_namespace(&open(name), NS_GET_USERNS, &mut 0);
            // SAFETY: the kernel has just made this descriptor for us.
            let above = fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
            let inode = |file: &fs::File| file.metadata().unwrap().ino();
            assert_eq!(inode(&above), inode(&user), "{name} with {runtime}");
        }
        world.destroy("sbx_account").unwrap();
        world.assert_no_trace("after the account was closed");
    }
}

#[test]
fn the_kernel_kills_sandboxes_before_the_daemon() {
    let score = |process: &str| -> i32 {
        let text = fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap();
        text.trim().parse().unwrap()
    };
    let own = score("self");
    if own >= 500 {
        eprintln!("skipped: this process goes first already");
        return;
    }
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world.create(&world.spec("sbx_score", runtime, "")).unwrap();
        assert_eq!(score(&record["pid"].to_string()), 500, "{runtime}");
        assert_eq!(score("self"), own, "{runtime}");
        world.destroy("sbx_score").unwrap();
    }
}

#[test]
fn process_limits_are_enforced() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let mut spec = world.spec("sbx_rlimits", runtime, "");
        spec["config"]["process"]["rlimits"] = json!([
            { "type": "RLIMIT_NOFILE", "soft": 100, "hard": 200 },
            { "type": "RLIMIT_CORE", "soft": 0, "hard": 0 },
            { "type": "RLIMIT_MSGQUEUE", "soft": 0, "hard": 4096 },
        ]);
        let record = world.create(&spec).unwrap();
        let limits = fs::read_to_string(format!("/proc/{}/limits", record["pid"])).unwrap();
        let hard = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            let numbers = line[name.len()..].split_ascii_whitespace();
            numbers.clone().nth(1).unwrap().to_owned()
        };
        for (name, value) in [
            ("Max open files", "200"),
            ("Max core file size", "0"),
            ("Max msgqueue size", "4096"),
        ] {
            assert_eq!(hard(name), value, "{name} with {runtime}");
        }
        world.destroy("sbx_rlimits").unwrap();
        spec["config"]["process"]["rlimits"] =
            json!([{ "type": "RLIMIT_UNHEARD_OF", "soft": 0, "hard": 0 }]);
        world.create(&spec).unwrap_err();
        world.assert_no_trace("after a limit that nobody knows");
    }
}

#[test]
fn joining_a_foreign_user_namespace_is_refused() {
    let world = world_or_skip!("crun");
    let mut spec = world.spec("sbx_joins", "crun", "");
    for namespace in spec["config"]["linux"]["namespaces"]
        .as_array_mut()
        .unwrap()
    {
        if namespace["type"] == "user" {
            namespace["path"] = json!("/proc/self/ns/user");
        }
    }
    let error = world.create(&spec).unwrap_err();
    assert!(
        error.contains("does not request a new user namespace"),
        "{error}"
    );
    world.assert_no_trace("after a refusal");
}

#[test]
fn a_full_disk_affects_only_its_sandbox() {
    let world = world_or_skip!("crun");
    let script = "dd if=/dev/zero of=big bs=1M count=64 2>&1\n i=0; while touch f$i 2>/dev/null; do i=$((i+1)); done; echo files $i\necho done";
    let mut spec = world.spec("sbx_full", "crun", script);
    spec["config"]["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
    let record = world.create(&spec).unwrap();
    let printed = world.printed(&record);
    assert!(printed.contains("No space left on device"), "{printed}");
    let files: u64 = printed
        .lines()
        .find_map(|line| line.strip_prefix("files "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(files < 1024, "{files} files on a disk of 1024 inodes");
    let image = fs::metadata(world.state_dir("sbx_full").join("disk.img")).unwrap();
    assert!(image.blocks() * 512 <= 17 << 20 && image.mode() & 0o777 == 0o600);
    world.destroy("sbx_full").unwrap();
    world.assert_no_trace("after a full disk");
}

#[test]
fn the_disk_belongs_to_the_sandbox_ids() {
    let world = world_or_skip!("crun");
    let script = "stat -c '%n %u:%g %a' / /workspace /home/sandbox\necho done";
    let record = world
        .create(&world.spec("sbx_owner", "crun", script))
        .unwrap();
    let printed = world.printed(&record);
    for line in [
        "/ 0:0 755",
        "/workspace 1000:1000 755",
        "/home/sandbox 1000:1000 750",
    ] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    world.destroy("sbx_owner").unwrap();
}

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Owner, mode and time of change of the host's devices.
fn host_devices() -> Vec<(u32, u32, u32, i64)> {
    let look = |name: &str| fs::metadata(format!("/dev/{name}")).unwrap();
    let devices = DEVICES.iter().map(|name| look(name));
    devices
        .map(|found| (found.uid(), found.gid(), found.mode(), found.mtime()))
        .collect()
}

#[test]
fn device_nodes_belong_to_the_sandbox() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let script = "cd /dev; for d in null zero full random urandom tty; do chmod 0604 $d && busybox chown 7:8 $d && touch -d '2001-02-03 00:00:00' $d && stat -c '%n %a %u:%g %Y' $d; done\nbusybox mknod /dev/mem c 1 1 || echo refused\necho done";
        let mut spec = world.spec("sbx_nodes", runtime, script);
        let powers = json!(["CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE", "CAP_MKNOD"]);
        spec["config"]["process"]["capabilities"] =
            json!({ "bounding": powers, "effective": powers, "permitted": powers });
        let record = world.create(&spec).unwrap();
        let printed = world.printed(&record);
        for name in DEVICES {
            let changed = format!("{name} 604 7:8 981158400");
            assert!(printed.contains(&changed), "{runtime}: {printed}");
        }
        assert!(printed.contains("refused"), "{runtime}: {printed}");
        let base = record["base"].as_u64().unwrap() as u32;
        let own = base..base + 65_536;
        for (uid, gid, mode, time) in host_devices() {
            assert!(!own.contains(&uid) && !own.contains(&gid), "{runtime}");
            assert_eq!(mode & 0o7777, 0o666, "{runtime}");
            assert_ne!(time, 981_158_400, "{runtime}");
        }
        world.destroy("sbx_nodes").unwrap();
        world.assert_no_trace("after device nodes");
    }
}

#[test]
fn host_devices_are_not_changed() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world
            .create(&world.spec("sbx_given", runtime, "echo done"))
            .unwrap();
        world.printed(&record);
        let base = record["base"].as_u64().unwrap() as u32;
        for (name, (uid, gid, ..)) in DEVICES.iter().zip(host_devices()) {
            assert!(
                uid < base || uid >= base + 65_536,
                "{runtime}: {name} is {uid}"
            );
            assert!(
                gid < base || gid >= base + 65_536,
                "{runtime}: {name} is {gid}"
            );
        }
        for fd in 0..3 {
            let open = fs::read_link(format!("/proc/{}/fd/{fd}", record["pid"])).unwrap();
            assert!(
                open.to_str().unwrap().starts_with("/memfd:"),
                "{runtime}: {fd} is {open:?}"
            );
        }
        world.destroy("sbx_given").unwrap();
    }
}

#[test]
fn device_nodes_work_as_devices() {
    let script = "echo lost > /dev/null && dd if=/dev/zero bs=8 count=1 2>/dev/null | wc -c; dd if=/dev/urandom bs=8 count=1 2>/dev/null | wc -c; echo x > /dev/full || echo full; ls -l /dev/fd /dev/stdin /dev/ptmx; ls -d /dev/pts\necho done";
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world
            .create(&world.spec("sbx_devices", runtime, script))
            .unwrap();
        let printed = world.printed(&record);
        assert!(printed.starts_with("8\n8\n"), "{runtime}: {printed}");
        for part in [
            "full\n",
            "-> /proc/self/fd\n",
            "-> pts/ptmx\n",
            "/dev/pts\n",
        ] {
            assert!(printed.contains(part), "{runtime}: {part:?} in {printed}");
        }
        world.destroy("sbx_devices").unwrap();
    }
}

#[test]
fn mounts_reveal_no_host_paths() {
    for (runtime, writable) in [
        ("crun", false),
        ("crun", true),
        ("runc", false),
        ("runc", true),
    ] {
        let world = world_or_skip!(runtime);
        let spec = world.spec("sbx_paths", runtime, "cat /proc/self/mountinfo\necho done");
        let mut spec = world.with_workspace(spec, "wsp_paths");
        spec["rootfs"]["writable"] = json!(writable);
        spec["config"]["root"]["readonly"] = json!(!writable);
        let record = world.create(&spec).unwrap();
        let mounts = world.printed(&record);
        let places = [
            world.base.to_str().unwrap(),
            world.cgroup_parent.as_str(),
            "/usr/bin",
        ];
        for place in places {
            assert!(!mounts.contains(place), "{runtime}: {place} is in {mounts}");
        }
        assert!(mounts.contains(" /workspace "), "{mounts}");
        assert_eq!(record["not_enforced"], json!([]));
        world.destroy("sbx_paths").unwrap();
        world.assert_no_trace("after mounts without paths");
    }
}

#[test]
fn damaged_devices_are_repaired() {
    let world = world_or_skip!("crun");
    let dev = world.base.join("dev");
    fs::create_dir(&dev).unwrap();
    let make = |name: &str, minor: u32, owner: u32, mode: u32| {
        let path = dev.join(name);
        let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a NUL-terminated string and plain numbers.
        let made = unsafe { libc::mknod(text.as_ptr(), libc::S_IFCHR, libc::makedev(1, minor)) };
        assert_eq!(made, 0);
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    make("null", 3, 1_000_000 + 7 * 65_536, 0o667);
    // Set by an administrator, who may need it.
    make("zero", 5, 1234, 0o600);
    // Not the device that belongs to this name.
    make("full", 1, 1_000_000, 0o600);
    let answer = world
        .run("repair-devices", &json!({ "dev_dir": dev }))
        .unwrap();
    assert_eq!(answer["repaired"], json!([dev.join("null")]));
    let look = |name: &str| {
        let found = fs::metadata(dev.join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(look("null"), (0, 0, 0o666));
    assert_eq!(look("zero"), (1234, 1234, 0o600));
    assert_eq!(look("full"), (1_000_000, 1_000_000, 0o600));
}

#[test]
fn limits_are_read_back() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world
            .create(&world.spec("sbx_limits", runtime, ""))
            .unwrap();
        let cgroups = &record["cgroups"];
        if cgroups["memory"].is_null() {
            eprintln!("skipped: cgroup v1 limits (this machine has v2 only)");
            assert_eq!(
                read(&cgroups["unified"], "memory.max"),
                (128 << 20).to_string()
            );
            assert_eq!(read(&cgroups["unified"], "pids.max"), "64");
            continue;
        }
        assert_eq!(
            read(&cgroups["memory"], "memory.limit_in_bytes"),
            (128 << 20).to_string()
        );
        assert_eq!(read(&cgroups["pids"], "pids.max"), "64");
        assert_eq!(read(&cgroups["cpu"], "cpu.cfs_quota_us"), "150000");
        let devices = read(&cgroups["devices"], "devices.list");
        assert_eq!(devices.lines().count(), 8, "{devices}");
        let joined = fs::read_to_string(format!("/proc/{}/cgroup", record["pid"])).unwrap();
        for controller in ["memory", "pids", "cpu", "freezer", "devices"] {
            let line = joined
                .lines()
                .find(|line| line.split(':').nth(1) == Some(controller))
                .unwrap();
            assert!(line.contains("/sbx_limits"), "{line}");
            if runtime == "runc" && controller == "devices" {
                let nested = format!("/sys/fs/cgroup/devices{}", line.split(':').nth(2).unwrap());
                assert!(
                    !read(&json!(nested), "devices.list").contains("10:200"),
                    "runc's own rules are wider"
                );
            }
        }
        world.destroy("sbx_limits").unwrap();
    }
}

#[test]
fn the_runner_owns_only_the_cgroup_files_it_needs() {
    let world = world_or_skip!("crun");
    let record = world.create(&world.spec("sbx_given", "crun", "")).unwrap();
    let unified = Path::new(record["cgroups"]["unified"].as_str().unwrap());
    let owner = |file: &str| fs::metadata(unified.join(file)).unwrap().uid();
    let base = record["base"].as_u64().unwrap() as u32;
    for given in [
        "",
        "cgroup.procs",
        "cgroup.threads",
        "cgroup.subtree_control",
        "init",
        "init/cgroup.procs",
    ] {
        assert_eq!(owner(given), base, "{given}");
    }
    for kept in ["cgroup.kill", "cgroup.freeze", "cgroup.max.descendants"] {
        assert_eq!(owner(kept), 0, "{kept}");
    }
    world.destroy("sbx_given").unwrap();
}

#[test]
fn inherited_descriptors_lead_nowhere() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let script = "ls /proc/1/fd\necho below; ls /proc/1/fd/4/; echo above; ls /proc/1/fd/4/../../..; echo own; mkdir /proc/1/fd/4/mine && echo $$ > /proc/1/fd/4/mine/cgroup.procs && cat /proc/self/cgroup; cat /proc/1/fd/5; echo env; env\necho done";
        let record = world
            .create(&world.spec("sbx_fds", runtime, script))
            .unwrap();
        let printed = world.printed(&record);
        let part = |from: &str, to: &str| {
            let start = printed.find(from).unwrap() + from.len();
            printed[start..start + printed[start..].find(to).unwrap()].to_owned()
        };
        assert_eq!(
            part("below\n", "above\n"),
            part("above\n", "own\n"),
            "the descriptor leads upwards"
        );
        assert!(part("below\n", "above\n").contains("cgroup.procs"));
        assert!(part("own\n", "env\n").contains("sbx_fds/mine"), "{printed}");
        assert!(part("own\n", "env\n").contains("oom_kill"), "{printed}");
        assert!(!printed.contains("do-not-tell"));
        assert!(!printed.contains("CLONED_BINARY"), "{printed}");
        // sh may hold the directory it lists or a script open, never more than one besides the
        // passed ones.
        let highest: u32 = printed
            .lines()
            .map_while(|line| line.parse().ok())
            .max()
            .unwrap();
        assert!(highest <= 6, "{printed}");
        world.destroy("sbx_fds").unwrap();
        world.assert_no_trace("after cgroups made inside");
    }
}

#[test]
fn bind_mounts_do_not_expose_root_only_files() {
    let world = world_or_skip!("crun");
    let shown = world.base.join("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("secret"), "root-only").unwrap();
    fs::set_permissions(shown.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(shown.join("public"), "for-all").unwrap();
    let mut spec = world.spec(
        "sbx_bind",
        "crun",
        "cat /host/public; cat /host/secret; touch /host/new\necho done",
    );
    spec["rootfs"]["binds"] = json!([{ "from": shown, "to": "/host" }]);
    let record = world.create(&spec).unwrap();
    let printed = world.printed(&record);
    assert!(
        printed.contains("for-all") && !printed.contains("root-only"),
        "{printed}"
    );
    assert!(
        printed.contains("Permission denied") && printed.contains("Read-only file system"),
        "{printed}"
    );
    world.destroy("sbx_bind").unwrap();
}

#[test]
fn a_bind_onto_a_link_is_refused() {
    let world = world_or_skip!("crun");
    symlink("/etc", world.image().join("linked")).unwrap();
    let mut spec = world.spec("sbx_bindlink", "crun", "");
    spec["rootfs"]["binds"] = json!([{ "from": "/usr", "to": "/linked" }]);
    let error = world.create(&spec).unwrap_err();
    assert!(error.contains("no directory /linked"), "{error}");
}

#[test]
fn a_writable_root_is_written_to_the_disk_and_never_to_the_image() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let mut spec = world.spec("sbx_rw", runtime, "echo new > /etc/made && cat /etc/made; dd if=/dev/zero of=/big bs=1M count=64 2>&1\necho done");
        spec["rootfs"]["writable"] = json!(true);
        spec["config"]["root"]["readonly"] = json!(false);
        let record = world.create(&spec).unwrap();
        let printed = world.printed(&record);
        assert!(
            printed.contains("new\n") && printed.contains("No space left"),
            "{printed}"
        );
        assert!(!world.image().join("etc/made").exists() && !world.image().join("big").exists());
        world.destroy("sbx_rw").unwrap();
        world.assert_no_trace("after a writable root");
    }
}

#[test]
fn a_file_over_the_image_exists_in_one_sandbox_only() {
    for (runtime, writable) in [("crun", false), ("crun", true), ("runc", false)] {
        let world = world_or_skip!(runtime);
        fs::write(world.image().join("etc/word"), "of the image\n").unwrap();
        fs::write(world.image().join("etc/other"), "stays\n").unwrap();
        fs::set_permissions(world.image().join("etc"), fs::Permissions::from_mode(0o751)).unwrap();
        let script = "cat /etc/word /etc/other; wc -c /etc/a/b/new; stat -c '%u %a %n' / /etc /etc/a /etc/word; cat /proc/self/mountinfo\necho done";
        let mut spec = world.spec("sbx_over", runtime, script);
        spec["rootfs"]["writable"] = json!(writable);
        spec["rootfs"]["files"] = json!([
            { "path": "/etc/word", "content": "of one sandbox\n" },
            { "path": "/etc/a/b/new", "content": "x".repeat(300_000) },
        ]);
        let record = world.create(&spec).unwrap();
        let printed = world.printed(&record);
        for found in [
            "of one sandbox\n",
            "stays\n",
            "300000 /etc/a/b/new",
            "0 755 /\n",
            "0 751 /etc\n",
            "0 755 /etc/a\n",
            "0 644 /etc/word\n",
        ] {
            assert!(printed.contains(found), "no {found} in {printed}");
        }
        assert!(!printed.contains("of the image"), "{printed}");
        assert!(!printed.contains(world.base.to_str().unwrap()), "{printed}");
        let kept = fs::read_to_string(world.state_dir("sbx_over").join("intent.json")).unwrap();
        assert!(!kept.contains("of one sandbox"), "{kept}");
        assert!(!world.image().join("etc/a").exists());
        world.destroy("sbx_over").unwrap();
        world.assert_no_trace("after a file over the image");
    }
}

#[test]
fn a_file_over_the_image_follows_no_link() {
    let world = world_or_skip!("crun");
    symlink("/etc", world.image().join("linked")).unwrap();
    let mut spec = world.spec("sbx_overlink", "crun", "echo done");
    spec["rootfs"]["files"] = json!([{ "path": "/linked/word", "content": "x" }]);
    let error = world.create(&spec).unwrap_err();
    assert!(
        error.contains("mounting /linked/word over the image"),
        "{error}"
    );
    world.assert_no_trace("after a refused file");
}

#[test]
fn the_root_is_read_only_even_if_the_configuration_omits_it() {
    let world = world_or_skip!("crun");
    let mut spec = world.spec("sbx_ro", "crun", "touch /etc/made\necho done");
    spec["config"]["root"]["readonly"] = json!(false);
    let record = world.create(&spec).unwrap();
    assert!(world.printed(&record).contains("Read-only file system"));
    assert!(!world.image().join("etc/made").exists());
    world.destroy("sbx_ro").unwrap();
}

#[test]
fn the_console_is_bounded() {
    let world = world_or_skip!("crun");
    let script = "echo done; while dd if=/dev/zero bs=4k count=1 2>/dev/null; do :; done";
    let record = world
        .create(&world.spec("sbx_console", "crun", script))
        .unwrap();
    world.printed(&record);
    // Once the shell has become the final sleep, it can print no more.
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(format!("/proc/{}/comm", record["pid"]))
        .unwrap()
        .trim()
        != "sleep"
    {
        assert!(Instant::now() < deadline, "the console grows without bound");
        std::thread::sleep(Duration::from_millis(5));
    }
    let console = fs::metadata(format!("/proc/{}/fd/1", record["pid"])).unwrap();
    assert_eq!(console.len(), 64 << 10);
    world.destroy("sbx_console").unwrap();
}

#[test]
fn the_check_finds_what_is_needed_and_leaves_nothing() {
    let world = world_or_skip!("crun");
    let checks = world.run("check", &json!({})).unwrap();
    for check in checks.as_array().unwrap() {
        assert_eq!(check["ok"], true, "{check}");
    }
    world.assert_no_trace("after a check");
}

#[test]
fn the_sandbox_is_in_all_its_cgroups() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let record = world
            .create(&world.spec("sbx_members", runtime, ""))
            .unwrap();
        let joined = fs::read_to_string(format!("/proc/{}/cgroup", record["pid"])).unwrap();
        for (name, path) in record["cgroups"].as_object().unwrap() {
            let named = if name == "unified" { "" } else { name };
            let place = joined
                .lines()
                .map(|line| line.split(':').collect::<Vec<_>>())
                .find(|fields| fields[1].split(',').any(|field| field == named))
                .unwrap()[2];
            let own = format!("/{}/sbx_members", world.cgroup_parent);
            assert!(path.as_str().unwrap().ends_with(&own), "{path}");
            let expected = if name == "unified" {
                format!("{own}/init")
            } else {
                own
            };
            assert!(place.contains(&expected), "{runtime}: {name} is {place}");
        }
        world.destroy("sbx_members").unwrap();
    }
}

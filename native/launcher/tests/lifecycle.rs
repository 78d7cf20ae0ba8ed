//! Tests creating and destroying: nothing is left behind, whatever happens in between.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::thread;

use serde_json::{Value, json};
use support::{Caller, World, steps, wait_until};

fn create_and_destroy(runtime: &str, not_enforced: Value, adapt: impl Fn(&mut Value)) {
    let world = world_or_skip!(runtime);
    let mut spec = world.spec("sbx_whole", runtime, "");
    adapt(&mut spec);
    let record = world.create(&spec).unwrap();
    println!("{runtime}: {}", record["timings_us"]);
    assert_eq!(record["mode"], "root");
    assert_eq!(record["not_enforced"], not_enforced);
    assert_eq!(record["meta"]["image"], "busybox");
    assert_eq!(world.listed("sbx_whole").as_deref(), Some("running"));
    assert!(
        !world
            .traces()
            .iter()
            .any(|trace| trace.starts_with("mount")),
        "the host sees a mount"
    );
    world.destroy("sbx_whole").unwrap();
    world.assert_no_trace("after destroy");
    assert_eq!(world.listed("sbx_whole"), None);
}

#[test]
fn create_and_destroy_leave_nothing_with_crun() {
    create_and_destroy("crun", json!([]), |_| ());
}

#[test]
fn create_and_destroy_leave_nothing_with_runc() {
    create_and_destroy("runc", json!([]), |_| ());
}

#[test]
fn create_and_destroy_leave_nothing_with_runsc() {
    create_and_destroy("runsc", json!(["shared_kernel_counts"]), |spec| {
        spec["runtime"]["args"] =
            json!(["--platform=systrap", "--network=none", "--overlay2=none"]);
        // runsc leaves more than the sandbox's state there.
        let state_dir = spec["state_dir"].as_str().unwrap().to_owned();
        spec["runtime"]["root"] = json!(format!("{state_dir}/runtime"));
        // runsc counts its own threads, and does not mount over its own mounts.
        spec["limits"]["pids"] = json!(512);
        let mounts = spec["config"]["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| mount["source"] != "@runner");
    });
}

/// A process that outlived its create in the launcher's mount namespace would hold the disk, and its
/// loop device would become free long after the sandbox is gone.
#[test]
fn only_the_sandbox_keeps_its_disk_mounted() {
    let world = world_or_skip!("crun");
    for number in 0..12 {
        let id = format!("sbx_holder{number}");
        let record = world.create(&world.spec(&id, "crun", "")).unwrap();
        let device = record["loop_device"].as_str().unwrap();
        // crun leaves a process that is about to exit, which a destroy would end.
        let holders = processes().filter(|process| {
            !process.cgroups.contains(&id)
                && process.mounts.lines().any(|mount| {
                    let has = |field: &str| mount.split(' ').any(|each| each == field);
                    has("/sys/firmware/disk") && has(device)
                })
        });
        assert_eq!(
            holders.map(|process| process.id).collect::<Vec<_>>(),
            [""; 0]
        );
        world.destroy(&id).unwrap();
    }
}

struct Process {
    id: String,
    cgroups: String,
    mounts: String,
}

fn processes() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id = entry.unwrap().file_name().into_string().ok()?;
        let file = |name: &str| fs::read_to_string(format!("/proc/{id}/{name}")).ok();
        // An ended process has no mounts, whatever its cgroups are by then.
        let cgroups = file("cgroup")?;
        let mounts = file("mountinfo")?;
        Some(Process {
            id,
            cgroups,
            mounts,
        })
    })
}

#[test]
fn runtime_files_are_kept_only_on_request() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        for kept in [false, true] {
            let mut spec = world.spec("sbx_files", runtime, "");
            spec["keep_runtime_files"] = json!(kept);
            world.create(&spec).unwrap();
            let state = world.runtime_root().join("sbx_files");
            let bundle = world.state_dir("sbx_files").join("bundle");
            assert_eq!([state.exists(), bundle.exists()], [kept; 2], "{runtime}");
            world.destroy("sbx_files").unwrap();
            world.assert_no_trace("after destroy");
            assert!(!state.exists());
        }
    }
}

#[test]
fn a_failure_after_any_step_leaves_nothing() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        for step in steps() {
            let mut spec = world.spec("sbx_fails", runtime, "");
            spec["fail_after"] = json!(step);
            let error = world.create(&spec).unwrap_err();
            assert!(
                error.starts_with(&format!("{step}: failing after")),
                "{error}"
            );
            world.assert_no_trace(&format!("by a failure after {step} with {runtime}"));
        }
    }
}

#[test]
fn a_create_killed_after_any_step_is_listed_and_swept() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        for step in steps() {
            let mut spec = world.spec("sbx_dies", runtime, "");
            spec["die_after"] = json!(step);
            let error = world.create(&spec).unwrap_err();
            assert!(error.starts_with("signal: 9"), "{error}");
            let expected = if step == "record" {
                "running"
            } else {
                "partial"
            };
            assert_eq!(
                world.listed("sbx_dies").as_deref(),
                Some(expected),
                "after {step}"
            );
            if step != "start" && step != "record" {
                wait_until(
                    &format!("the disk is free after a death after {step}"),
                    || world.loops().is_empty(),
                );
            }
            world.destroy("sbx_dies").unwrap();
            world.assert_no_trace(&format!("by a death after {step} with {runtime}"));
        }
    }
}

#[test]
fn a_long_configuration_reaches_the_runtime() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let long = "x".repeat(100_000);
        let mut spec = world.spec("sbx_long", runtime, "echo ${#LONG}\necho done");
        spec["config"]["process"]["env"] = json!(["PATH=/bin", format!("LONG={long}")]);
        let record = world.create(&spec).unwrap();
        assert!(world.printed(&record).starts_with("100000\n"), "{runtime}");
        world.destroy("sbx_long").unwrap();
        world.assert_no_trace("after a long configuration");
    }
}

#[test]
fn a_failing_runtime_reports_why_and_leaves_nothing() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let mut spec = world.spec("sbx_noinit", runtime, "");
        spec["config"]["process"]["args"] = json!(["/bin/no-such-program"]);
        let error = world.create(&spec).unwrap_err();
        assert!(
            error.starts_with("start: ") && error.contains("no-such-program"),
            "{error}"
        );
        world.assert_no_trace("after a failed start");
    }
}

#[test]
fn damaged_records_leave_nothing_behind() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        for damaged in [&["intent.json"][..], &["intent.json", "sandbox.json"]] {
            let mut spec = world.spec("sbx_damaged", runtime, "");
            spec["keep_runtime_files"] = json!(true);
            world.create(&spec).unwrap();
            let state = world.runtime_root().join("sbx_damaged");
            assert!(state.exists());
            for name in damaged {
                fs::write(world.state_dir("sbx_damaged").join(name), "{").unwrap();
            }
            let mut request = json!({});
            for key in ["id", "state_dir", "ids_dir", "cgroup_parent", "runtime"] {
                request[key] = spec[key].clone();
            }
            if damaged.len() == 1 {
                request["runtime"] = Value::Null;
            }
            world.run("destroy", &request).unwrap();
            assert!(!state.exists(), "{runtime} {damaged:?}");
            world.assert_no_trace("after destroy");
        }
    }
}

#[test]
fn destroying_a_nonexistent_sandbox_succeeds() {
    let world = world_or_skip!("crun");
    world.destroy("sbx_never").unwrap();
    world.assert_no_trace("after destroying nothing");
}

#[test]
fn a_killed_sandbox_is_listed_dead_and_holds_no_disk() {
    let world = world_or_skip!("crun");
    let record = world.create(&world.spec("sbx_killed", "crun", "")).unwrap();
    assert_eq!(world.loops().len(), 1);
    // SAFETY: the pid is of the process that the test has just made.
    unsafe { libc::kill(record["pid"].as_i64().unwrap() as i32, libc::SIGKILL) };
    wait_until("listed as dead", || {
        world.listed("sbx_killed").as_deref() == Some("dead")
    });
    wait_until("the loop device is free", || world.loops().is_empty());
    world.destroy("sbx_killed").unwrap();
    world.assert_no_trace("after destroying a dead one");
}

#[test]
fn a_frozen_sandbox_is_listed_paused_and_destroyed() {
    for (hierarchy, file, frozen) in [
        ("freezer", "freezer.state", "FROZEN"),
        ("unified", "cgroup.freeze", "1"),
    ] {
        let world = world_or_skip!("crun");
        let record = world
            .create(&world.spec("sbx_frozen", "crun", "while :; do :; done"))
            .unwrap();
        let Some(cgroup) = record["cgroups"][hierarchy].as_str() else {
            eprintln!("skipped: no {hierarchy} hierarchy here");
            continue;
        };
        fs::write(format!("{cgroup}/{file}"), frozen).unwrap();
        wait_until("listed as paused", || {
            world.listed("sbx_frozen").as_deref() == Some("paused")
        });
        world.destroy("sbx_frozen").unwrap();
        world.assert_no_trace(&format!("after destroying one frozen by {hierarchy}"));
    }
}

#[test]
fn a_fork_bomb_is_destroyed() {
    let world = world_or_skip!("crun");
    // The bomb waits for `go`, so it hits the running sandbox and not the end of the runtime's
    // start.
    let bomb = "b() { b | b & }; (while [ ! -e /proc/1/fd/4/go ]; do sleep 0.01; done; while :; do b; done) 2>/dev/null &";
    let record = world.create(&world.spec("sbx_bomb", "crun", bomb)).unwrap();
    let cgroup = |name: &str| record["cgroups"][name].as_str();
    fs::create_dir(format!("{}/go", cgroup("unified").unwrap())).unwrap();
    let pids = cgroup("pids").or(cgroup("unified")).unwrap();
    wait_until("the bomb is at its limit", || {
        let events = fs::read_to_string(format!("{pids}/pids.events")).unwrap();
        !events.contains("max 0")
    });
    world.destroy("sbx_bomb").unwrap();
    world.assert_no_trace("after destroying a fork bomb");
}

#[test]
fn two_creates_get_different_ids() {
    let world = world_or_skip!("crun");
    let ids: Vec<String> = (0..6).map(|number| format!("sbx_many{number}")).collect();
    let bases: BTreeSet<u64> = thread::scope(|scope| {
        let started: Vec<_> = ids
            .iter()
            .map(|id| {
                scope.spawn(|| {
                    world.create(&world.spec(id, "crun", "")).unwrap()["base"]
                        .as_u64()
                        .unwrap()
                })
            })
            .collect();
        started
            .into_iter()
            .map(|create| create.join().unwrap())
            .collect()
    });
    assert_eq!(bases.len(), ids.len(), "{bases:?}");
    for base in &bases {
        assert!(
            *base >= 1_000_000 && (*base - 1_000_000) % 65_536 == 0 && base + 65_536 < 1 << 31,
            "{base}"
        );
    }
    for id in &ids {
        world.destroy(id).unwrap();
    }
    world.assert_no_trace("after six at once");
}

#[test]
fn a_destroy_waits_for_a_concurrent_create() {
    let world = world_or_skip!("crun");
    for _ in 0..5 {
        thread::scope(|scope| {
            let create = scope.spawn(|| world.create(&world.spec("sbx_race", "crun", "")));
            wait_until("the create has begun", || {
                world.state_dir("sbx_race").join("intent.json").exists() || create.is_finished()
            });
            world.destroy("sbx_race").unwrap();
            create.join().unwrap().ok();
        });
        world.assert_no_trace("after a destroy during a create");
    }
}

#[test]
fn concurrent_creates_and_destroys_share_a_parent() {
    let world = world_or_skip!("crun");
    thread::scope(|scope| {
        // These create and remove cgroups as fast as they can; most of the time they are the only
        // ones.
        for worker in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..40 {
                    let mut spec = world.spec(&format!("sbx_fast{worker}-{round}"), "crun", "");
                    spec["disk"] = Value::Null;
                    spec["fail_after"] = json!("cgroups");
                    let error = world.create(&spec).unwrap_err();
                    assert!(error.starts_with("cgroups: failing after"), "{error}");
                }
            });
        }
        for worker in 0..2 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..4 {
                    let id = format!("sbx_whole{worker}-{round}");
                    world.create(&world.spec(&id, "crun", "")).unwrap();
                    assert_eq!(world.listed(&id).as_deref(), Some("running"));
                    world.destroy(&id).unwrap();
                }
            });
        }
    });
    world.assert_no_trace("after creates and destroys at once");
}

#[test]
fn the_parent_of_cgroups_stays_while_it_holds_a_sandbox() {
    let world = world_or_skip!("crun");
    for id in ["sbx_one", "sbx_other"] {
        world.create(&world.spec(id, "crun", "")).unwrap();
    }
    let parents: Vec<_> = world
        .cgroups()
        .into_iter()
        .filter(|at| at.exists())
        .collect();
    assert!(!parents.is_empty());
    world.destroy("sbx_one").unwrap();
    assert!(parents.iter().all(|at| at.exists()), "{parents:?}");
    assert_eq!(world.listed("sbx_other").as_deref(), Some("running"));
    world.destroy("sbx_other").unwrap();
    assert!(parents.iter().all(|at| !at.exists()), "{parents:?}");
}

#[test]
fn an_existing_sandbox_is_refused_and_left_alone() {
    let world = world_or_skip!("crun");
    let record = world.create(&world.spec("sbx_twice", "crun", "")).unwrap();
    let error = world
        .create(&world.spec("sbx_twice", "crun", ""))
        .unwrap_err();
    assert!(error.contains("exists"), "{error}");
    assert_eq!(world.listed("sbx_twice").as_deref(), Some("running"));
    fs::metadata(format!("/proc/{}", record["pid"])).unwrap();
    world.destroy("sbx_twice").unwrap();
    world.assert_no_trace("after the one that was");
}

#[test]
fn an_existing_cgroup_is_refused() {
    let world = world_or_skip!("crun");
    let record = world.create(&world.spec("sbx_first", "crun", "")).unwrap();
    let parent = std::path::PathBuf::from(record["cgroups"]["unified"].as_str().unwrap());
    let taken = parent.with_file_name("sbx_taken");
    fs::create_dir(&taken).unwrap();
    let error = world
        .create(&world.spec("sbx_taken", "crun", ""))
        .unwrap_err();
    assert!(
        error.starts_with("state_dir: ") && error.contains("already exists"),
        "{error}"
    );
    assert!(taken.exists(), "the cgroup of someone else was removed");
    assert_eq!(world.listed("sbx_taken").as_deref(), Some("partial"));
    world.destroy("sbx_taken").unwrap();
    world.destroy("sbx_first").unwrap();
    world.assert_no_trace("after both");
}

#[test]
fn the_socket_listens_below_a_very_long_path() {
    if let Some(reason) = support::missing("crun") {
        eprintln!("skipped: {reason}");
        return;
    }
    let world = World::named(Caller::Root, &"long".repeat(40));
    world.create(&world.spec("sbx_long", "crun", "")).unwrap();
    let directory = fs::File::open(world.state_dir("sbx_long")).unwrap();
    let short = format!(
        "/proc/self/fd/{}/runner.sock",
        std::os::fd::AsRawFd::as_raw_fd(&directory)
    );
    UnixStream::connect(short).unwrap();
    world.destroy("sbx_long").unwrap();
    world.assert_no_trace("with a long path");
}

#[test]
fn only_recently_used_templates_are_kept() {
    let world = world_or_skip!("crun");
    let make = |mebibytes: u64| {
        let mut spec = world.spec("sbx_sizes", "crun", "");
        spec["disk"]["bytes"] = json!(mebibytes << 20);
        // The steps after the disk do not matter here.
        spec["fail_after"] = json!("disk");
        world.create(&spec).unwrap_err();
    };
    let exists = |mebibytes: u64| {
        let name = format!("ext4-v2-{}-1024.img", mebibytes << 20);
        world.base.join("templates").join(name).exists()
    };
    for mebibytes in 8..30 {
        make(mebibytes);
        // Used repeatedly, however long ago it was created.
        make(8);
    }
    let kept: Vec<u64> = (8..30).filter(|mebibytes| exists(*mebibytes)).collect();
    let expected: Vec<u64> = std::iter::once(8).chain(15..30).collect();
    assert_eq!(kept, expected);
    world.assert_no_trace("after templates");
}

#[test]
fn without_root_missing_guarantees_are_reported() {
    for runtime in ["crun", "runc"] {
        if let Some(reason) = support::missing(runtime) {
            eprintln!("skipped: {reason}");
            return;
        }
        let world = World::new(Caller::Nobody);
        let mut spec = world.spec(
            "sbx_rootless",
            runtime,
            "mkdir -p a/b/c; cat /proc/self/mountinfo; cd /dev; for d in null zero full random urandom tty; do chmod 0604 $d; busybox chown 0 $d; touch -d '2001-02-03 00:00:00' $d; done 2>&1; echo x > null && echo written; echo done",
        );
        spec["disk"] = Value::Null;
        let record = world.create(&spec).unwrap();
        assert_eq!(record["mode"], "rootless");
        let missing = record["not_enforced"].as_array().unwrap();
        for name in [
            "disk_quota",
            "memory_limit",
            "pids_limit",
            "cpu_limit",
            "unique_ids",
            "shared_kernel_counts",
        ] {
            assert!(
                missing.contains(&json!(name)),
                "{name} is not in {missing:?}"
            );
        }
        let mounts = world.printed(&record);
        let root = mounts
            .lines()
            .find(|line| line.split(' ').nth(4) == Some("/"))
            .unwrap_or_else(|| panic!("{runtime}: no root in {mounts}"));
        assert!(root.contains(" ro,nosuid,nodev"), "{root}");
        // The devices are the host's, and cannot be changed here.
        assert!(mounts.contains("written\n"), "{mounts}");
        assert_eq!(
            mounts.matches("Read-only file system").count(),
            18,
            "{mounts}"
        );
        assert_eq!(world.listed("sbx_rootless").as_deref(), Some("running"));
        world.destroy("sbx_rootless").unwrap();
        world.assert_no_trace("without root");
        for step in steps() {
            let mut spec = world.spec("sbx_rootless", runtime, "");
            spec["fail_after"] = json!(step);
            world.create(&spec).unwrap_err();
            world.assert_no_trace(&format!("without root by a failure after {step}"));
            spec["fail_after"] = Value::Null;
            spec["die_after"] = json!(step);
            world.create(&spec).unwrap_err();
            world.destroy("sbx_rootless").unwrap();
            world.assert_no_trace(&format!("without root by a death after {step}"));
        }
    }
}

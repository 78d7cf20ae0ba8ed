//! Tests persistent workspaces: shared while sandboxes use them, intact while unused, deleted on
//! request.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use support::{Caller, World, steps, wait_until};

const ID: &str = "wsp_shared";

/// A sandbox of the code user with the workspace.
fn with_shared(world: &World, id: &str, runtime: &str, script: &str) -> Value {
    let mut spec = world.with_workspace(world.spec(id, runtime, script), ID);
    spec["config"]["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
    spec
}

fn workspace_loops(world: &World) -> usize {
    let of_workspaces = |file: &&String| file.contains("/workspaces/");
    world.loops().iter().filter(of_workspaces).count()
}

fn kill(record: &Value) {
    // SAFETY: the pid is of the process that the test has just made.
    unsafe { libc::kill(record["pid"].as_i64().unwrap() as i32, libc::SIGKILL) };
}

/// Checks with e2fsck the disk of a workspace that no sandbox uses.
fn assert_intact(world: &World) {
    wait_until("the workspace is detached", || workspace_loops(world) == 0);
    let output = Command::new("e2fsck")
        .arg("-fn")
        .arg(world.workspace_dir(ID).join("disk.img"))
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
}

#[test]
fn a_workspace_outlives_its_sandboxes() {
    for runtime in ["crun", "runc"] {
        let world = world_or_skip!(runtime);
        let writes =
            "echo kept > file; mkdir below; echo gone > /home/sandbox/file\nls -an\necho done";
        let record = world
            .create(&with_shared(&world, "sbx_first", runtime, writes))
            .unwrap();
        assert_eq!(record["workspace"], json!({ "id": ID, "bytes": 16 << 20 }));
        assert_eq!(record["not_enforced"], json!([]));
        let printed = world.printed(&record);
        let own = printed.lines().find(|line| line.ends_with(" .")).unwrap();
        assert!(
            own.starts_with("drwxr-xr-x") && own.contains(" 1000 "),
            "{own}"
        );
        assert!(!printed.contains("lost+found"), "{printed}");
        world.destroy("sbx_first").unwrap();
        assert_intact(&world);
        world.assert_no_trace("but the workspace");

        let mut spec = with_shared(
            &world,
            "sbx_second",
            runtime,
            "cat file /home/sandbox/file; ls\necho done",
        );
        // An existing workspace keeps its size.
        spec["workspace"]["disk"]["bytes"] = json!(64 << 20);
        let record = world.create(&spec).unwrap();
        assert_eq!(record["workspace"]["bytes"], 16 << 20);
        let printed = world.printed(&record);
        assert!(
            printed.contains("kept\n") && printed.contains("below\n"),
            "{printed}"
        );
        assert!(!printed.contains("gone\n"), "{printed}");
        assert_eq!(world.workspaces(), [(ID.to_owned(), 16 << 20)]);
        world.destroy("sbx_second").unwrap();

        assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
        assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
        assert_eq!(world.workspaces(), []);
        assert!(!world.workspace_dir(ID).exists());
        world.assert_no_trace("after the workspace");
    }
}

#[test]
fn concurrent_creates_share_one_loop_device() {
    const MANY: usize = 20;
    let world = world_or_skip!("crun");
    // Each sandbox is done when it sees the files of all others.
    let script = |number: usize| {
        format!(
            "echo {number} > by-{number}; while [ $(ls | wc -l) -lt {MANY} ]; do sleep 0.02; done\necho done"
        )
    };
    let ids: Vec<String> = (0..MANY)
        .map(|number| format!("sbx_many{number}"))
        .collect();
    let records: Vec<Value> = thread::scope(|scope| {
        let creates: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(number, id)| {
                let spec = with_shared(&world, id, "crun", &script(number));
                let world = &world;
                scope.spawn(move || world.create(&spec).unwrap())
            })
            .collect();
        let records = creates.into_iter().map(|create| create.join().unwrap());
        records.collect()
    });
    assert_eq!(workspace_loops(&world), 1, "{:?}", world.loops());
    for record in &records {
        world.printed(record);
    }
    for id in &ids {
        world.destroy(id).unwrap();
    }
    assert_intact(&world);
    world.assert_no_trace("after many with one workspace");
    let record = world
        .create(&with_shared(
            &world,
            "sbx_after",
            "crun",
            "ls | wc -l\necho done",
        ))
        .unwrap();
    assert_eq!(world.printed(&record), format!("{MANY}\ndone\n"));
}

/// Repeatedly, the last sandbox ends, and the kernel detaches the disk, while the next one starts.
#[test]
fn concurrent_creates_and_destroys_lose_no_data() {
    const WORKERS: usize = 4;
    const ROUNDS: usize = 5;
    let world = world_or_skip!("crun");
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let world = &world;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let id = format!("sbx_come{worker}-{round}");
                    let script = format!("echo x > by-{worker}-{round}\necho done");
                    let record = world
                        .create(&with_shared(world, &id, "crun", &script))
                        .unwrap();
                    world.printed(&record);
                    world.destroy(&id).unwrap();
                }
            });
        }
    });
    assert_intact(&world);
    let record = world
        .create(&with_shared(
            &world,
            "sbx_after",
            "crun",
            "ls | wc -l\necho done",
        ))
        .unwrap();
    let expected = format!("{}\ndone\n", WORKERS * ROUNDS);
    assert_eq!(world.printed(&record), expected);
}

#[test]
fn a_killed_sandbox_does_not_break_a_shared_workspace() {
    let world = world_or_skip!("crun");
    let waits = "echo by-survivor > before\nwhile [ ! -e go ]; do sleep 0.01; done\ncat go; echo after > after && cat before after\necho done";
    let survivor = world
        .create(&with_shared(&world, "sbx_survivor", "crun", waits))
        .unwrap();
    let writes = "while :; do echo x > scratch; done";
    let victim = world
        .create(&with_shared(&world, "sbx_victim", "crun", writes))
        .unwrap();
    kill(&victim);
    wait_until("the victim is dead", || {
        world.listed("sbx_victim").as_deref() == Some("dead")
    });
    assert_eq!(workspace_loops(&world), 1);
    world
        .create(&with_shared(
            &world,
            "sbx_third",
            "crun",
            "echo went > going; /bin/busybox mv going go",
        ))
        .unwrap();
    assert_eq!(world.printed(&survivor), "went\nby-survivor\nafter\ndone\n");
    for id in ["sbx_survivor", "sbx_victim", "sbx_third"] {
        world.destroy(id).unwrap();
    }
    assert_intact(&world);
    world.assert_no_trace("but the workspace");
}

#[test]
fn a_failure_or_kill_after_any_step_does_not_change_an_existing_workspace() {
    let world = world_or_skip!("crun");
    let record = world
        .create(&with_shared(
            &world,
            "sbx_first",
            "crun",
            "echo kept > file\necho done",
        ))
        .unwrap();
    world.printed(&record);
    world.destroy("sbx_first").unwrap();
    for step in steps() {
        for hook in ["fail_after", "die_after"] {
            let mut spec = with_shared(&world, "sbx_faulty", "crun", "");
            spec[hook] = json!(step);
            world.create(&spec).unwrap_err();
            if hook == "die_after" {
                // The sandbox may not have attached the workspace yet, but its intent names it.
                let answer = world.destroy_workspace(ID).unwrap();
                assert_eq!(answer["in_use_by"], json!(["sbx_faulty"]), "after {step}");
                world.destroy("sbx_faulty").unwrap();
            }
            assert_intact(&world);
            world.assert_no_trace(&format!("but the workspace by {hook} {step}"));
        }
    }
    let record = world
        .create(&with_shared(
            &world,
            "sbx_after",
            "crun",
            "cat file\necho done",
        ))
        .unwrap();
    assert_eq!(world.printed(&record), "kept\ndone\n");
}

#[test]
fn a_failure_after_any_step_leaves_a_new_workspace_complete_or_absent() {
    let world = world_or_skip!("crun");
    let mut made = 0;
    for step in steps() {
        let mut spec = with_shared(&world, "sbx_faulty", "crun", "");
        spec["fail_after"] = json!(step);
        world.create(&spec).unwrap_err();
        world.assert_no_trace(&format!("but the workspace by a failure after {step}"));
        match world.workspaces().as_slice() {
            [] => assert!(!world.workspace_dir(ID).exists(), "after {step}"),
            found => {
                assert_eq!(found, [(ID.to_owned(), 16 << 20)], "after {step}");
                assert_intact(&world);
                made += 1;
            }
        }
        assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
    }
    // All steps except those before the workspace's own.
    assert_eq!(made, steps().len() - 3);
}

#[test]
fn leftovers_of_a_killed_launcher_are_never_a_workspace() {
    let world = world_or_skip!("crun");
    let leave_incomplete = || {
        fs::create_dir_all(world.workspace_dir(ID)).unwrap();
        fs::write(world.workspace_dir(ID).join("making"), "half of an image").unwrap();
    };
    leave_incomplete();
    assert_eq!(world.workspaces(), []);
    assert!(
        !world.workspace_dir(ID).exists(),
        "the leftovers were not removed"
    );
    leave_incomplete();
    let record = world
        .create(&with_shared(
            &world,
            "sbx_first",
            "crun",
            "echo x > file && cat file\necho done",
        ))
        .unwrap();
    assert_eq!(world.printed(&record), "x\ndone\n");
    assert!(!world.workspace_dir(ID).join("making").exists());
    world.destroy("sbx_first").unwrap();
    assert_intact(&world);
    world.destroy_workspace(ID).unwrap();
    leave_incomplete();
    assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
    assert!(!world.workspace_dir(ID).exists());
    // While it is being created, it is not swept.
    leave_incomplete();
    let making = fs::File::open(world.workspace_dir(ID)).unwrap();
    making.lock().unwrap();
    assert_eq!(world.workspaces(), []);
    assert!(world.workspace_dir(ID).join("making").exists());
}

#[test]
fn a_workspace_that_cannot_be_created_leaves_nothing() {
    let world = world_or_skip!("crun");
    let mut spec = with_shared(&world, "sbx_first", "crun", "");
    // Larger than mkfs.ext4 supports.
    spec["workspace"]["disk"]["inodes"] = json!(u64::MAX);
    let error = world.create(&spec).unwrap_err();
    assert!(error.starts_with("workspace: "), "{error}");
    assert!(!world.workspace_dir(ID).exists());
    world.assert_no_trace("after a workspace that cannot be");
}

#[test]
fn a_workspace_is_not_destroyed_while_a_sandbox_uses_it() {
    let world = world_or_skip!("crun");
    let record = world
        .create(&with_shared(&world, "sbx_user", "crun", ""))
        .unwrap();
    let in_use = json!({ "destroyed": false, "in_use_by": ["sbx_user"] });
    assert_eq!(world.destroy_workspace(ID).unwrap(), in_use);
    kill(&record);
    wait_until("the sandbox is dead", || {
        world.listed("sbx_user").as_deref() == Some("dead")
    });
    assert_eq!(world.destroy_workspace(ID).unwrap(), in_use);
    fs::write(world.state_dir("sbx_user").join("intent.json"), "{").unwrap();
    assert_eq!(world.destroy_workspace(ID).unwrap(), in_use);
    world.destroy("sbx_user").unwrap();

    // It is not destroyed either while it is attached without any record.
    let image = world.workspace_dir(ID).join("disk.img");
    wait_until("it is detached", || workspace_loops(&world) == 0);
    let losetup = |arguments: &[&str]| {
        let output = Command::new("losetup")
            .args(arguments)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let device = losetup(&["--find", "--show", image.to_str().unwrap()]);
    let answer = world.destroy_workspace(ID);
    // A sandbox then uses that device, rather than a second one.
    let created = world.create(&with_shared(&world, "sbx_next", "crun", ""));
    let loops = workspace_loops(&world);
    losetup(&["--detach", &device]);
    assert_eq!(
        answer.unwrap(),
        json!({ "destroyed": false, "in_use_by": [] })
    );
    created.unwrap();
    assert_eq!(loops, 1);
    world.destroy("sbx_next").unwrap();
    assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
    world.assert_no_trace("after the workspace");
}

#[test]
fn a_concurrent_create_never_uses_a_destroyed_workspace() {
    let world = world_or_skip!("crun");
    for round in 0..6 {
        let script = "echo x > file && cat file\necho done";
        let spec = with_shared(&world, "sbx_race", "crun", script);
        let (created, destroyed) = thread::scope(|scope| {
            let create = scope.spawn(|| world.create(&spec).unwrap());
            if round % 2 == 0 {
                wait_until("the create has begun", || {
                    world.state_dir("sbx_race").exists() || create.is_finished()
                });
            }
            let destroyed = world.destroy_workspace(ID).unwrap();
            (create.join().unwrap(), destroyed)
        });
        // Whichever came first, the sandbox has a workspace, and it is the existing one.
        assert_eq!(world.printed(&created), "x\ndone\n", "{destroyed}");
        let image = world.workspace_dir(ID).join("disk.img");
        assert_eq!(
            world
                .loops()
                .iter()
                .filter(|file| file.trim() == image.to_str().unwrap())
                .count(),
            1
        );
        world.destroy("sbx_race").unwrap();
        assert_intact(&world);
    }
    world.assert_no_trace("but the workspace");
}

#[test]
fn workspace_files_grant_no_privileges() {
    let world = world_or_skip!("crun");
    let plants = "cp /bin/busybox as-root; chmod 4755 as-root; echo secret > mine; chmod 600 mine\necho done";
    // The configuration of neither runtime restricts the workspace.
    let plainly_bound = |mut spec: Value| {
        let mounts = spec["config"]["mounts"].as_array_mut().unwrap();
        for mount in mounts {
            if mount["destination"] == "/workspace" {
                mount["options"] = json!(["bind", "rw"]);
            }
        }
        spec
    };
    // This one runs as root of its own sandbox.
    let mut spec = plainly_bound(with_shared(&world, "sbx_root", "crun", plants));
    spec["config"]["process"]["user"] = json!({ "uid": 0, "gid": 0 });
    for set in ["bounding", "effective", "permitted"] {
        spec["config"]["process"]["capabilities"][set] = json!(["CAP_DAC_OVERRIDE", "CAP_FSETID"]);
    }
    let planted = world.create(&spec).unwrap();
    world.printed(&planted);
    let uses = "stat -c '%n %u %a' as-root mine\ncat mine\nls /workspace/.. /workspace\ncat /proc/self/mountinfo\necho done";
    let spec = plainly_bound(with_shared(&world, "sbx_other", "crun", uses));
    let record = world.create(&spec).unwrap();
    let printed = world.printed(&record);
    assert!(
        printed.contains("as-root 0 4755\nmine 0 600\n"),
        "{printed}"
    );
    assert!(
        !printed.contains("secret") && printed.contains("Permission denied"),
        "{printed}"
    );
    assert!(
        !printed.contains("lost+found") && !printed.contains("sbx_"),
        "{printed}"
    );
    let mount = printed
        .lines()
        .find(|line| line.split(' ').nth(4) == Some("/workspace"))
        .unwrap();
    assert!(mount.contains(" rw,nosuid,nodev"), "{mount}");
    let image = fs::metadata(world.workspace_dir(ID).join("disk.img")).unwrap();
    assert_eq!((image.uid(), image.mode() & 0o777), (0, 0o600));
    assert_eq!(
        fs::metadata(world.workspace_dir(ID)).unwrap().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_full_workspace_does_not_affect_other_storage() {
    let world = world_or_skip!("crun");
    let fills = "dd if=/dev/zero of=big bs=1M count=64 2>&1\necho own > /home/sandbox/own && cat /home/sandbox/own\ni=0; while touch f$i 2>/dev/null; do i=$((i+1)); done; echo files $i\necho done";
    let record = world
        .create(&with_shared(&world, "sbx_fills", "crun", fills))
        .unwrap();
    let printed = world.printed(&record);
    assert!(
        printed.contains("No space left on device") && printed.contains("own\n"),
        "{printed}"
    );
    let files: u64 = printed
        .lines()
        .find_map(|line| line.strip_prefix("files "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(files < 1024, "{files} files on a disk of 1024 inodes");
    let image = fs::metadata(world.workspace_dir(ID).join("disk.img")).unwrap();
    assert!(image.blocks() * 512 <= 17 << 20);
    // Other sandboxes with the workspace can be created, and free space in it.
    let record = world
        .create(&with_shared(
            &world,
            "sbx_frees",
            "crun",
            "/bin/busybox rm big f1; echo small > small && cat small\necho done",
        ))
        .unwrap();
    assert_eq!(world.printed(&record), "small\ndone\n");
    world.destroy("sbx_fills").unwrap();
    world.destroy("sbx_frees").unwrap();
    assert_intact(&world);
    world.assert_no_trace("but the workspace");
}

#[test]
fn odd_names_of_workspaces_are_refused() {
    let world = world_or_skip!("crun");
    let too_long = format!("wsp_{}", "a".repeat(49));
    for id in [
        "..", "wsp_", "wsp_a", "wsp_../a", "wsp_A1", "wsp_a\n", "sbx_ab", "wsp_a/b", "wsp_a.b",
        &too_long,
    ] {
        let spec = world.with_workspace(world.spec("sbx_odd", "crun", ""), id);
        let error = world.create(&spec).unwrap_err();
        assert!(error.starts_with("spec: "), "{id:?}: {error}");
        let error = world.destroy_workspace(id).unwrap_err();
        assert!(error.starts_with("destroy-workspace: "), "{id:?}: {error}");
    }
    // A link in place of a workspace is not followed.
    fs::create_dir(world.base.join("workspaces")).unwrap();
    std::os::unix::fs::symlink(world.image(), world.workspace_dir(ID)).unwrap();
    let error = world
        .create(&with_shared(&world, "sbx_odd", "crun", ""))
        .unwrap_err();
    assert!(error.starts_with("workspace: "), "{error}");
    world.destroy_workspace(ID).unwrap_err();
    assert_eq!(world.workspaces(), []);
    assert!(world.image().join("bin/busybox").exists());
    world.assert_no_trace("after refusals");
}

#[test]
fn without_root_a_workspace_is_a_directory_that_is_kept_and_destroyed() {
    if let Some(reason) = support::missing("crun") {
        eprintln!("skipped: {reason}");
        return;
    }
    let world = World::new(Caller::Nobody);
    let spec = |id: &str, script: &str| {
        let mut spec = world.with_workspace(world.spec(id, "crun", script), ID);
        spec["disk"] = Value::Null;
        spec
    };
    let record = world
        .create(&spec(
            "sbx_first",
            "mkdir -p a/b; echo kept > a/b/c\necho done",
        ))
        .unwrap();
    world.printed(&record);
    assert!(
        record["not_enforced"]
            .as_array()
            .unwrap()
            .contains(&json!("disk_quota"))
    );
    assert_eq!(record["workspace"], json!({ "id": ID, "bytes": 16 << 20 }));
    let second = world
        .create(&spec("sbx_second", "cat a/b/c\necho done"))
        .unwrap();
    assert_eq!(world.printed(&second), "kept\ndone\n");
    world.destroy("sbx_first").unwrap();
    assert_eq!(
        world.destroy_workspace(ID).unwrap()["in_use_by"],
        json!(["sbx_second"])
    );
    world.destroy("sbx_second").unwrap();
    assert_eq!(world.workspaces(), [(ID.to_owned(), 16 << 20)]);

    // With root, a workspace must be a disk, and this one is not.
    let as_root = World::new(Caller::Root);
    let mut wrong = as_root.with_workspace(as_root.spec("sbx_wrong", "crun", ""), ID);
    wrong["workspace"]["workspaces_dir"] = json!(world.base.join("workspaces"));
    let error = as_root.create(&wrong).unwrap_err();
    assert!(error.contains("was created without root"), "{error}");
    assert_eq!(world.workspaces().len(), 1);

    assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
    assert_eq!(world.workspaces(), []);
    assert!(!world.workspace_dir(ID).exists());
    for step in steps() {
        for hook in ["fail_after", "die_after"] {
            let mut spec = spec("sbx_faulty", "");
            spec[hook] = json!(step);
            world.create(&spec).unwrap_err();
            world.destroy("sbx_faulty").unwrap();
            world.assert_no_trace(&format!("but the workspace by {hook} {step}"));
            world.workspaces();
        }
    }
    assert_eq!(world.destroy_workspace(ID).unwrap()["destroyed"], true);
}

#[test]
fn further_workspaces_are_mounted_where_requested() {
    for (runtime, writable) in [("crun", false), ("runc", true)] {
        let world = world_or_skip!(runtime);
        let disk = json!({ "bytes": 16 << 20, "inodes": 1024, "templates_dir": world.base.join("templates") });
        let further = |id: &str, path: &str, read_only: bool| {
            json!({
                "workspace": { "id": id, "workspaces_dir": world.base.join("workspaces"), "disk": disk },
                "path": path,
                "read_only": read_only,
            })
        };
        let make = |id: &str, script: &str, workspaces: serde_json::Value| {
            let mut spec = world.spec(id, runtime, script);
            spec["rootfs"]["writable"] = json!(writable);
            spec["config"]["root"]["readonly"] = json!(!writable);
            spec["config"]["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
            spec["workspaces"] = workspaces;
            spec
        };
        let both = json!([
            further("wsp_data", "/mnt/data", false),
            further("wsp_seen", "/etc/seen", true),
        ]);
        let script = "echo kept > /mnt/data/file && cat /mnt/data/file; touch /etc/seen/file; cat /proc/self/mountinfo\necho done";
        let record = world.create(&make("sbx_both", script, both)).unwrap();
        let printed = world.printed(&record);
        assert!(printed.contains("kept\n"), "{runtime}: {printed}");
        assert!(
            printed.contains("/etc/seen/file: Read-only file system"),
            "{runtime}: {printed}"
        );
        for (path, flags) in [
            ("/mnt/data", " rw,nosuid,nodev"),
            ("/etc/seen", " ro,nosuid,nodev"),
        ] {
            let at = format!(" {path} ");
            let line = printed.lines().find(|line| line.contains(&at));
            assert!(line.is_some_and(|line| line.contains(flags)), "{printed}");
        }
        // A second sandbox sees the same files at once, elsewhere and read-only.
        let script = "cat /mnt/file; touch /mnt/other\necho done";
        let again = json!([further("wsp_data", "/mnt", true)]);
        let record = world.create(&make("sbx_again", script, again)).unwrap();
        let printed = world.printed(&record);
        assert!(
            printed.contains("kept\n") && printed.contains("Read-only file system"),
            "{runtime}: {printed}"
        );
        let answer = world.destroy_workspace("wsp_data").unwrap();
        assert_eq!(answer["destroyed"], false);
        assert_eq!(answer["in_use_by"].as_array().unwrap().len(), 2);
        // A path cannot be used twice, nor where the image has something other than a directory.
        let twice = json!([
            further("wsp_data", "/mnt/a", false),
            further("wsp_data", "/mnt/b", false),
        ]);
        let error = world.create(&make("sbx_bad", "", twice)).unwrap_err();
        assert!(error.contains("each workspace once"), "{error}");
        std::os::unix::fs::symlink("/tmp", world.image().join("linked")).unwrap();
        for path in ["/linked", "/linked/below", "/bin/busybox"] {
            let spec = make("sbx_bad", "", json!([further("wsp_new", path, false)]));
            let error = world.create(&spec).unwrap_err();
            assert!(error.contains("is not a real directory"), "{path}: {error}");
        }
        for id in ["sbx_both", "sbx_again"] {
            world.destroy(id).unwrap();
        }
        world.assert_no_trace("after further workspaces");
    }
}

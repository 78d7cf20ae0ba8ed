//! Tests the launcher as a server: concurrent requests, and crashes of requests or of the server.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use support::{World, wait_until};

/// A server with its pipes. It is killed on drop.
struct Server {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_launcher"))
            .arg("serve")
            .env("SANDKASTEN_TEST_SECRET", "do-not-tell")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Server {
            requests: process.stdin.take(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    fn ask(&mut self, id: usize, command: &str, request: &Value) {
        let mut requests = self.requests.as_ref().unwrap();
        requests
            .write_all(format!("{id} {command} {request}\n").as_bytes())
            .unwrap();
    }

    /// The next answers, by the id of their request.
    fn answers(&mut self, count: usize) -> BTreeMap<usize, Value> {
        (0..count)
            .map(|_| {
                let mut line = String::new();
                self.answers.read_line(&mut line).unwrap();
                let (id, answer) = line.split_once(' ').unwrap();
                (id.parse().unwrap(), serde_json::from_str(answer).unwrap())
            })
            .collect()
    }

    /// Its child processes, including zombies.
    fn children(&self) -> Vec<i32> {
        let own = self.process.id().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| stat_of(*pid).get(1) == Some(&own))
            .collect()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The state, parent and other fields of a process; empty if there is none.
fn stat_of(pid: i32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_ascii_whitespace().map(str::to_owned).collect()
}

fn is_alive(pid: i32) -> bool {
    stat_of(pid).first().is_some_and(|state| state != "Z")
}

fn destroy_request(world: &World, id: &str) -> Value {
    json!({
        "id": id,
        "state_dir": world.state_dir(id),
        "ids_dir": world.base.join("ids"),
        "cgroup_parent": world.cgroup_parent,
    })
}

fn id_of(number: usize) -> String {
    format!("sbx_served{number}")
}

#[test]
fn concurrent_requests_are_all_answered_and_leave_nothing() {
    let world = world_or_skip!("crun");
    let mut server = Server::start();
    const SANDBOXES: usize = 8;
    for number in 0..SANDBOXES {
        server.ask(number, "create", &world.spec(&id_of(number), "crun", ""));
    }
    let made = server.answers(SANDBOXES);
    for (number, record) in &made {
        assert_eq!(record["id"], id_of(*number), "{record}");
    }
    for number in 0..SANDBOXES {
        server.ask(number, "destroy", &destroy_request(&world, &id_of(number)));
    }
    for answer in server.answers(SANDBOXES).values() {
        assert_eq!(answer, &json!({ "ok": true }));
    }
    world.assert_no_trace("after as many destroys as creates");
    wait_until("the server has no children", || {
        server.children().is_empty()
    });
}

#[test]
fn a_server_leaks_no_descriptors() {
    let world = world_or_skip!("crun");
    let mut server = Server::start();
    for number in 0..4 {
        let script = "ls /proc/1/fd\necho env; env\necho done";
        server.ask(
            number,
            "create",
            &world.spec(&id_of(number), "crun", script),
        );
    }
    for record in server.answers(4).values() {
        let printed = world.printed(record);
        let highest: u32 = printed
            .lines()
            .map_while(|line| line.parse().ok())
            .max()
            .unwrap();
        // As for a separate launcher: the descriptors passed on purpose, and perhaps one that the
        // shell opened.
        assert!(highest <= 6, "{printed}");
        assert!(!printed.contains("do-not-tell"), "{printed}");
    }
}

#[test]
fn a_child_inherits_no_descriptors_of_other_requests() {
    let world = world_or_skip!("crun");
    let held = world.state_dir("sbx_held");
    fs::create_dir(&held).unwrap();
    let lock = fs::File::open(&held).unwrap();
    lock.lock().unwrap();
    let mut server = Server::start();
    for number in 0..3 {
        server.ask(number, "destroy", &destroy_request(&world, "sbx_held"));
    }
    // Each child only has stdin, stdout, stderr and the directory whose lock it waits for.
    wait_until("three children wait for the lock", || {
        let children = server.children();
        let own = children.iter().filter(|pid| {
            let names = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten();
            let last = fs::read_link(format!("/proc/{pid}/fd/3"));
            names.count() == 4 && last.is_ok_and(|last| last == held)
        });
        own.count() == 3
    });
    drop(lock);
    for answer in server.answers(3).values() {
        assert_eq!(answer, &json!({ "ok": true }));
    }
}

#[test]
fn a_failed_or_killed_request_does_not_affect_others() {
    let world = world_or_skip!("crun");
    let mut server = Server::start();
    let mut dying = world.spec("sbx_dies", "crun", "");
    dying["die_after"] = json!("cgroups");
    let mut failing = world.spec("sbx_fails", "crun", "");
    failing["fail_after"] = json!("start");
    server.ask(1, "create", &dying);
    server.ask(2, "create", &world.spec("sbx_lives", "crun", ""));
    server.ask(3, "create", &failing);
    server.ask(4, "create", &json!("nonsense"));
    server.ask(5, "levitate", &json!({}));
    let answers = server.answers(5);
    assert_eq!(answers[&1]["died"]["how"], "signal: 9 (SIGKILL)");
    assert_eq!(answers[&2]["id"], "sbx_lives");
    assert_eq!(answers[&3]["error"]["step"], "start");
    assert_eq!(answers[&4]["error"]["step"], "spec");
    let said = answers[&5]["died"]["said"].as_str().unwrap();
    assert!(said.contains("levitate"), "{said}");
    for id in ["sbx_dies", "sbx_lives", "sbx_fails"] {
        server.ask(6, "destroy", &destroy_request(&world, id));
        server.answers(1);
    }
    world.assert_no_trace("after a request that died");
}

#[test]
fn a_server_ends_with_its_input_and_finishes_running_requests() {
    let world = world_or_skip!("crun");
    let mut server = Server::start();
    server.ask(1, "create", &world.spec("sbx_begun", "crun", ""));
    wait_until("the sandbox is being created", || {
        world.state_dir("sbx_begun").join("intent.json").exists()
    });
    server.requests = None;
    assert!(server.process.wait().unwrap().success());
    wait_until("the sandbox is complete", || {
        world.listed("sbx_begun").as_deref() == Some("running")
    });
    world.destroy("sbx_begun").unwrap();
    world.assert_no_trace("after a server that ended");
}

#[test]
fn no_sandbox_is_created_after_its_server_has_died() {
    let world = world_or_skip!("crun");
    let mut server = Server::start();
    let mut spec = world.spec("sbx_late", "crun", "");
    // Large enough that the child is still reading it when the server is dead.
    spec["meta"]["much"] = json!(vec!["much"; 500_000]);
    server.ask(1, "create", &spec);
    let mut children = Vec::new();
    wait_until("the request has a child", || {
        children = server.children();
        !children.is_empty()
    });
    server.kill();
    // The daemon destroys what it requested from a dead server, so nothing may be created after
    // that.
    assert!(
        !world.state_dir("sbx_late").exists(),
        "created after the server died"
    );
    world.destroy("sbx_late").unwrap();
    wait_until("the child is dead", || !is_alive(children[0]));
    world.assert_no_trace("by a child whose server died");
}

#[test]
fn sandboxes_of_a_killed_server_can_be_destroyed_at_any_instant() {
    let world = world_or_skip!("crun");
    for round in 0..12_u64 {
        let mut server = Server::start();
        server.ask(1, "create", &world.spec("sbx_killed", "crun", ""));
        wait_until("the sandbox is being created", || {
            world.state_dir("sbx_killed").exists()
        });
        sleep(Duration::from_millis(2 * round));
        server.kill();
        world.destroy("sbx_killed").unwrap();
        world.assert_no_trace(&format!("by a kill in round {round}"));
    }
}

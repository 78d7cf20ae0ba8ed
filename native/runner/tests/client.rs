//! The runner as a program: its readiness line, and the one-shot client in JSON lines.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const RUNNER: &str = env!("CARGO_BIN_EXE_runner");

struct Running {
    child: Child,
    directory: PathBuf,
}

impl Running {
    fn start(name: &str) -> Running {
        let directory =
            std::env::temp_dir().join(format!("sandkasten-runner-{name}-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("work")).unwrap();
        let mut child = Command::new(RUNNER)
            .arg("init")
            .args(["--run-dir".as_ref(), directory.join("run").as_os_str()])
            .args(["--listen".as_ref(), directory.join("socket").as_os_str()])
            .args(["--workdir".as_ref(), directory.join("work").as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        assert_eq!(ready, json!({ "type": "ready", "ready": true }));
        Running { child, directory }
    }

    fn ask(&self, request: &Value) -> (Value, bool) {
        let output = Command::new(RUNNER)
            .args(["--client", &request.to_string()])
            .env("SANDKASTEN_SOCKET", self.directory.join("socket"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "one answer in one line: {text}");
        (
            serde_json::from_str(&text).unwrap(),
            output.status.success(),
        )
    }

    fn work(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id() as i32;
        // SAFETY: asks our own child to stop.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn exec_returns_code_directory_and_output_and_keeps_state() {
    let running = Running::start("exec");
    let (answer, ok) = running.ask(&json!({
        "id": "a", "type": "exec", "cmd": "cd /; export X=5; echo out; echo err >&2; (exit 3)",
        "timeout_ms": 10_000,
    }));
    assert!(ok);
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["type"], "exec");
    assert_eq!(answer["exit_code"], 3);
    assert_eq!(answer["cwd"], "/");
    assert_eq!(answer["output"], "out\nerr\n");
    assert_eq!(answer["truncated"], false);
    assert!(answer["duration_ms"].is_u64());
    let (answer, _) = running.ask(&json!({ "id": "b", "type": "exec", "cmd": "echo $X; pwd" }));
    assert_eq!(answer["output"], "5\n/\n");
}

#[test]
fn a_timeout_is_an_error_and_the_shell_survives() {
    let running = Running::start("timeout");
    let (answer, ok) = running.ask(&json!({
        "id": "a", "type": "exec", "cmd": "KEPT=1; sleep 1000", "timeout_ms": 200,
    }));
    assert!(!ok);
    assert_eq!(
        answer,
        json!({ "id": "a", "type": "error", "message": "timeout exceeded", "error": "timeout exceeded" })
    );
    let (answer, _) = running.ask(&json!({ "id": "b", "type": "exec", "cmd": "echo $KEPT" }));
    assert_eq!(answer["output"], "1\n");
}

#[test]
fn write_and_read_carry_bytes_and_report_truncation() {
    let running = Running::start("files");
    let path = running.work().join("work/deep/file");
    let (answer, _) = running.ask(&json!({
        "id": "w", "type": "write", "path": path, "content_base64": "AP8KaGVsbG8=",
    }));
    assert_eq!(answer, json!({ "id": "w", "type": "write", "ok": true }));
    let (answer, _) = running.ask(&json!({ "id": "r", "type": "read", "path": path }));
    assert_eq!(
        answer,
        json!({ "id": "r", "type": "read", "content_base64": "AP8KaGVsbG8=", "truncated": false })
    );
    let (answer, _) =
        running.ask(&json!({ "id": "r", "type": "read", "path": path, "max_bytes": 2 }));
    assert_eq!(answer["content_base64"], "AP8=");
    assert_eq!(answer["truncated"], true);
    let (answer, ok) = running.ask(&json!({ "id": "r", "type": "read", "path": "/no/such" }));
    assert!(!ok);
    assert_eq!(answer["type"], "error");
    let (answer, ok) = running.ask(&json!({ "id": "x", "type": "dance" }));
    assert!(!ok);
    assert_eq!(answer["id"], "x");
}

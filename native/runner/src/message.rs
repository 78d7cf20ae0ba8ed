//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct ClientHello {
    pub protocol: u32,
}

#[derive(Serialize)]
pub struct ServerHello<'a> {
    pub protocol: u32,
    pub runner: &'a str,
    pub boot_id: &'a str,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    Exec(ExecRequest),
    Attach(AttachRequest),
    Signal {
        exec_id: String,
        signal: i32,
        #[serde(default)]
        tree: bool,
    },
    Resize {
        exec_id: String,
        rows: u16,
        cols: u16,
    },
    Execs {},
    Forget {
        exec_id: String,
    },
    Dial {
        port: u16,
    },
    Ping {},
    #[serde(untagged)]
    File(FileRequest),
}

#[derive(Deserialize)]
pub struct ExecRequest {
    pub exec_id: String,
    pub mode: Mode,
    #[serde(default)]
    pub cmd_bytes: usize,
    #[serde(default)]
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    #[serde(default)]
    pub stdin: bool,
    pub pty: Option<TerminalSize>,
    #[serde(default)]
    pub merge: bool,
    #[serde(default)]
    pub timeout_ms: u64,
    #[serde(default)]
    pub idle_timeout_ms: u64,
}

#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Shell,
    Process,
}

#[derive(Deserialize, Clone, Copy)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

#[derive(Deserialize)]
pub struct AttachRequest {
    pub exec_id: String,
    #[serde(default)]
    pub offset: u64,
    #[serde(default)]
    pub stdin: bool,
    #[serde(default)]
    pub until: Until,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    #[default]
    Done,
    Closed,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest {
    Stat {
        path: String,
    },
    Read {
        path: String,
        #[serde(default)]
        offset: u64,
        length: Option<u64>,
    },
    Write {
        path: String,
        mode: Option<u32>,
        #[serde(default = "yes")]
        overwrite: bool,
        #[serde(default = "yes")]
        parents: bool,
    },
    List {
        path: String,
        #[serde(default)]
        recursive: bool,
        limit: Option<usize>,
        cursor: Option<String>,
    },
    Mkdir {
        path: String,
        mode: Option<u32>,
        #[serde(default)]
        parents: bool,
    },
    Move {
        from: String,
        to: String,
        #[serde(default)]
        overwrite: bool,
    },
    Remove {
        path: String,
        #[serde(default)]
        recursive: bool,
    },
    Watch {
        path: String,
        #[serde(default)]
        recursive: bool,
    },
    TarIn {
        path: String,
        max_bytes: Option<u64>,
        max_entries: Option<u64>,
    },
    TarOut {
        path: String,
    },
}

fn yes() -> bool {
    true
}

#[derive(Serialize, Clone)]
pub struct ExecEnd {
    pub exec_id: String,
    pub end_reason: &'static str,
    pub exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub duration_ms: u64,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub dropped_bytes: u64,
    pub shell_restarted: bool,
}

#[derive(Serialize)]
pub struct ExecListing {
    pub exec_id: String,
    pub mode: Mode,
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub age_ms: u64,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecEnd>,
}

#[derive(Serialize)]
pub struct Entry {
    pub path: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub size: u64,
    pub mode: u32,
    pub mtime_ms: i64,
    pub uid: u32,
    pub gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_path: Option<String>,
}

//! The JSON of requests and answers.

use crate::processes::user::User;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct ClientHello {
    pub protocol: u32,
    /// The daemon's fencing token; absent where no other daemon can replace it.
    pub fence: Option<u64>,
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
    /// Ends a command as a timeout does.
    Cancel {
        exec_id: String,
    },
    Shells {},
    CloseShell {
        shell: String,
    },
    Dial {
        port: u16,
    },
    /// Opens the sandbox's network, with the daemon as its gateway.
    Network {},
    /// Lists the listeners on TCP ports.
    Ports {},
    Ping {},
    #[serde(untagged)]
    File(FileRequest),
}

#[derive(Deserialize)]
pub struct ExecRequest {
    pub exec_id: String,
    pub mode: Mode,
    /// The shell that runs the command; `None` is the default shell.
    pub shell: Option<String>,
    #[serde(default)]
    pub cmd_bytes: usize,
    #[serde(default)]
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    /// The user that `user` resolves to.
    #[serde(skip)]
    pub run_as: Option<User>,
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

/// A path as text, or as base64 of its bytes when they are not text.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum WirePath {
    Text(String),
    Raw { raw: String },
}

/// How to handle entries that the code user may not read.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "snake_case")]
pub enum OnUnreadable {
    #[default]
    Fail,
    Skip,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest {
    Stat {
        path: WirePath,
        #[serde(default)]
        follow: bool,
    },
    Realpath {
        path: WirePath,
    },
    Read {
        path: WirePath,
        #[serde(default)]
        offset: u64,
        length: Option<u64>,
        #[serde(default)]
        real_path: bool,
    },
    Write {
        path: WirePath,
        mode: Option<u32>,
        #[serde(default = "yes")]
        overwrite: bool,
        #[serde(default = "yes")]
        parents: bool,
        if_version: Option<String>,
    },
    Append {
        path: WirePath,
        mode: Option<u32>,
        #[serde(default = "yes")]
        parents: bool,
        if_version: Option<String>,
    },
    List {
        path: WirePath,
        #[serde(default)]
        recursive: bool,
        limit: Option<usize>,
        cursor: Option<String>,
    },
    Mkdir {
        path: WirePath,
        mode: Option<u32>,
        #[serde(default)]
        parents: bool,
    },
    Move {
        from: WirePath,
        to: WirePath,
        #[serde(default)]
        overwrite: bool,
    },
    Copy {
        from: WirePath,
        to: WirePath,
        #[serde(default)]
        overwrite: bool,
        #[serde(default)]
        recursive: bool,
    },
    Remove {
        path: WirePath,
        #[serde(default)]
        recursive: bool,
    },
    Watch {
        path: WirePath,
        #[serde(default)]
        recursive: bool,
    },
    TarIn {
        path: WirePath,
        max_bytes: Option<u64>,
        max_entries: Option<u64>,
    },
    TarOut {
        path: WirePath,
        #[serde(default)]
        exclude: Vec<String>,
        #[serde(default)]
        on_unreadable: OnUnreadable,
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
    pub output_open: bool,
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
pub struct ShellListing {
    pub name: String,
    pub kind: &'static str,
    pub cwd: String,
    pub busy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PortListing {
    pub port: u16,
    pub address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
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
    pub version: String,
    /// A directory whose entries are missing from a recursive list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

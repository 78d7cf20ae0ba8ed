//! The pipes of a command, which its shell opens by name.

use crate::execs::Pipes;
use crate::shells::run_dir::RunDir;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Output pipes created ahead, so the next command does not wait for them.
pub struct SparePipes {
    tag: String,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl SparePipes {
    pub fn make(run_dir: &RunDir) -> io::Result<SparePipes> {
        let tag = sys::random_hex()?;
        Ok(SparePipes {
            stdout: run_dir.output_pipe(&out_name(&tag))?,
            stderr: run_dir.output_pipe(&err_name(&tag))?,
            tag,
        })
    }
}

/// The pipes of a command, and how its shell opens them.
pub struct CommandPipes {
    /// A random part in the names of all files of the command.
    pub tag: String,
    pub files: Vec<String>,
    pub redirections: String,
    pub pipes: Pipes,
}

impl CommandPipes {
    pub fn new(
        run_dir: &RunDir,
        spare: SparePipes,
        merge: bool,
        stdin: bool,
    ) -> io::Result<CommandPipes> {
        let SparePipes {
            tag,
            stdout,
            stderr,
        } = spare;
        let path = |name: &str| run_dir.path(name).display().to_string();
        let (out, err, input) = (out_name(&tag), err_name(&tag), in_name(&tag));
        let to_stderr = if merge { "&1".into() } else { path(&err) };
        let from_stdin = if stdin {
            path(&input)
        } else {
            "/dev/null".into()
        };
        let redirections = format!("<{from_stdin} >{} 2>{to_stderr}", path(&out));
        let pipes = Pipes {
            output: [Some(stdout), (!merge).then_some(stderr)],
            stdin: stdin.then(|| run_dir.input_pipe(&input)).transpose()?,
            stdin_opened: false,
            on_terminal: false,
        };
        let files = [Some(out), Some(err), stdin.then_some(input)];
        Ok(CommandPipes {
            tag,
            files: files.into_iter().flatten().collect(),
            redirections,
            pipes,
        })
    }
}

fn out_name(tag: &str) -> String {
    format!("out-{tag}")
}

fn err_name(tag: &str) -> String {
    format!("err-{tag}")
}

pub fn in_name(tag: &str) -> String {
    format!("in-{tag}")
}

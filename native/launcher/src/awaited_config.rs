//! Lets the runtime start before its configuration is complete: it reads a pipe until then.
//!
//! Loading crun and its libraries takes about as long as the sandbox's mounts, and both can run in
//! parallel. If the launcher is killed, the pipe ends, and with it the runtime.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::fault::{Context, Outcome};
use crate::{record, sys};

pub struct AwaitedConfig {
    path: PathBuf,
    writer: PipeWriter,
}

impl AwaitedConfig {
    /// Creates the pipe, and a link to it where the runtime looks for its configuration. The
    /// runtime must inherit the returned end as descriptor `number`.
    ///
    /// It is not a named pipe: opening one waits for the other end, even if that process was killed
    /// meanwhile.
    pub fn make(path: &Path, number: RawFd) -> Outcome<(AwaitedConfig, PipeReader)> {
        let creating = || format!("creating a pipe for {}", path.display());
        let (reader, writer) = io::pipe().context(creating)?;
        symlink(format!("/proc/self/fd/{number}"), path).context(creating)?;
        let path = path.to_owned();
        Ok((AwaitedConfig { path, writer }, reader))
    }

    /// Passes the configuration to the runtime: through the pipe, and as a file that exists before
    /// the pipe ends, because the runtime then copies it. Fails if the runtime has not read it in time.
    pub fn give(mut self, text: &[u8], within: Duration) -> Outcome<()> {
        match self.write_within(text, within) {
            // The runtime has ended, which is handled later.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.context(|| "passing the configuration to the runtime".into())?,
        }
        record::write_atomically(&self.path, text)
    }

    fn write_within(&mut self, mut text: &[u8], within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + within;
        sys::make_nonblocking(self.writer.as_fd())?;
        while !text.is_empty() {
            match self.writer.write(text) {
                Ok(written) => text = &text[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if !sys::wait_writable(self.writer.as_fd(), left.as_millis() as i32)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::thread;

    /// More than a pipe holds.
    const LONG: usize = 300_000;
    const AMPLE: Duration = Duration::from_secs(60);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        /// A pipe that this process inherits in place of the runtime.
        fn awaited(&self) -> (PathBuf, AwaitedConfig, PipeReader) {
            let path = self.0.join("config.json");
            let (config, reader) = AwaitedConfig::make(&path, 0).unwrap();
            fs::remove_file(&path).unwrap();
            symlink(format!("/proc/self/fd/{}", reader.as_raw_fd()), &path).unwrap();
            (path, config, reader)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_configuration_arrives_through_the_pipe_and_is_a_file_afterwards() {
        let scratch = Scratch::new("awaited");
        let (path, config, _inherited) = scratch.awaited();
        let text = vec![b'x'; LONG];
        let mut opened = File::open(&path).unwrap();
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            opened.read_to_end(&mut read).map(|_| read)
        });
        config.give(&text, AMPLE).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), text);
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read(&path).unwrap(), text);
    }

    #[test]
    fn a_runtime_that_opens_it_after_the_launchers_death_reads_the_end() {
        let scratch = Scratch::new("abandoned");
        let (path, config, _inherited) = scratch.awaited();
        drop(config);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_runtime_that_has_ended_delays_nothing() {
        let scratch = Scratch::new("ended");
        let (path, config, inherited) = scratch.awaited();
        drop(inherited);
        let text = vec![b'x'; LONG];
        config.give(&text, AMPLE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), text);
    }

    #[test]
    fn a_runtime_that_reads_nothing_is_not_waited_for_forever() {
        let scratch = Scratch::new("hanging");
        let (_path, config, _inherited) = scratch.awaited();
        let text = vec![b'x'; LONG];
        assert!(config.give(&text, Duration::from_millis(1)).is_err());
    }
}

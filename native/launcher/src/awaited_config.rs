//! Lets the runtime start before its configuration is complete: it reads a pipe until then.
//!
//! Loading crun and its libraries takes about as long as the sandbox's mounts, and the machine may have
//! a processor to spare. A kill of the launcher closes the pipe, and the runtime ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::fault::{Context, Outcome};
use crate::{record, sys};

pub struct AwaitedConfig {
    path: PathBuf,
    /// Open at both ends, so neither we nor the runtime wait for each other to open it.
    pipe: File,
}

impl AwaitedConfig {
    /// Makes the pipe, where the runtime looks for its configuration.
    pub fn make(path: &Path) -> Outcome<AwaitedConfig> {
        let pipe = sys::make_pipe(path, 0o600)
            .and_then(|()| OpenOptions::new().read(true).write(true).open(path))
            .context(|| format!("making the pipe {}", path.display()))?;
        let path = path.to_owned();
        Ok(AwaitedConfig { path, pipe })
    }

    /// Gives the runtime its configuration: as a file from now on, and through the pipe if it has opened
    /// that already.
    pub fn give(self, text: &[u8]) -> Outcome<()> {
        record::write_atomically(&self.path, text)?;
        let written = (|| {
            let own = format!("/proc/self/fd/{}", self.pipe.as_raw_fd());
            let mut pipe = OpenOptions::new().write(true).open(own)?;
            drop(self.pipe);
            pipe.write_all(text)
        })();
        match written {
            // It has not opened the pipe, or has ended, which is noticed later.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context(|| "giving the runtime its configuration".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::thread;

    /// More than a pipe holds.
    const LONG: usize = 300_000;

    #[test]
    fn a_configuration_arrives_whether_it_is_awaited_or_not() {
        let scratch = std::env::temp_dir().join(format!("awaited-{}", std::process::id()));
        fs::create_dir(&scratch).unwrap();
        let text = vec![b'x'; LONG];
        for is_awaited in [true, false] {
            let path = scratch.join(format!("config-{is_awaited}"));
            let config = AwaitedConfig::make(&path).unwrap();
            let early = is_awaited.then(|| File::open(&path).unwrap());
            let reader = early.map(|mut early| {
                thread::spawn(move || {
                    let mut read = Vec::new();
                    early.read_to_end(&mut read).map(|_| read)
                })
            });
            config.give(&text).unwrap();
            if let Some(reader) = reader {
                assert_eq!(reader.join().unwrap().unwrap(), text);
            }
            assert_eq!(fs::read(&path).unwrap(), text);
        }
        fs::remove_dir_all(&scratch).unwrap();
    }
}

//! Carries bytes between stdin/stdout and the runner's socket, for transports that can only
//! start a program inside the sandbox.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

pub fn run(socket: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    let mut writer = stream.try_clone()?;
    thread::spawn(move || {
        // Either end may close first; both ends learn of it by the end of the stream.
        let _ = copy(&mut io::stdin().lock(), &mut writer);
        let _ = writer.shutdown(std::net::Shutdown::Write);
    });
    let mut reader = stream;
    copy(&mut reader, &mut io::stdout().lock())
}

/// Passes on each piece at once; `io::copy` would be as good but for stdout's buffer.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..n])?;
        to.flush()?;
    }
}

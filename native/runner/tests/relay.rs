//! Tests the relay as a program: it carries bytes between stdin/stdout and the socket.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const RUNNER: &str = env!("CARGO_BIN_EXE_runner");
/// More than pipes and sockets hold.
const LARGE: usize = 8 << 20;

fn socket_path(name: &str) -> PathBuf {
    let file = format!("sandkasten-relay-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(file);
    let _ = std::fs::remove_file(&path);
    path
}

fn relay_to(path: &PathBuf) -> Child {
    Command::new(RUNNER)
        .arg("relay")
        .env("SANDKASTEN_SOCKET", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn connected(name: &str) -> (Child, UnixStream) {
    let path = socket_path(name);
    let listener = UnixListener::bind(&path).unwrap();
    let relay = relay_to(&path);
    let (stream, _) = listener.accept().unwrap();
    std::fs::remove_file(&path).unwrap();
    (relay, stream)
}

#[test]
fn carries_more_than_the_buffers_hold_in_both_directions_at_once() {
    let (mut relay, stream) = connected("both");
    let mut input = relay.stdin.take().unwrap();
    let mut output = relay.stdout.take().unwrap();
    let mut peer = stream.try_clone().unwrap();
    let sending = thread::spawn(move || input.write_all(&vec![1; LARGE]));
    let answering = thread::spawn(move || peer.write_all(&vec![2; LARGE]));
    thread::sleep(Duration::from_millis(50));
    let mut peer = stream.try_clone().unwrap();
    let reading = thread::spawn(move || {
        let mut received = vec![0; LARGE];
        peer.read_exact(&mut received).map(|()| received)
    });
    let mut received = vec![0; LARGE];
    output.read_exact(&mut received).unwrap();
    assert!(received.iter().all(|byte| *byte == 2));
    assert!(reading.join().unwrap().unwrap().iter().all(|b| *b == 1));
    sending.join().unwrap().unwrap();
    answering.join().unwrap().unwrap();
    drop(stream);
    assert!(relay.wait().unwrap().success());
}

#[test]
fn passes_the_end_of_input_on_and_waits_for_the_answer() {
    let (mut relay, mut stream) = connected("half");
    relay.stdin.take().unwrap().write_all(b"question").unwrap();
    let mut question = String::new();
    stream.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    stream.write_all(b"answer").unwrap();
    drop(stream);
    let mut answer = String::new();
    let mut output = relay.stdout.take().unwrap();
    output.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    assert!(relay.wait().unwrap().success());
}

#[test]
fn waits_for_a_runner_that_is_not_listening_yet() {
    let path = socket_path("late");
    let mut relay = relay_to(&path);
    thread::sleep(Duration::from_millis(100));
    let listener = UnixListener::bind(&path).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"here").unwrap();
    drop(stream);
    let mut answer = String::new();
    let mut output = relay.stdout.take().unwrap();
    output.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "here");
    assert!(relay.wait().unwrap().success());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn ends_when_its_output_has_no_reader() {
    let (mut relay, mut stream) = connected("gone");
    drop(relay.stdout.take());
    // The pipe accepts nothing, so the relay notices eventually; then the peer does, too.
    while stream.write_all(&[0; 65_536]).is_ok() {}
    assert!(!relay.wait().unwrap().success());
}

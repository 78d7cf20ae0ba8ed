//! Fuzzes the frame decoder: `cargo run --release --example fuzz_frames -- [seconds] [seed]`.

#[path = "../tests/support/fuzz.rs"]
mod fuzz;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DEFAULT_SECONDS: u64 = 10;

fn main() -> ExitCode {
    let mut numbers = Vec::new();
    for argument in std::env::args().skip(1) {
        let Ok(number) = argument.parse::<u64>() else {
            eprintln!("usage: fuzz_frames [seconds] [seed]");
            return ExitCode::FAILURE;
        };
        numbers.push(number);
    }
    let seconds = numbers.first().copied().unwrap_or(DEFAULT_SECONDS);
    let seed = numbers.get(1).copied().unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |since| since.as_nanos() as u64)
    });
    println!("seed {seed}");
    let mut fuzzer = fuzz::Fuzzer::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        fuzzer.round();
    }
    println!(
        "{} streams, {} frames, {} refusals, nothing found",
        fuzzer.streams, fuzzer.frames, fuzzer.refusals
    );
    ExitCode::SUCCESS
}

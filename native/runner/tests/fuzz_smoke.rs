//! A short run of the fuzzer with a fixed seed; `examples/fuzz_frames.rs` runs as long as
//! requested.

#[path = "support/fuzz.rs"]
mod fuzz;

#[test]
fn the_decoder_survives_damaged_streams_in_bounded_memory() {
    let mut fuzzer = fuzz::Fuzzer::new(0x5eed);
    while fuzzer.streams < 500 {
        fuzzer.round();
    }
    // A run that only saw one of the two would have shown nothing.
    assert!(fuzzer.frames > 500, "{} frames", fuzzer.frames);
    assert!(fuzzer.refusals > 50, "{} refusals", fuzzer.refusals);
}

//! Any bytes as a TRACING_DATA section.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tenalloc_trace::fuzzing::formats(bytes);
});

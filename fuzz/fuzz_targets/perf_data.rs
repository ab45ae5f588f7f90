//! Any bytes as a `perf.data`: a program or an error, never a panic, never memory without bound.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tenalloc_trace::fuzzing::perf_bytes(bytes, None);
});

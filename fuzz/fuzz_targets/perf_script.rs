//! Any bytes as the text of `perf script`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tenalloc_trace::read_script(bytes, &tenalloc_trace::Options::default(), &mut |_| {});
});

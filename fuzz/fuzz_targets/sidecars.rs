//! Any text as each of the files that lie beside a `perf.data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    tenalloc_trace::fuzzing::sidecar_text(text);
});

//! What the linker is told about the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Threads point to what lies in it for as long as they live (restartable sequences): once in, it stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtenalloc-malloc.so");
}

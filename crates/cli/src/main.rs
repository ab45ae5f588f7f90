//! tenalloc
fn main() {}

//! The header: clean for C and C++, and the same as the Rust side, declaration by declaration.

use crate::common::{built, compile, compiler, has, run};
use std::fs;
use std::process::Command;

/// The header alone, in the languages that it is for.
#[test]
fn compiles_in_c_and_cpp_without_a_warning() {
    let header = built().here.join("include/tenalloc.h");
    for (program, language, standard) in [
        ("gcc", "c", "-std=c11"),
        ("gcc", "c", "-std=c17"),
        ("g++", "c++", "-std=c++17"),
        ("g++", "c++", "-std=c++20"),
    ] {
        if has(program) {
            let mut command = compiler(program);
            run(command.args([standard, "-Wconversion", "-fsyntax-only", "-x", language]).arg(&header));
        }
    }
}

/// What cbindgen makes of the Rust side.
fn generated(prefix: Option<&str>, items: Vec<cbindgen::ItemType>) -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Both,
        no_includes: true,
        ..cbindgen::Config::default()
    };
    config.export.item_types = items;
    config.export.prefix = prefix.map(Into::into);
    let builder = cbindgen::Builder::new().with_config(config).with_src(built().here.join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().expect("bindings").write(&mut text);
    // An alias with a lifetime is left as it is: see handle.rs.
    String::from_utf8(text).expect("text").replace("Out<", "").replace("> out", " **out")
}

/// Both sets of declarations in one file: a compiler that sees two different types for one name refuses them.
#[test]
fn every_prototype_is_that_of_the_rust_side() {
    let functions = generated(None, vec![cbindgen::ItemType::Functions]);
    let number = functions.matches("ten_").count();
    assert!(number > 130, "cbindgen found the functions: {functions}");
    let file = built().out.join("prototypes.c");
    fs::write(&file, format!("#include \"tenalloc.h\"\n{functions}")).expect("a file");
    if has("gcc") {
        run(compiler("gcc").arg("-fsyntax-only").arg(&file));
    }
}

/// A wrong prototype is seen: this test can fail.
#[test]
fn a_prototype_that_differs_is_refused() {
    let file = built().out.join("wrong.c");
    fs::write(&file, "#include \"tenalloc.h\"\nint ten_group_current(const ten_group *group);\n")
        .expect("a file");
    if has("gcc") {
        let output = compiler("gcc").arg("-fsyntax-only").arg(&file).output().expect("gcc runs");
        assert!(String::from_utf8_lossy(&output.stderr).contains("conflicting types"));
    }
}

/// The fields of the header's structs: name of the struct, names of its fields.
pub(crate) fn structs() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(built().here.join("include/tenalloc.h")).expect("the header");
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code.push_str(rest);
    let mut found = Vec::new();
    for part in code.split("struct ").skip(1) {
        let Some((head, body)) = part.split_once('{') else { continue };
        let name = head.trim();
        if !name.starts_with("ten_") || name.contains(|c: char| !(c.is_alphanumeric() || c == '_')) {
            continue;
        }
        let body = body.split_once('}').expect("a struct ends").0;
        let fields = body.split(';').map(str::trim).filter(|field| !field.is_empty());
        let field_name = |field: &str| match field.split_once("(*") {
            Some((_, pointer)) => pointer.split_once(')').expect("a pointer ends").0.to_owned(),
            None => {
                let plain = field.split_once('[').map_or(field, |(plain, _)| plain);
                plain.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
            }
        };
        found.push((name.to_owned(), fields.map(field_name).collect()));
    }
    found
}

/// Sizes and offsets of every struct, as both sides lay them out.
#[test]
fn every_struct_is_laid_out_as_on_the_rust_side() {
    let rust = generated(Some("rust_"), vec![cbindgen::ItemType::Structs, cbindgen::ItemType::OpaqueItems]);
    let mut code = String::from(
        "#include \"tenalloc.h\"\ntypedef struct rust_LruItem { void *links[3]; } rust_LruItem;\n",
    );
    for handle in ["controller", "group", "cache", "lru"] {
        code += &format!("typedef struct rust_ten_{handle} rust_ten_{handle};\n");
    }
    code += &rust;
    let structs = structs();
    assert!(structs.len() >= 18, "{structs:?}");
    for (name, fields) in structs.iter().filter(|(name, _)| name != "ten_lru_item") {
        code += &format!("_Static_assert(sizeof({name}) == sizeof(rust_{name}), \"size of {name}\");\n");
        for field in fields {
            code += &format!(
                "_Static_assert(offsetof({name}, {field}) == offsetof(rust_{name}, {field}), \"{name}.{field}\");\n"
            );
        }
    }
    code += "_Static_assert(sizeof(ten_lru_item) == 24, \"see lru.rs\");\n";
    let file = built().out.join("layout.c");
    fs::write(&file, code).expect("a file");
    if has("gcc") {
        run(compiler("gcc").arg("-fsyntax-only").arg(&file));
    }
}

/// Every function with zeros and NULLs for everything: each says that something is missing, or does what NULL means.
#[test]
fn null_is_never_followed() {
    if !has("gcc") {
        return;
    }
    let functions = generated(None, vec![cbindgen::ItemType::Functions]);
    let mut code = String::from("#include \"tenalloc.h\"\n#include <stdio.h>\nint main(void) {\n");
    let mut calls = 0;
    // A prototype ends with ");"; its name stands before the first parenthesis, and callbacks have commas of their own.
    for prototype in functions.split(";\n") {
        if !prototype.ends_with(')') {
            continue;
        }
        let start =
            prototype.lines().filter(|line| !line.trim_start().starts_with(['*', '/'])).collect::<String>();
        let Some((head, parameters)) = start.split_once('(') else { continue };
        let name = head.rsplit([' ', '*']).next().unwrap_or_default();
        let mut depth = 0;
        let commas = parameters.chars().filter(|c| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            *c == ',' && depth == 0
        });
        let number = if parameters.trim() == "void)" { 0 } else { 1 + commas.count() };
        calls += 1;
        // NULL is the process's controller there, of which the calls between prepare and parent would wait: tests/c/forks.c.
        if !name.starts_with("ten_fork_") {
            code += &format!("puts(\"{name}\"); fflush(stdout); {name}({});\n", vec!["0"; number].join(", "));
        }
    }
    let abi = fs::read_to_string(built().here.join("abi.txt")).expect("abi.txt");
    let functions = abi.lines().filter(|line| line.starts_with("function ")).count();
    assert_eq!(calls, functions, "every function is called");
    let source = built().out.join("nulls.c");
    fs::write(&source, code + "return 0; }\n").expect("a file");
    let program = compile("gcc", &["-Wno-unused-result", "-Wno-alloc-size-larger-than"], &source, "nulls");
    run(&mut Command::new(program));
}

/// The codes of the header are those of the Rust side, and each has its line.
#[test]
fn every_code_has_its_value() {
    let mut code = String::from("#include \"tenalloc.h\"\n");
    for (value, name, _) in tenalloc_capi::error::CODES {
        code += &format!("_Static_assert({name} == {value}, \"{name}\");\n");
    }
    let file = built().out.join("codes.c");
    fs::write(&file, code).expect("a file");
    let text = fs::read_to_string(built().here.join("include/tenalloc.h")).expect("the header");
    let listed = text
        .lines()
        .filter(|line| line.starts_with("    TEN_ERR_") || line.starts_with("    TEN_OK"))
        .count();
    assert_eq!(listed, tenalloc_capi::error::CODES.len(), "the header has all codes and no other");
    if has("gcc") {
        run(compiler("gcc").arg("-fsyntax-only").arg(&file));
    }
}

//! The page without a browser: it is made for every report, complete in itself, and no name leaves its place.

use tenalloc_replay::report::{Report, html};

use super::fixture;

pub(crate) fn page(report: &Report) -> String {
    let mut out = Vec::new();
    html::write(report, &mut out).expect("writes to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn nothing_is_fetched_and_no_figure_is_broken() {
    for (name, report) in fixture::all() {
        let page = page(&report);
        let data = page.find("<script type=\"application/json\"").expect("data");
        for reach in ["http:", "https:", "//cdn", "@import", "url(//"] {
            assert!(!page[..data].contains(reach), "{name} reaches out: {reach}");
        }
        for broken in ["NaN", "inf%", "undefined", ">none<"] {
            assert!(!page[..data].contains(broken), "{name} holds {broken}");
        }
        assert!(page.ends_with("</html>"), "{name}");
    }
}

#[test]
fn names_stay_text() {
    let page = page(&fixture::ugly());
    assert_eq!(page.matches("<script").count(), 2, "one script of data, one of code");
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<img"));
    assert!(!page.contains("<!--"));
    assert!(!page.contains(['\u{2028}', '\u{202e}', '\u{1b}', '\0']));
    // In the data it is `\"`, inside a JSON string.
    let data = page.find("<script").expect("data");
    assert!(!page[..data].contains("\" onmouseover="), "an attribute was left");
    assert!(page.contains("7 * 7"), "a name was taken for a template");
    assert!(page.contains("/日本語/контейнер/🦀🦀🦀/"));
}

#[test]
fn embedded_data_is_the_report() {
    for (name, report) in fixture::all() {
        let page = page(&report);
        let start = page.find("id=\"data\">").expect("data") + "id=\"data\">".len();
        let end = start + page[start..].find("</script>").expect("end of data");
        assert_eq!(serde_json::from_str::<Report>(&page[start..end]).expect(name), report, "{name}");
    }
}

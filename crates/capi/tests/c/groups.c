/* Groups: the tree, names, limits, events, errors in words, the group of a thread, figures as text and JSON. */
#include "check.h"

static void tree(const ten_controller *ctl) {
    ten_group *root, *a, *b, *found, *same;
    char text[64];
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "a", &a));
    OK(ten_group_create(a, "b", &b));
    CHECK(ten_group_create(root, "a", &found) == TEN_ERR_EXISTS && found == NULL);
    CHECK(ten_group_create(root, "x/y", &found) == TEN_ERR_INVALID);
    CHECK(ten_group_create(root, "\xff", &found) == TEN_ERR_INVALID);
    CHECK(ten_group_create(root, NULL, &found) == TEN_ERR_INVALID);
    CHECK(strstr(ten_last_error_text(), "'name'") != NULL);
    CHECK(ten_group_create(NULL, "c", &found) == TEN_ERR_INVALID);
    CHECK(ten_group_create(root, "c", NULL) == TEN_ERR_INVALID);
    CHECK(ten_group_lookup(root, "a/nobody", &found) == TEN_ERR_NOT_FOUND);
    OK(ten_group_lookup(root, "/a/b", &found));
    CHECK(ten_group_same(found, b) && !ten_group_same(found, a));
    ten_group_close(found);
    OK(ten_group_parent(b, &found));
    CHECK(ten_group_same(found, a));
    ten_group_close(found);
    CHECK(ten_group_parent(root, &found) == TEN_ERR_NOT_FOUND);

    CHECK(ten_group_path(b, text, sizeof text) == 4 && strcmp(text, "/a/b") == 0);
    CHECK(ten_group_path(b, text, 3) == 4 && strcmp(text, "/a") == 0);
    CHECK(ten_group_path(b, NULL, 0) == 4);
    CHECK(ten_group_path(b, NULL, 1) == TEN_ERR_INVALID);
    CHECK(ten_group_name(b, text, sizeof text) == 1 && strcmp(text, "b") == 0);

    CHECK(ten_group_remove(a) == TEN_ERR_BUSY);
    CHECK(ten_group_remove(root) == TEN_ERR_NOT_ALLOWED);
    OK(ten_group_dup(b, &same));
    OK(ten_group_remove(b));
    CHECK(ten_group_is_removed(same) && !ten_group_is_removed(a));
    CHECK(ten_group_remove(same) == TEN_ERR_REMOVED);
    CHECK(ten_malloc(same, 10) == NULL && ten_last_error() == TEN_ERR_REMOVED && errno == ENODEV);
    ten_group_close(same);
    ten_group_close(b);
    OK(ten_group_remove(a));
    ten_group_close(a);
    ten_group_close(root);
    ten_group_close(NULL);
}

static bool count(const ten_group *child, void *arg) {
    int *left = arg;
    CHECK(!ten_group_is_removed(child));
    return --*left > 0;
}

static void children(const ten_controller *ctl) {
    ten_group *root, *parent, *child;
    ten_controller *own;
    int left = 100;
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "parent", &parent));
    OK(ten_group_controller(parent, &own));
    ten_controller_close(own);
    for (int i = 0; i < 5; i++) {
        const char name[] = { (char)('a' + i), '\0' };
        OK(ten_group_create(parent, name, &child));
        ten_group_close(child); /* the group stays */
    }
    OK(ten_group_children(parent, count, &left));
    CHECK(left == 95);
    left = 2;
    OK(ten_group_children(parent, count, &left));
    CHECK(left == 0);
    CHECK(ten_group_children(parent, NULL, NULL) == TEN_ERR_INVALID);
    ten_group_close(parent);
    ten_group_close(root);
}

static void limits(const ten_controller *ctl) {
    ten_group *root, *group, *child;
    ten_events events;
    ten_limit limit;
    ten_peak *peak;
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "limited", &group));
    OK(ten_group_create(group, "child", &child));
    CHECK(ten_group_max(group) == TEN_NO_LIMIT && ten_group_high(group) == TEN_NO_LIMIT);
    OK(ten_group_set_max(group, 20000));
    OK(ten_peak_open(group, &peak));
    void *first = ten_malloc(child, 8192);
    CHECK(first != NULL);
    CHECK(ten_group_exact(child) == 8192 + TEN_OWNER_BYTES);
    CHECK(ten_group_current(group) == 8192 + TEN_OWNER_BYTES);
    ten_clear_error();
    errno = 0;
    CHECK(ten_malloc(child, 16384) == NULL);
    CHECK(errno == EDQUOT && ten_last_error() == TEN_ERR_LIMIT);
    CHECK(strstr(ten_last_error_text(), "/limited") && strstr(ten_last_error_text(), "20000"));
    OK(ten_last_limit(&limit));
    CHECK(limit.max == 20000 && limit.current == 8196 && limit.wanted == 16384 + TEN_OWNER_BYTES);
    CHECK(strcmp(limit.path, "/limited") == 0);
    OK(ten_group_events(group, &events, sizeof events));
    CHECK(events.max == 1 && events.oom == 1);
    OK(ten_group_events_local(child, &events, sizeof events));
    CHECK(events.max == 0);

    OK(ten_group_set_max(group, TEN_NO_LIMIT));
    OK(ten_group_freeze(group, true));
    CHECK(ten_group_is_frozen(child) && ten_malloc(child, 8000) == NULL && ten_last_error() == TEN_ERR_FROZEN);
    OK(ten_group_freeze(group, false));
    OK(ten_group_set_low(group, 11));
    OK(ten_group_set_min(group, 22));
    OK(ten_group_set_high(group, 33333));
    CHECK(ten_group_low(group) == 11 && ten_group_min(group) == 22 && ten_group_high(group) == 33333);

    CHECK(ten_group_peak(group) >= 8196 && ten_peak_read(peak) >= 8196);
    OK(ten_free(ctl, first));
    OK(ten_peak_reset(peak));
    CHECK(ten_peak_read(peak) == 0 && ten_group_peak(group) >= 8196);
    OK(ten_group_reset_peak(group));
    CHECK(ten_group_peak(group) == 0 && ten_group_exact(root) == 0);
    ten_peak_close(peak);
    ten_group_close(child);
    ten_group_close(group);
    ten_group_close(root);
}

static void body(void *arg) {
    ten_group *now;
    OK(ten_scope_current(&now));
    CHECK(ten_group_same(now, *(ten_group **)arg));
    ten_group_close(now);
}

static void scopes(const ten_controller *ctl) {
    ten_group *root, *a, *b, *now;
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "scope-a", &a));
    OK(ten_group_create(root, "scope-b", &b));
    CHECK(ten_scope_current(&now) == TEN_ERR_NOT_FOUND);
    const ten_group *outside = ten_scope_enter(a);
    CHECK(outside == NULL);
    void *of_a = ten_malloc_here(ctl, 100);
    OK(ten_scope_run(b, body, &b));
    const ten_group *before = ten_scope_enter(b);
    CHECK(ten_group_same(before, a));
    void *of_b = ten_malloc_here(ctl, 100);
    ten_scope_enter(before);
    body(&a);
    ten_scope_enter(outside);
    void *of_root = ten_malloc_here(ctl, 100);
    const uint64_t each = ten_usable_size(ctl, of_a) + TEN_OWNER_BYTES;
    CHECK(ten_group_exact(a) == each && ten_group_exact(b) == each && ten_group_exact(root) == 3 * each);
    OK(ten_free(ctl, of_a));
    OK(ten_free(ctl, of_b));
    OK(ten_free(ctl, of_root));
    ten_group_close(a);
    ten_group_close(b);
    ten_group_close(root);
}

static void words(const ten_controller *ctl) {
    ten_group *root, *group, *child;
    ten_group_stat stat;
    struct { ten_stat known; uint64_t newer; } all;
    char text[4096], small[8];
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "w\"\n", &group));
    OK(ten_group_create(group, "child", &child));
    void *object = ten_malloc(child, 64);
    OK(ten_group_stat_get(group, &stat, sizeof stat));
    CHECK(stat.exact == 68 && stat.own == 0 && stat.descendants == 1);
    memset(&all, 0xff, sizeof all);
    OK(ten_stat_get(ctl, &all.known, sizeof all)); /* a program that is newer than the library */
    CHECK(all.known.objects == 1 && all.known.live_bytes == 64 && all.newer == 0);
    CHECK(ten_stat_get(ctl, NULL, sizeof(ten_stat)) == TEN_ERR_INVALID);

    int64_t length = ten_group_text(group, text, sizeof text);
    CHECK(length > 0 && (size_t)length == strlen(text));
    CHECK(strstr(text, "exact 68\n") && strstr(text, "max max\n") && strstr(text, "events_oom 0\n"));
    CHECK(ten_group_text(group, small, sizeof small) == length && strlen(small) == 7);
    CHECK(ten_group_json(group, 1, text, sizeof text) > 0);
    CHECK(strstr(text, "{\"name\":\"w\\\"\\u000a\",") == text);
    CHECK(strstr(text, "\"max\":null") && strstr(text, "\"children\":[{\"name\":\"child\"") && strstr(text, "\"exact\":68"));
    CHECK(ten_controller_text(ctl, text, sizeof text) > 0 && strstr(text, "live_bytes 64\n"));
    CHECK(ten_controller_json(ctl, text, sizeof text) > 0 && strstr(text, "\"caches\":[{\"name\":\"size-"));
    puts(text); /* the test looks whether it is JSON */
    OK(ten_free(ctl, object));
    ten_group_close(child);
    ten_group_close(group);
    ten_group_close(root);
}

int main(void) {
    ten_controller *ctl = strict_controller(), *again;
    ten_config config = TEN_CONFIG_INIT;
    CHECK(ten_last_error() == 0 && strcmp(ten_last_error_text(), "") == 0);
    CHECK(strcmp(ten_version(), TEN_VERSION) == 0);
    CHECK(strcmp(ten_strerror(TEN_OK), "success") == 0 && ten_strerror(77) != NULL);
    CHECK(ten_last_limit(&(ten_limit){ 0, 0, 0, "" }) == TEN_ERR_NOT_FOUND);
    config.struct_size = 3;
    CHECK(ten_controller_new(&config, &again) == TEN_ERR_INVALID && again == NULL);
    OK(ten_controller_dup(ctl, &again));
    ten_controller_close(again);
    OK(ten_controller_global(&again));
    CHECK(ten_controller_cpus(NULL) >= 1 && ten_controller_nodes(again) >= 1 && ten_slack_per_cpu() > 0);
    ten_controller_close(again);
    tree(ctl);
    limits(ctl);
    scopes(ctl);
    words(ctl);
    children(ctl);
    ten_controller_trim(ctl);
    ten_controller_close(ctl);
    return 0;
}

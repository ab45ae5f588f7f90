// A callback that throws: the process ends where it does, and nothing unwinds through the library. The argument: which.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include "tenalloc.h"

static void body(void *) { throw std::runtime_error("out of a scope"); }
static bool each(const ten_group *, void *) { throw 5; }
static bool decide(const ten_oom *, const ten_group *, uint64_t) { throw "out of memory"; }
static const ten_oom oom = {decide, nullptr};

int main(int argc, char **argv) {
    ten_config config = TEN_CONFIG_INIT;
    config.oom = &oom;
    ten_controller *ctl = nullptr;
    ten_group *root = nullptr, *group = nullptr;
    if (argc != 2 || ten_controller_new(&config, &ctl) || ten_root(ctl, &root) || ten_group_create(root, "g", &group))
        return 1;
    try {
        if (!std::strcmp(argv[1], "scope")) ten_scope_run(group, body, nullptr);
        if (!std::strcmp(argv[1], "each")) ten_group_children(root, each, nullptr);
        if (!std::strcmp(argv[1], "oom")) ten_group_set_max(group, 1), std::printf("%p\n", ten_malloc(group, 100));
    } catch (...) {
        return 2; // it came through
    }
    return 3;
}

// The header in C++: handles in smart pointers, a struct by its initialiser, an allocator for a container.
#include <cstdio>
#include <memory>
#include <new>
#include <vector>
#include "tenalloc.h"

struct Close {
    void operator()(ten_group *group) const noexcept { ten_group_close(group); }
    void operator()(ten_controller *ctl) const noexcept { ten_controller_close(ctl); }
};
template <class T> using handle = std::unique_ptr<T, Close>;

template <class T> struct in_group {
    using value_type = T;
    const ten_controller *ctl;
    const ten_group *group;
    in_group(const ten_controller *c, const ten_group *g) noexcept : ctl(c), group(g) {}
    template <class U> in_group(const in_group<U> &o) noexcept : ctl(o.ctl), group(o.group) {}
    T *allocate(std::size_t n) {
        void *p = n <= SIZE_MAX / sizeof(T) ? ten_aligned_alloc(group, alignof(T), n * sizeof(T)) : nullptr;
        if (!p) throw std::bad_alloc();
        return static_cast<T *>(p);
    }
    void deallocate(T *p, std::size_t) noexcept { ten_free(ctl, p); }
    bool operator==(const in_group &o) const noexcept { return ctl == o.ctl; }
    bool operator!=(const in_group &o) const noexcept { return ctl != o.ctl; }
};

int main() {
    static_assert(noexcept(ten_free(nullptr, nullptr)), "C functions do not throw");
    ten_config config = TEN_CONFIG_INIT;
    config.exact_charges = 1;
    ten_controller *made = nullptr;
    if (ten_controller_new(&config, &made)) return 1;
    handle<ten_controller> ctl(made);
    ten_group *root = nullptr, *group = nullptr;
    if (ten_root(ctl.get(), &root)) return 2;
    handle<ten_group> top(root);
    if (ten_group_create(root, "cpp", &group)) return 3;
    handle<ten_group> tenant(group);
    {
        std::vector<int, in_group<int>> numbers(in_group<int>(ctl.get(), group));
        numbers.resize(1000, 7);
        if (ten_group_exact(group) != ten_usable_size(ctl.get(), numbers.data()) + TEN_OWNER_BYTES) return 4;
        ten_group_set_max(group, ten_group_current(group));
        try {
            numbers.resize(100000);
            return 5;
        } catch (const std::bad_alloc &) {
            if (ten_last_error() != TEN_ERR_LIMIT || numbers.size() != 1000) return 6;
        }
    }
    return ten_group_exact(group) == 0 ? 0 : 7;
}

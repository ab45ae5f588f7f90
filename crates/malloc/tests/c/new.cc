// Operator new and delete in all their forms, and what happens when there is no memory.
#include "check.h"
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

struct alignas(128) Wide {
    char bytes[128];
};

static volatile std::size_t opaque;
static std::size_t hidden(std::size_t n)
{
    opaque = n;
    return opaque;
}

static void forms()
{
    const std::align_val_t to{256};
    for (std::size_t n : {0, 1, 8, 100, 5000, 100000}) {
        void *all[] = {operator new(hidden(n)),
                       operator new[](hidden(n)),
                       operator new(hidden(n), std::nothrow),
                       operator new[](hidden(n), std::nothrow),
                       operator new(hidden(n), to),
                       operator new[](hidden(n), to),
                       operator new(hidden(n), to, std::nothrow),
                       operator new[](hidden(n), to, std::nothrow)};
        for (int i = 0; i < 8; i++) {
            CHECK(all[i] && reinterpret_cast<std::uintptr_t>(all[i]) % (i < 4 ? 16 : 256) == 0);
            std::memset(all[i], i, n);
        }
        operator delete(all[0]), operator delete[](all[1]);
        operator delete(all[2], n), operator delete[](all[3], n);
        operator delete(all[4], to), operator delete[](all[5], to);
        operator delete(all[6], n, to), operator delete[](all[7], n, to);
        operator delete(operator new(hidden(n)), std::nothrow);
        operator delete[](operator new[](hidden(n)), std::nothrow);
        operator delete(operator new(hidden(n), to), to, std::nothrow);
        operator delete[](operator new[](hidden(n), to), to, std::nothrow);
    }
    operator delete(nullptr);
    Wide *wide = new Wide[10];
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0);
    delete[] wide;
}

static int handled;

static void twice()
{
    if (++handled == 2) std::set_new_handler(nullptr);
}

struct Own {};
static void throws_its_own() { throw Own{}; }

static void no_memory()
{
    const std::size_t huge = std::size_t(1) << 60;
    const std::align_val_t to{64};
    int thrown = 0;
    for (int form = 0; form < 4; form++) {
        try {
            void *p = form == 0   ? operator new(hidden(huge))
                      : form == 1 ? operator new[](hidden(huge))
                      : form == 2 ? operator new(hidden(huge), to)
                                  : operator new[](hidden(huge), to);
            CHECK(!p);
        } catch (const std::bad_alloc &) {
            thrown++;
        }
    }
    CHECK(thrown == 4);
    CHECK(!operator new(hidden(huge), std::nothrow) && !operator new[](hidden(huge), std::nothrow));
    CHECK(!operator new(hidden(huge), to, std::nothrow) && !operator new[](hidden(huge), to, std::nothrow));
    std::set_new_handler(twice);
    try {
        CHECK(!operator new(hidden(huge)));
    } catch (const std::bad_alloc &) {
        thrown++;
    }
    CHECK(thrown == 5 && handled == 2);
    handled = 0;
    std::set_new_handler(twice);
    CHECK(!operator new(hidden(huge), std::nothrow) && handled == 2);
    std::set_new_handler(throws_its_own);
    try {
        CHECK(!operator new(hidden(huge)));
    } catch (const Own &) {
        thrown++;
    }
    std::set_new_handler(nullptr);
    CHECK(thrown == 6);
}

int main()
{
    forms();
    no_memory();
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 20000; i++) map["key number " + std::to_string(i % 3000)].push_back(i);
    std::size_t sum = 0;
    for (const auto &entry : map) sum += entry.second.size();
    CHECK(sum == 20000);
    std::puts("new and delete hold");
}

/* What C, POSIX and glibc promise of the malloc family. Run under the preload, and under glibc's as a control. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096

static volatile size_t opaque; /* the compiler must not see what sizes are asked for */
static size_t hidden(size_t n)
{
    opaque = n;
    return opaque;
}

static int aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

static int is_filled(const unsigned char *p, int with, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)with) return 0;
    return 1;
}

static void alignment(void)
{
    for (size_t n = 0; n < 20000; n += n < 300 ? 1 : 97) {
        void *p = malloc(hidden(n)), *q = calloc(1, hidden(n)), *r = realloc(NULL, hidden(n));
        CHECK(p && q && r && p != q && q != r && p != r);
        CHECK(aligned(p, 16) && aligned(q, 16) && aligned(r, 16));
        CHECK(malloc_usable_size(p) >= n && is_filled(q, 0, n));
        memset(p, 1, n), memset(q, 2, n), memset(r, 3, n);
        CHECK(is_filled(p, 1, n) && is_filled(q, 2, n) && is_filled(r, 3, n));
        free(p), free(q), free(r);
    }
}

static void aligned_blocks(void)
{
    for (size_t align = 1; align <= (size_t)1 << 26; align *= 2) {
        for (size_t n = 0; n < 3 * PAGE; n = 2 * n + 1) {
            void *p = memalign(align, hidden(n)), *q = NULL, *r = aligned_alloc(align, hidden(n));
            CHECK(p && r && aligned(p, align) && aligned(r, align) && aligned(p, 16));
            int wrong = align < sizeof(void *);
            errno = 77;
            CHECK(posix_memalign(&q, align, hidden(n)) == (wrong ? EINVAL : 0) && errno == 77);
            CHECK(wrong ? q == NULL : q && aligned(q, align));
            memset(p, 1, n), memset(r, 3, n);
            if (q) memset(q, 2, n), CHECK(is_filled(q, 2, n));
            CHECK(is_filled(p, 1, n) && is_filled(r, 3, n) && malloc_usable_size(p) >= n);
            /* What was aligned may be made larger, and need not stay so. */
            p = realloc(p, n + 5000);
            CHECK(p && is_filled(p, 1, n));
            free(p), free(q), free(r);
        }
    }
    void *q = (void *)5;
    CHECK(posix_memalign(&q, 24, 8) == EINVAL && posix_memalign(&q, 0, 8) == EINVAL && q == (void *)5);
    void *p = memalign(hidden(48), 100); /* rounded up */
    CHECK(p && aligned(p, 64));
    free(p);
    p = valloc(hidden(10));
    CHECK(p && aligned(p, PAGE));
    free(p);
    p = pvalloc(hidden(PAGE + 1));
    CHECK(p && aligned(p, PAGE) && malloc_usable_size(p) >= 2 * PAGE);
    free(p);
}

static void impossible_sizes(void)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - PAGE, PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 50};
    char *kept = malloc(100);
    memset(kept, 9, 100);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = hidden(sizes[i]);
        void *p = NULL;
        errno = 0, CHECK(malloc(n) == NULL && errno == ENOMEM);
        errno = 0, CHECK(calloc(1, n) == NULL && errno == ENOMEM);
        errno = 0, CHECK(calloc(n, 1) == NULL && errno == ENOMEM);
        errno = 0, CHECK(realloc(kept, n) == NULL && errno == ENOMEM && is_filled((void *)kept, 9, 100));
        errno = 0, CHECK(memalign(64, n) == NULL && errno == ENOMEM);
        errno = 0, CHECK(aligned_alloc(64, n) == NULL && errno == ENOMEM);
        errno = 0, CHECK(valloc(n) == NULL && errno == ENOMEM);
        errno = 0, CHECK(pvalloc(n) == NULL && errno == ENOMEM);
        CHECK(posix_memalign(&p, 64, n) == ENOMEM && p == NULL);
    }
    const size_t half = (size_t)1 << 32;
    errno = 0, CHECK(calloc(hidden(half), hidden(half)) == NULL && errno == ENOMEM);
    errno = 0, CHECK(calloc(hidden(half), hidden(half) + 1) == NULL && errno == ENOMEM);
    errno = 0, CHECK(reallocarray(kept, hidden(half), hidden(half)) == NULL && errno == ENOMEM);
    CHECK(is_filled((void *)kept, 9, 100));
    free(kept);
}

static void nothing_at_all(void)
{
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    void *p = malloc(hidden(0)), *q = malloc(hidden(0)), *r = calloc(hidden(0), 8), *s = calloc(8, hidden(0));
    CHECK(p && q && r && s && p != q && r != s);
    CHECK(realloc(p, hidden(0)) == NULL); /* glibc frees */
    free(q), free(r);
    CHECK(reallocarray(s, 3, hidden(0)) == NULL);
}

static void larger_and_smaller(void)
{
    size_t n = 1;
    unsigned char *p = malloc(1);
    p[0] = 1;
    for (int step = 0; step < 60; step++) {
        size_t to = n + n / 3 + 1;
        p = realloc(p, to);
        CHECK(p && is_filled(p, step + 1, n));
        memset(p, step + 2, to);
        n = to;
    }
    CHECK(n > 10000000);
    while (n > 1) {
        size_t to = n * 2 / 3;
        int with = p[0];
        p = realloc(p, to);
        CHECK(p && is_filled(p, with, to));
        n = to;
    }
    /* What it may use already it gets where it is. */
    size_t usable = malloc_usable_size(p);
    CHECK(realloc(p, usable) == p);
    p = reallocarray(p, 10, 1000);
    CHECK(p && malloc_usable_size(p) >= 10000);
    free(p);
}

static void zeroed_although_used_before(void)
{
    for (size_t n = 8; n < (size_t)6 << 20; n = n * 5 / 2) {
        for (int i = 0; i < 4; i++) {
            unsigned char *p = malloc(n);
            memset(p, 0xff, n);
            free(p);
            p = calloc(n / 8, 8);
            CHECK(p && is_filled(p, 0, n / 8 * 8));
            free(p);
        }
    }
}

static void errors_stay(void)
{
    for (size_t n = 1; n < (size_t)8 << 20; n *= 3) {
        void *p = malloc(hidden(n));
        memset(p, 1, n);
        errno = 1234;
        free(p);
        CHECK(errno == 1234);
    }
}

int main(void)
{
    alignment();
    aligned_blocks();
    impossible_sizes();
    nothing_at_all();
    larger_and_smaller();
    zeroed_although_used_before();
    errors_stay();
    malloc_trim(0);
    puts("contract holds");
    return 0;
}

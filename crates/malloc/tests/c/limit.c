/* Under a limit malloc fails with ENOMEM and the program lives. First argument: bytes that must be had, second: bytes
 * that must not. */
#include "check.h"
#include <errno.h>
#include <string.h>

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t must = strtoul(argv[1], NULL, 10), most = strtoul(argv[2], NULL, 10), got = 0, n = 0;
    static void *all[1 << 20];
    for (;; n++) {
        size_t size = n % 8 == 0 ? 100000 : 700;
        errno = 0;
        void *p = malloc(size);
        if (!p) {
            CHECK(errno == ENOMEM);
            break;
        }
        memset(p, 1, size);
        all[n] = p;
        got += size;
        CHECK(got <= most && n + 1 < sizeof all / sizeof *all);
    }
    CHECK(got >= must);
    /* Still at the limit: everything else fails in the same way, and what is there can be read and resized in place. */
    void *q = NULL;
    errno = 0, CHECK(calloc(1, 200000) == NULL && errno == ENOMEM);
    errno = 0, CHECK(realloc(all[0], 300000) == NULL && errno == ENOMEM);
    CHECK(posix_memalign(&q, 64, 200000) == 12 /* ENOMEM */ && !q);
    CHECK(((char *)all[0])[99999] == 1);
    /* A hundred times to the limit and back. */
    for (int round = 0; round < 100; round++) {
        size_t freed = 0;
        for (size_t i = round % 3; i < n; i += 3)
            if (all[i]) freed++, free(all[i]), all[i] = NULL;
        for (size_t i = round % 3; i < n && freed; i += 3)
            all[i] = malloc(700), freed--;
    }
    printf("%zu\n", got);
    for (size_t i = 0; i < n; i++) free(all[i]);
    char *p = malloc(must / 2);
    CHECK(p);
    free(p);
    return 0;
}

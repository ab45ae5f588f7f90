/* What programs may ask of glibc's malloc, or tell it: true under glibc's own and under ours. "stats": malloc_stats. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <string.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo */

enum { SMALL = 20000, LARGE = 8 };
static void *small[SMALL], *large[LARGE];

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    CHECK(m.arena >= m.uordblks && m.fordblks <= m.arena && m.ordblks > 0);
    return m.uordblks + m.hblkhd;
}

static void xml(void)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    CHECK(to && malloc_info(1, to) == EINVAL && malloc_info(0, to) == 0 && fclose(to) == 0);
    CHECK(!strncmp(text, "<malloc version=\"1\">", 20) && !strcmp(text + size - 10, "</malloc>\n"));
    CHECK(strstr(text, "<system type=\"current\" size=\""));
    free(text);
    to = fopen("/dev/full", "w");
    CHECK(to && malloc_info(0, to) <= 0 && fclose(to) != 0);
}

int main(int argc, char **argv)
{
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_ARENA_MAX, 2) == 1);
    size_t before = in_use();
    for (int i = 0; i < SMALL; i++) CHECK((small[i] = malloc(500)) != NULL), memset(small[i], 1, 500);
    for (int i = 0; i < LARGE; i++) CHECK((large[i] = malloc(3 << 20)) != NULL), memset(large[i], 1, 3 << 20);
    size_t wanted = (size_t)SMALL * 500 + ((size_t)LARGE * 3 << 20), after = in_use();
    CHECK(after >= before + wanted && after < before + wanted + wanted / 8);
    CHECK(mallinfo2().hblks > 0 && mallinfo2().hblkhd >= (size_t)LARGE * 3 << 20);
    struct mallinfo old = mallinfo();
    CHECK((size_t)old.uordblks == mallinfo2().uordblks && (size_t)old.hblkhd == mallinfo2().hblkhd);
    for (int i = 0; i < SMALL; i++) free(small[i]);
    for (int i = 0; i < LARGE; i++) free(large[i]);
    CHECK(in_use() < before + wanted / 8);
    malloc_trim(0);
    CHECK(malloc_trim(0) == 0 || mallinfo2().keepcost <= 2 << 20); /* nothing is left */
    xml();
    if (argc > 1 && !strcmp(argv[1], "stats")) malloc_stats();
    puts("info holds");
    return 0;
}

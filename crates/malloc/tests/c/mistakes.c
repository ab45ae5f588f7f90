/* Frees what must not be freed. The argument says what. */
#include "check.h"
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

static volatile char *hidden;

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char *elsewhere = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *object = malloc(100);
    CHECK(elsewhere != MAP_FAILED && object);
    if (!strcmp(argv[1], "foreign")) {
        for (int i = 0; i < 20; i++) free(elsewhere + 64);
        CHECK(realloc(elsewhere + 64, 10) == NULL);
        CHECK(malloc_usable_size(elsewhere + 64) == 0);
        puts("lives");
    }
    hidden = object;
    if (!strcmp(argv[1], "interior")) free((char *)hidden + 16);
    if (!strcmp(argv[1], "double")) free((char *)hidden), free((char *)hidden);
    free(object);
    return 0;
}

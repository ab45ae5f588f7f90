/* Allocates for the first time from here while no descriptor is left, and again when there are some: what is had then is
 * this program's, by library too. Prints its bytes. */
#include "check.h"
#include <malloc.h>
#include <sys/resource.h>

int main(void)
{
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before, none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    void *all[100];
    for (int i = 0; i < 100; i++) CHECK((all[i] = malloc(100)) != NULL);
    for (int i = 0; i < 100; i++) free(all[i]);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    size_t bytes = 0;
    for (int i = 0; i < 100; i++) CHECK((all[i] = malloc(100)) != NULL), bytes += malloc_usable_size(all[i]) + 4;
    printf("descriptors %zu 0\n", bytes);
    return 0;
}

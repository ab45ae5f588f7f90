/* Threads with names that hold memory and count it themselves: "name bytes" for each, what the library must say to the
 * byte. Then a signal to itself if asked, and the end. Arguments: threads, objects a thread, and "signal" or "exit". */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int objects;
static pthread_barrier_t quiet, over;
static size_t counted[64], failed[64];

static void *tenant(void *number)
{
    long me = (long)number;
    char name[16];
    void **all = malloc(objects * sizeof *all);
    uint64_t random = me + 1;
    snprintf(name, sizeof name, "tenant-%ld", me);
    pthread_setname_np(pthread_self(), name);
    counted[me] = malloc_usable_size(all) + 4; /* and its owner's entry */
    for (int i = 0; i < objects; i++) {
        /* Those with odd numbers want ten times as much. */
        size_t size = next_random(&random) % (me % 2 ? 20000 : 2000);
        all[i] = malloc(size);
        if (all[i]) counted[me] += malloc_usable_size(all[i]) + 4;
        else CHECK(errno == ENOMEM), failed[me]++;
    }
    pthread_barrier_wait(&quiet);
    pthread_barrier_wait(&over);
    if (me == 0) return all; /* leaves its memory to the process */
    for (int i = 0; i < objects; i++) free(all[i]);
    free(all);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    int threads = atoi(argv[1]);
    objects = atoi(argv[2]);
    pthread_t all[64];
    pthread_barrier_init(&quiet, NULL, threads + 1), pthread_barrier_init(&over, NULL, threads + 1);
    for (long i = 0; i < threads; i++) CHECK(pthread_create(&all[i], NULL, tenant, (void *)i) == 0);
    pthread_barrier_wait(&quiet);
    for (int i = 0; i < threads; i++) printf("tenant-%d %zu %zu\n", i, counted[i], failed[i]);
    fflush(stdout);
    if (!strcmp(argv[3], "signal")) raise(SIGUSR1);
    if (!strcmp(argv[3], "exit")) exit(0);
    pthread_barrier_wait(&over);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(all[i], NULL) == 0);
    return 0;
}

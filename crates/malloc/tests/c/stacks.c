/* Small stacks: threads with the smallest that there may be, and 8 KiB for signal handlers, as every Rust program has. All
 * of them allocate, and are asked for a report by SIGUSR1. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static void *small(void *rounds)
{
    void *all[60];
    for (long round = 0; round < (long)rounds; round++) {
        for (int i = 0; i < 60; i++) CHECK((all[i] = malloc(i * 40 + round)) != NULL);
        for (int i = 0; i < 60; i++) CHECK((all[i] = realloc(all[i], i * 90 + 1)) != NULL);
        for (int i = 0; i < 60; i++) free(all[i]);
    }
    raise(SIGUSR1);
    return NULL;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t threads[8];
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int i = 0; i < 25; i++) {
        for (int t = 0; t < 8; t++) CHECK(pthread_create(&threads[t], &attributes, small, (void *)20) == 0);
        for (int t = 0; t < 8; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    }
    /* Between pages that must not be touched. */
    enum { BYTES = 8192, PAGE = 4096 };
    char *stack = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + PAGE, BYTES, PROT_READ | PROT_WRITE) == 0);
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack + PAGE, .ss_size = BYTES}, NULL) == 0);
    small((void *)20);
    puts("stacks: done");
    return 0;
}

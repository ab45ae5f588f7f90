/* Linked with the library, or opening it: memory before any constructor, in fork handlers of others, and at the end. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *before_all, *kept;
static int handled;

/* What other libraries do around a fork, some of them before our handlers, some after. */
static void at_fork(void)
{
    char *a = malloc(300), *b = calloc(10, 10);
    CHECK(a && b && !b[99]);
    memset(a, 1, 300);
    a = realloc(a, 3000);
    CHECK(a && a[299] == 1);
    kept = realloc(kept, 100 + handled % 50);
    CHECK(kept && kept[0] == 'k' && malloc_usable_size(kept) >= 100);
    free(a), free(b);
    handled++;
}

static void first(void)
{
    CHECK(pthread_atfork(at_fork, at_fork, at_fork) == 0);
    before_all = malloc(1000);
    kept = strdup("kept");
    CHECK(before_all && kept);
    memset(before_all, 3, 1000);
}

__attribute__((section(".preinit_array"), used)) static void (*const run_first)(void) = first;

static void last(void)
{
    char *p = strdup("at the very end");
    CHECK(p && strlen(p) == 15);
    free(p);
}

static void *alloc(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2000; i++) free(malloc(i));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(atexit(last) == 0 && pthread_atfork(at_fork, at_fork, at_fork) == 0);
    if (argc == 2) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        void *(*take)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(library, "malloc");
        void (*give)(void *) = (void (*)(void *))(uintptr_t)dlsym(library, "free");
        CHECK(take && give && (void *)(uintptr_t)take != (void *)(uintptr_t)malloc);
        char *p = take(100);
        CHECK(p);
        memset(p, 1, 100);
        give(p);
        CHECK(dlclose(library) == 0);
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, alloc, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(600); /* a child that hangs ends, which the parent sees; no slow machine makes one that runs meet it */
            alloc(NULL);
            exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(handled == 200 && before_all[999] == 3);
    free(before_all), free(kept);
    puts("linked: done");
    return 0;
}

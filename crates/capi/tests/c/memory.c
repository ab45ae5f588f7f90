/* The end of memory, and threads that come and go: nothing is lost, nobody dies. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

static ten_controller *ctl;
static ten_group *root, *group;
static ten_cache *cache;

/* In the handler only what is at hand; what cannot be freed at once is freed later. */
static atomic_int handled, enough;

static void handler(int number) {
    (void)number;
    const int before = errno;
    void *object = ten_cache_alloc_nolock(cache, group);
    if (object)
        ten_free_nolock(ctl, object);
    atomic_fetch_add(&handled, 1);
    errno = before;
}

static void *work(void *arg) {
    void *objects[64];
    (void)arg;
    while (!atomic_load(&enough)) {
        for (int i = 0; i < 64; i++)
            CHECK((objects[i] = i % 2 ? ten_cache_alloc(cache, group) : ten_malloc(group, (size_t)i * 20)) != NULL);
        for (int i = 0; i < 64; i++)
            OK(ten_free(ctl, objects[i]));
    }
    return NULL;
}

static void signals(void) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    pthread_t threads[2];
    OK(ten_cache_create(ctl, "signal", 100, &cache));
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; atomic_load(&handled) < 100; i++) {
        CHECK(pthread_kill(threads[i % 2], SIGUSR1) == 0);
        sched_yield();
    }
    atomic_store(&enough, 1);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(ten_group_exact(group) == 0);
}

/* A failure in one thread is that thread's, and goes with it. */
static void *fail(void *arg) {
    (void)arg;
    void *object = ten_malloc(group, 100);
    CHECK(object != NULL && ten_last_error() == 0);
    CHECK(ten_malloc(NULL, 100) == NULL && ten_last_error() == TEN_ERR_INVALID);
    return object;
}

static void threads_come_and_go(void) {
    for (int i = 0; i < 1000; i += 10) {
        pthread_t thread[10];
        for (int j = 0; j < 10; j++)
            CHECK(pthread_create(&thread[j], NULL, fail, NULL) == 0);
        for (int j = 0; j < 10; j++) {
            void *object;
            CHECK(pthread_join(thread[j], &object) == 0);
            OK(ten_free(ctl, object));
        }
    }
    CHECK(ten_group_exact(group) == 0 && ten_last_error() == 0);
}

static void memory_ends(void) {
    enum { MOST = 1 << 21 }; /* 48 MiB of the smallest: the 32 that there are, and chunks that are there already */
    static void *objects[MOST];
    struct rlimit limit, small;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    CHECK(statm && fscanf(statm, "%lu", &pages) == 1 && fclose(statm) == 0);
    small = limit;
    small.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (32ul << 20);
    CHECK(setrlimit(RLIMIT_AS, &small) == 0);
    for (int round = 0; round < 3; round++) {
        static const size_t sizes[] = { 4000, 100000, 24 };
        int number = 0;
        uint64_t sum = 0;
        while (number < MOST && (objects[number] = ten_malloc(group, sizes[round])) != NULL)
            sum += ten_usable_size(ctl, objects[number++]) + TEN_OWNER_BYTES;
        CHECK(number > 100 && number < MOST && ten_last_error() == TEN_ERR_NO_MEMORY && errno == ENOMEM);
        CHECK(ten_group_exact(group) == sum); /* the one that failed is not in it */
        void *kept = ten_realloc(ctl, objects[0], 16 << 20);
        CHECK(kept == NULL && ten_usable_size(ctl, objects[0]) >= sizes[round]);
        while (number > 0)
            OK(ten_free(ctl, objects[--number]));
        CHECK(ten_group_exact(group) == 0);
        ten_controller_trim(ctl); /* for the other sizes */
    }
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(void) {
    ten_config config = TEN_CONFIG_INIT;
    OK(ten_controller_new(&config, &ctl));
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "memory", &group));
    signals();
    threads_come_and_go();
    memory_ends();
    ten_cache_close(cache);
    ten_group_close(group);
    ten_group_close(root);
    ten_controller_close(ctl);
    return 0;
}

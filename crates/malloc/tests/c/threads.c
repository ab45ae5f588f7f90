/* Threads that come and go, give each other memory, are signalled, fork, and open libraries meanwhile. The
 * arguments: what to do; for forks how many, for reports the file that they go to. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A block knows its size and is filled with a mark of its address. */
struct block {
    size_t size;
    unsigned char mark, rest[];
};

static struct block *make(uint64_t *random)
{
    uint64_t r = next_random(random);
    size_t size = sizeof(struct block) + (r % 64 == 0 ? r / 64 % 300000 : r / 64 % 900);
    struct block *b;
    switch (r >> 60) {
    case 0: b = calloc(1, size); break;
    case 1: b = memalign(64, size); CHECK((uintptr_t)b % 64 == 0); break;
    case 2: b = realloc(malloc(size / 2 + 1), size); break;
    default: b = malloc(size);
    }
    CHECK(b && malloc_usable_size(b) >= size);
    if (r >> 60 == 0)
        for (size_t i = 0; i < size; i++) CHECK(((unsigned char *)b)[i] == 0);
    b->size = size, b->mark = (unsigned char)((uintptr_t)b >> 4 ^ r);
    memset(b->rest, b->mark, size - sizeof *b);
    return b;
}

static void unmake(struct block *b, uint64_t *random)
{
    for (size_t i = 0; i < b->size - sizeof *b; i++) CHECK(b->rest[i] == b->mark);
    if (next_random(random) % 8 == 0) {
        size_t size = sizeof *b + next_random(random) % 2000, kept = size < b->size ? size : b->size;
        b = realloc(b, size);
        CHECK(b);
        for (size_t i = sizeof *b; i < kept; i++) CHECK(b->rest[i - sizeof *b] == b->mark);
    }
    free(b);
}

#define SHARED 512
static _Atomic(struct block *) shared[SHARED];
static atomic_int end;
static atomic_ulong turns;

/* Takes blocks out of the shared places and puts others in: each is freed by whoever comes by. */
static void turn(uint64_t *random)
{
    struct block *old = atomic_exchange(&shared[next_random(random) % SHARED], make(random));
    if (old) unmake(old, random);
    turns++;
}

static void *until_end(void *seed)
{
    uint64_t random = (uintptr_t)seed;
    while (!end) turn(&random);
    return NULL;
}

static void *some_turns(void *seed)
{
    uint64_t random = (uintptr_t)seed;
    for (int i = 0; i < 50; i++) turn(&random);
    return strdup("left by a thread that is gone");
}

static void clear(void)
{
    uint64_t random = 1;
    for (int i = 0; i < SHARED; i++) {
        struct block *old = atomic_exchange(&shared[i], NULL);
        if (old) unmake(old, &random);
    }
}

#define BUSY 8
static pthread_t busy[BUSY];

static void begin(void)
{
    for (uintptr_t i = 0; i < BUSY; i++) CHECK(pthread_create(&busy[i], NULL, until_end, (void *)(i + 100)) == 0);
}

static void finish(void)
{
    end = 1;
    for (int i = 0; i < BUSY; i++) CHECK(pthread_join(busy[i], NULL) == 0);
    clear();
}

static void coming_and_going(void)
{
    pthread_t threads[20];
    for (int round = 0; round < 50; round++) {
        for (uintptr_t i = 0; i < 20; i++)
            CHECK(pthread_create(&threads[i], NULL, some_turns, (void *)(round * 20 + i + 1)) == 0);
        for (int i = 0; i < 20; i++) {
            void *left;
            CHECK(pthread_join(threads[i], &left) == 0 && strcmp(left, "left by a thread that is gone") == 0);
            free(left);
        }
    }
    clear();
}

static void stress(void)
{
    begin();
    while (turns < 400000) usleep(1000);
    finish();
}

static void *in_child(void *seed)
{
    return some_turns(seed);
}

static void forks(int number)
{
    begin();
    for (int i = 0; i < number; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(600); /* a child that hangs ends, which the parent sees */
            uint64_t random = i + 1;
            for (int n = 0; n < 20; n++) unmake(make(&random), &random);
            if (i % 10 == 0) {
                pthread_t thread;
                void *left;
                CHECK(pthread_create(&thread, NULL, in_child, (void *)(uintptr_t)(i + 1)) == 0);
                CHECK(pthread_join(thread, &left) == 0);
                free(left);
                clear();
            }
            if (i % 50 == 0) exit(0);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    finish();
}

static atomic_ulong signals_seen;

static void on_signal(int number)
{
    (void)number;
    signals_seen++;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    begin();
    for (int i = 0; i < 20000; i++) CHECK(pthread_kill(busy[i % BUSY], SIGUSR2) == 0);
    finish();
    CHECK(signals_seen > 0);
}

/* What the process held by the last whole report of a file. */
static unsigned long last_live(FILE *file)
{
    static unsigned long live;
    static char *line;
    static size_t room;
    for (;;) {
        long at = ftell(file);
        ssize_t n = getline(&line, &room, file);
        if (n <= 0 || line[n - 1] != '\n') {
            CHECK(fseek(file, at, SEEK_SET) == 0);
            return live;
        }
        const char *found = strstr(line, "\"live\":");
        CHECK(found);
        live = strtoul(found + strlen("\"live\":"), NULL, 10);
    }
}

/* Asks for reports while all others work: in whichever thread the signal comes, and wherever that thread is. Each time
 * more memory is held, and a report must follow that has it. */
static void reports(const char *path)
{
    enum { ROUNDS = 30, MORE = 16 << 20 };
    void *held[ROUNDS];
    FILE *file = fopen(path, "a+");
    CHECK(file);
    alarm(600); /* a report that does not come is seen */
    begin();
    for (unsigned long i = 0; i < ROUNDS; i++) {
        CHECK((held[i] = malloc(MORE)) != NULL);
        for (int n = 0; n < 50; n++)
            CHECK((n % 2 ? pthread_kill(busy[(i + n) % BUSY], SIGUSR1) : kill(getpid(), SIGUSR1)) == 0);
        while (last_live(file) < (i + 1) * MORE) usleep(100);
    }
    finish();
    for (int i = 0; i < ROUNDS; i++) free(held[i]);
    fclose(file);
    coming_and_going();
}

static pthread_t forker;
static atomic_ulong forks_begun, asked;

static void *asks_who_forks(void *rounds)
{
    uint64_t random = 7;
    for (unsigned long i = 1; i <= (unsigned long)rounds; i++) {
        while (forks_begun < i) usleep(10);
        for (uint64_t n = next_random(&random) % 400; n > 0; n--) (void)getppid(); /* some 0.1 us each */
        CHECK(pthread_kill(forker, SIGUSR1) == 0);
        asked = i;
    }
    return NULL;
}

/* A thread is asked for a report while it forks, and allocates nothing afterwards: the report comes. */
static void reports_of_who_forks(const char *path)
{
    enum { ROUNDS = 60, MORE = 4 << 20 };
    void *held[ROUNDS];
    pthread_t thread;
    FILE *file = fopen(path, "a+");
    CHECK(file);
    alarm(600);
    forker = pthread_self();
    CHECK(pthread_create(&thread, NULL, asks_who_forks, (void *)ROUNDS) == 0);
    for (unsigned long i = 0; i < ROUNDS; i++) {
        CHECK((held[i] = malloc(MORE)) != NULL);
        forks_begun = i + 1;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) _exit(0);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        while (asked <= i) usleep(10);
        while (last_live(file) < (i + 1) * MORE) usleep(100);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) free(held[i]);
    fclose(file);
}

/* Forks while another thread is asked for a report: the child's end has one nevertheless. */
static void reports_of_children(void)
{
    begin();
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_kill(busy[i % BUSY], SIGUSR1) == 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(600); /* a child that hangs ends, which the parent sees */
            exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    finish();
}

static void libraries(void)
{
    const char *names[] = {"libm.so.6", "libstdc++.so.6", "libresolv.so.2", "libgcc_s.so.1"};
    begin();
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(names[i % 4], RTLD_NOW | (i % 8 < 4 ? RTLD_LOCAL : RTLD_GLOBAL));
        if (library) {
            CHECK(dlsym(library, "no such function") == NULL && dlerror() != NULL);
            dlclose(library);
        } else {
            CHECK(dlerror() != NULL);
        }
    }
    finish();
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    const char *what = argv[1];
    if (!strcmp(what, "gone")) coming_and_going();
    else if (!strcmp(what, "stress")) stress();
    else if (!strcmp(what, "forks")) forks(argc > 2 ? atoi(argv[2]) : 1000);
    else if (!strcmp(what, "signals")) signals();
    else if (!strcmp(what, "reports") && argc > 2) reports(argv[2]);
    else if (!strcmp(what, "forker") && argc > 2) reports_of_who_forks(argv[2]);
    else if (!strcmp(what, "children")) reports_of_children();
    else if (!strcmp(what, "libraries")) libraries();
    else CHECK(!"known");
    printf("%s: done\n", what);
    return 0;
}

/* A thread is cancelled while it writes the report that SIGUSR1 asked for: that one comes, and so does the next. The
 * argument: a file to make, a FIFO, where reports go. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int number;

static void *works(void *nothing)
{
    free(malloc(100));
    number = gettid();
    for (;;) pthread_testcancel();
    return nothing;
}

/* Whether a thread waits for something, in the words of proc(5). */
static int sleeps(int thread)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int file = open(path, O_RDONLY);
    ssize_t n = read(file, line, sizeof line - 1);
    CHECK(file >= 0 && n > 0);
    close(file);
    line[n] = 0;
    return strrchr(line, ')')[2] == 'S';
}

static void read_a_line(int file)
{
    char c, first = 0;
    do {
        CHECK(read(file, &c, 1) == 1);
        if (!first) first = c;
    } while (c != '\n');
    CHECK(first == '{');
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && mkfifo(argv[1], 0600) == 0);
    alarm(600);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
    while (!number) usleep(100);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    /* It computes all the time, but for the FIFO, which it cannot open before somebody reads. */
    while (!sleeps(number)) usleep(100);
    CHECK(pthread_cancel(thread) == 0);
    int file = open(argv[1], O_RDONLY);
    CHECK(file >= 0);
    read_a_line(file);
    void *end;
    CHECK(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
    CHECK(raise(SIGUSR1) == 0);
    read_a_line(file);
    puts("cancelled: done");
    return 0;
}

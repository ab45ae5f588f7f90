/* The self-check: clients on real sockets work in rounds; between rounds, when every answer has come, the server's own
 * count of each client's bytes and the library's must be equal to the byte. One client asks for more than its limit: it
 * alone gets errors. Then clients go, their values stay, and the sums must hold for the parent; at the end all is zero. */
#define _POSIX_C_SOURCE 200809L
#include "server.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEYS = 40, VALUE = 6000, REQUESTS = 200, LIMIT = 512 * 1024 };

struct driver {
    int number, socket;
    bool greedy, failed;
    unsigned long random, sets, gets, deletes, foreign, refused;
    pthread_t thread;
};

static unsigned short port;
static int rounds, drivers;
static pthread_barrier_t work, quiet;

struct sums {
    long long live, gone;
    int compared;
    bool equal;
};

static void compare(struct client *client, void *arg) {
    struct sums *sums = arg;
    const long long own = atomic_load(&client->own);
    if (!client->group) {
        sums->gone += own;
        return;
    }
    const long long ours = (long long)ten_group_exact(client->group);
    sums->live += own;
    sums->compared++;
    if (own != ours) {
        fprintf(stderr, "client %s: the server counts %lld bytes, tenalloc %lld\n", client->name, own, ours);
        sums->equal = false;
    }
}

bool check_counts(const char *when) {
    struct sums sums = { 0, 0, 0, true };
    each_client(compare, &sums);
    const long long all = (long long)ten_group_exact(clients_group);
    if (all != sums.live + sums.gone) {
        fprintf(stderr, "all clients: the server counts %lld bytes and %lld of clients gone, tenalloc %lld\n", sums.live,
                sums.gone, all);
        sums.equal = false;
    }
    printf("%s: %d clients hold %lld bytes, clients gone left %lld: %s\n", when, sums.compared, sums.live, sums.gone,
           sums.equal ? "equal to the byte" : "DIFFERENT");
    return sums.equal;
}

static unsigned long roll(struct driver *d, unsigned long below) {
    d->random ^= d->random << 13; /* Marsaglia's xorshift */
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random % below;
}

static bool receive(int socket, char *to, size_t bytes) {
    return bytes == 0 || recv(socket, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool answer(int socket, char *line) {
    for (int length = 0; length < 2 * LINE - 1; length++) {
        if (!receive(socket, &line[length], 1))
            return false;
        if (line[length] == '\n') {
            line[length] = '\0';
            return true;
        }
    }
    return false;
}

static bool tell(int socket, const char *bytes, size_t number) {
    return send(socket, bytes, number, MSG_NOSIGNAL) == (ssize_t)number;
}

static bool request(struct driver *d) {
    static const size_t greedy_value = 60000;
    char line[2 * LINE], key[32], value[65536];
    /* Its own keys mostly; now and then another's, to free what that one pays for, on this one's thread. */
    const bool foreign = roll(d, 5) == 0;
    const int of = foreign ? (int)roll(d, (unsigned long)drivers) : d->number;
    snprintf(key, sizeof key, "c%d-%lu", of, roll(d, KEYS));
    const unsigned long what = foreign ? 1 + roll(d, 2) : roll(d, 3);
    if (what == 0) {
        const size_t bytes = d->greedy ? greedy_value : roll(d, VALUE);
        memset(value, key[1], bytes);
        snprintf(line, sizeof line, "SET %s %zu\n", key, bytes);
        if (!tell(d->socket, line, strlen(line)) || !tell(d->socket, value, bytes) || !answer(d->socket, line))
            return false;
        d->sets++;
        if (strncmp(line, "ERR", 3) == 0) {
            d->refused++;
            return d->greedy && strstr(line, "would pass max") != NULL;
        }
        return strcmp(line, "OK") == 0;
    }
    snprintf(line, sizeof line, "%s %s\n", what == 1 ? "GET" : "DEL", key);
    if (!tell(d->socket, line, strlen(line)) || !answer(d->socket, line))
        return false;
    d->foreign += foreign;
    if (what == 2) {
        d->deletes++;
        return strcmp(line, "OK") == 0 || strcmp(line, "NONE") == 0;
    }
    d->gets++;
    unsigned long bytes;
    if (sscanf(line, "VALUE %lu", &bytes) != 1) /* the greedy one may lack room for another's value */
        return strcmp(line, "NONE") == 0 || (d->greedy && strncmp(line, "ERR", 3) == 0);
    if (bytes > sizeof value || !receive(d->socket, value, bytes))
        return false;
    for (unsigned long i = 0; i < bytes; i++) {
        if (value[i] != key[1])
            return false;
    }
    return true;
}

static bool join(struct driver *d) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    char line[2 * LINE];
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    d->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (d->socket < 0 || setsockopt(d->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 || connect(d->socket, (struct sockaddr *)&address, sizeof address) != 0)
        return false;
    snprintf(line, sizeof line, "HELLO client-%d\n", d->number);
    return tell(d->socket, line, strlen(line)) && answer(d->socket, line) && strcmp(line, "OK") == 0;
}

static void *drive(void *arg) {
    struct driver *d = arg;
    d->failed = !join(d);
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&work);
        for (int i = 0; i < REQUESTS && !d->failed; i++)
            d->failed = !request(d);
        pthread_barrier_wait(&quiet); /* every answer has come: nothing is in flight */
    }
    return NULL;
}

static void *serve_all(void *arg) {
    server_run(*(int *)arg, LIMIT);
    return NULL;
}

/* Ends a connection and waits until the server has settled it: it closes its side last. */
static bool leave(struct driver *d) {
    char byte;
    const bool ended = tell(d->socket, "QUIT\n", 5) && recv(d->socket, &byte, 1, 0) == 0;
    close(d->socket);
    return ended;
}

int self_check(int number, int number_of_rounds) {
    int listener = server_listen(0, &port);
    pthread_t server;
    bool good = true;
    rounds = number_of_rounds > 0 ? number_of_rounds : 1;
    drivers = number > 2 ? number : 2;
    struct driver *all = calloc((size_t)drivers, sizeof *all);
    if (listener < 0 || !all || pthread_create(&server, NULL, serve_all, &listener) != 0) {
        perror("self-check");
        return 1;
    }
    pthread_barrier_init(&work, NULL, (unsigned)drivers + 1);
    pthread_barrier_init(&quiet, NULL, (unsigned)drivers + 1);
    for (int i = 0; i < drivers; i++) {
        all[i].number = i;
        all[i].greedy = i == 0;
        all[i].random = 88172645463325252ul + (unsigned long)i;
        if (pthread_create(&all[i].thread, NULL, drive, &all[i]) != 0)
            return 1;
    }
    for (int round = 0; round < rounds; round++) {
        char when[32];
        pthread_barrier_wait(&work);
        pthread_barrier_wait(&quiet);
        snprintf(when, sizeof when, "round %d", round + 1);
        good &= check_counts(when);
    }
    unsigned long requests = 0, foreign = 0;
    for (int i = 0; i < drivers; i++) {
        pthread_join(all[i].thread, NULL);
        requests += all[i].sets + all[i].gets + all[i].deletes;
        foreign += all[i].foreign;
        if (all[i].failed || (all[i].refused > 0) != all[i].greedy) {
            fprintf(stderr, "client-%d: %s, %lu refused\n", i, all[i].failed ? "failed" : "answered", all[i].refused);
            good = false;
        }
    }
    printf("%lu requests, %lu of them for another's key; client-0 was refused %lu times, nobody else was\n", requests,
           foreign, all[0].refused);

    for (int i = 0; i < drivers; i += 2)
        good &= leave(&all[i]);
    good &= check_counts("half of them gone");
    for (int i = 1; i < drivers; i += 2)
        good &= leave(&all[i]);
    good &= check_counts("all gone");
    shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listener);
    store_clear();
    good &= check_counts("all deleted") && ten_group_exact(clients_group) == 0;
    ten_group_remove(clients_group);
    ten_group_close(clients_group);
    free(all);
    puts(good ? "self-check passed" : "self-check FAILED");
    return good ? 0 : 1;
}

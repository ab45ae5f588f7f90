/* Connections: a thread, a client and a group each. See server.h.
 *
 *     gcc server/server.c server/store.c server/check.c $(pkg-config --cflags --libs tenalloc) -pthread -o tenant-server
 *     ./tenant-server 7070 1048576          # port, and bytes that each client may have
 *     ./tenant-server --self-check 8 20     # clients, rounds
 */
#define _POSIX_C_SOURCE 200809L
#include "server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 };

ten_group *clients_group;
static struct client *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

void each_client(void (*each)(struct client *client, void *arg), void *arg) {
    pthread_mutex_lock(&all_lock);
    for (struct client *at = all; at; at = at->next)
        each(at, arg);
    pthread_mutex_unlock(&all_lock);
}

void client_count(struct client *client, long long bytes) {
    atomic_fetch_add(&client->own, bytes);
}

void client_release(struct client *client) {
    if (atomic_fetch_sub(&client->references, 1) > 1)
        return;
    pthread_mutex_lock(&all_lock);
    struct client **at = &all;
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    pthread_mutex_unlock(&all_lock);
    free(client);
}

static struct client *client_new(const char *name, uint64_t limit) {
    struct client *client = calloc(1, sizeof *client);
    if (!client || ten_group_create(clients_group, name, &client->group) != TEN_OK) {
        free(client);
        return NULL;
    }
    ten_group_set_max(client->group, limit);
    atomic_init(&client->references, 1);
    snprintf(client->name, sizeof client->name, "%s", name);
    pthread_mutex_lock(&all_lock);
    client->next = all;
    all = client;
    pthread_mutex_unlock(&all_lock);
    return client;
}

/* A client that goes: its group too, at once. What it stored stays, and is the parent's. */
static void client_gone(struct client *client) {
    ten_group *group = client->group;
    pthread_mutex_lock(&all_lock);
    client->group = NULL;
    pthread_mutex_unlock(&all_lock);
    ten_group_remove(group);
    ten_group_close(group);
    client_release(client);
}

struct connection {
    int socket;
    uint64_t limit;
    struct client *client;
    char *value; /* what is being set or got: the client's memory, as long as it is connected */
    size_t room, start, end;
    char input[4096];
};

static int next_byte(struct connection *c) {
    if (c->start == c->end) {
        ssize_t got;
        do
            got = recv(c->socket, c->input, sizeof c->input, 0);
        while (got < 0 && errno == EINTR);
        if (got <= 0)
            return -1;
        c->start = 0;
        c->end = (size_t)got;
    }
    return (unsigned char)c->input[c->start++];
}

static bool read_line(struct connection *c, char *line) {
    for (int length = 0; length < LINE - 1;) {
        const int byte = next_byte(c);
        if (byte < 0)
            return false;
        if (byte == '\n') {
            line[length] = '\0';
            return true;
        }
        line[length++] = (char)byte;
    }
    return false;
}

static bool send_all(int socket, const char *bytes, size_t number) {
    while (number > 0) {
        const ssize_t sent = send(socket, bytes, number, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        number -= (size_t)sent;
    }
    return true;
}

/* Room for a value, in the client's memory and count. */
static bool make_room(struct connection *c, size_t bytes) {
    if (bytes <= c->room)
        return true;
    const long long before = c->value ? (long long)(c->room + TEN_OWNER_BYTES) : 0;
    char *value = c->value ? ten_realloc(NULL, c->value, bytes) : ten_malloc(c->client->group, bytes);
    if (!value)
        return false;
    c->value = value;
    c->room = ten_usable_size(NULL, value);
    client_count(c->client, (long long)(c->room + TEN_OWNER_BYTES) - before);
    return true;
}

static bool set(struct connection *c, const char *key, size_t bytes) {
    const char *why = NULL;
    if (!make_room(c, bytes))
        why = ten_last_error_text();
    for (size_t i = 0; i < bytes; i++) { /* read in any case: the next command stands behind it */
        const int byte = next_byte(c);
        if (byte < 0)
            return false;
        if (!why)
            c->value[i] = (char)byte;
    }
    if (!why)
        why = store_set(c->client, key, c->value, bytes);
    if (!why)
        return send_all(c->socket, "OK\n", 3);
    char answer[LINE * 2];
    snprintf(answer, sizeof answer, "ERR %s\n", why);
    return send_all(c->socket, answer, strlen(answer));
}

static bool get(struct connection *c, const char *key) {
    char answer[LINE * 2];
    long bytes;
    while ((bytes = store_get(key, c->value, c->room)) > (long)c->room) {
        if (!make_room(c, (size_t)bytes)) {
            snprintf(answer, sizeof answer, "ERR %s\n", ten_last_error_text());
            return send_all(c->socket, answer, strlen(answer));
        }
    }
    if (bytes < 0)
        return send_all(c->socket, "NONE\n", 5);
    snprintf(answer, sizeof answer, "VALUE %ld\n", bytes);
    return send_all(c->socket, answer, strlen(answer)) && send_all(c->socket, c->value, (size_t)bytes);
}

/* False: the connection is to end. */
static bool serve(struct connection *c, const char *line) {
    char word[8] = "", key[LINE] = "";
    unsigned long bytes = 0;
    const int fields = sscanf(line, "%7s %255s %lu", word, key, &bytes);
    if (!c->client) {
        if (fields >= 2 && strcmp(word, "HELLO") == 0)
            c->client = client_new(key, c->limit);
        return c->client ? send_all(c->socket, "OK\n", 3) : send_all(c->socket, "ERR no client\n", 14);
    }
    if (fields == 3 && strcmp(word, "SET") == 0 && bytes <= LARGEST)
        return set(c, key, bytes);
    if (fields == 2 && strcmp(word, "GET") == 0)
        return get(c, key);
    if (fields == 2 && strcmp(word, "DEL") == 0)
        return store_delete(key) ? send_all(c->socket, "OK\n", 3) : send_all(c->socket, "NONE\n", 5);
    if (strcmp(word, "QUIT") == 0)
        return false;
    return send_all(c->socket, "ERR what?\n", 10) && fields != 3;
}

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_running = PTHREAD_COND_INITIALIZER;
static int running;

static void *connection(void *arg) {
    struct connection *c = arg;
    char line[LINE];
    while (read_line(c, line) && serve(c, line))
        continue;
    if (c->client) {
        if (c->value) {
            client_count(c->client, -(long long)(c->room + TEN_OWNER_BYTES));
            ten_free(NULL, c->value);
        }
        client_gone(c->client);
    }
    close(c->socket); /* last: who waits for the end of the connection finds everything settled */
    free(c);
    pthread_mutex_lock(&running_lock);
    if (--running == 0)
        pthread_cond_signal(&none_running);
    pthread_mutex_unlock(&running_lock);
    return NULL;
}

int server_listen(unsigned short port, unsigned short *bound) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    socklen_t length = sizeof address;
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0)
        return -1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        close(listener);
        return -1;
    }
    *bound = ntohs(address.sin_port);
    return listener;
}

void server_run(int listener, uint64_t limit) {
    int accepted;
    while ((accepted = accept(listener, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED) {
        struct connection *c = accepted < 0 ? NULL : calloc(1, sizeof *c);
        const int on = 1;
        pthread_t thread;
        if (!c)
            continue;
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->socket = accepted;
        c->limit = limit;
        pthread_mutex_lock(&running_lock);
        running++;
        pthread_mutex_unlock(&running_lock);
        if (pthread_create(&thread, NULL, connection, c) == 0)
            pthread_detach(thread);
        else
            connection(c); /* no thread: serve it here */
    }
    pthread_mutex_lock(&running_lock);
    while (running > 0)
        pthread_cond_wait(&none_running, &running_lock);
    pthread_mutex_unlock(&running_lock);
}

int main(int argc, char **argv) {
    ten_group *root;
    unsigned short port;
    if (ten_root(NULL, &root) != TEN_OK || ten_group_create(root, "clients", &clients_group) != TEN_OK) {
        fprintf(stderr, "%s\n", ten_last_error_text());
        return 1;
    }
    ten_group_close(root);
    if (argc > 1 && strcmp(argv[1], "--self-check") == 0)
        return self_check(argc > 2 ? atoi(argv[2]) : 8, argc > 3 ? atoi(argv[3]) : 20);
    const int listener = server_listen((unsigned short)(argc > 1 ? atoi(argv[1]) : 7070), &port);
    if (listener < 0) {
        perror("listen");
        return 1;
    }
    printf("127.0.0.1:%u\n", port);
    fflush(stdout);
    server_run(listener, argc > 2 ? strtoull(argv[2], NULL, 10) : 1 << 20);
    return 0;
}

/* A store of keys and values for many clients, each in a memory group of its own.
 *
 *   server.c  connections: one thread each, a line protocol, a group for each client
 *   store.c   the table; whoever stored a value pays for it, whoever deletes it frees it
 *   check.c   the self-check: drives its own clients over real sockets and compares two countings to the byte
 *
 * Protocol, a line each way: "HELLO name" first; "SET key n" and n bytes; "GET key", answered by "VALUE n" and n bytes;
 * "DEL key"; "QUIT". Answers: "OK", "NONE", "ERR why".
 */
#ifndef SERVER_H
#define SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <tenalloc.h>

enum { LINE = 256 };

/* A client, connected or gone; it stays as long as its values. */
struct client {
    ten_group *group;      /* NULL once it is gone */
    atomic_llong own;      /* the server's own count of its bytes */
    atomic_int references; /* its connection, and its values */
    struct client *next;   /* all there ever were, for the self-check */
    char name[LINE];
};

extern ten_group *clients_group; /* the parent of all clients' groups */

/* server.c */
int server_listen(unsigned short port, unsigned short *bound); /* a socket, or -1 */
void server_run(int listener, uint64_t limit);                 /* returns when the listener is shut down */
void client_count(struct client *client, long long bytes);
void client_release(struct client *client);

/* store.c */
const char *store_set(struct client *client, const char *key, const char *value, size_t bytes); /* NULL or why not */
long store_get(const char *key, char *to, size_t room); /* bytes of the value, -1: none; copies at most room */
bool store_delete(const char *key);
void store_clear(void);

/* check.c: compares both countings while nobody works; false after telling of a difference. */
bool check_counts(const char *when);
int self_check(int clients, int rounds);

/* All clients, under a lock: calls each for every one. */
void each_client(void (*each)(struct client *client, void *arg), void *arg);

#endif

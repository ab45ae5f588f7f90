/* The table. A value is one object of its client's group; the group gets the bytes back whoever deletes it. */
#include "server.h"
#include <pthread.h>
#include <string.h>

struct value {
    struct value *next;
    struct client *client; /* who pays, by the server's own count */
    size_t bytes;
    char key[LINE];
    char data[];
};

enum { BUCKETS = 1024 };

static struct {
    pthread_mutex_t lock;
    struct value *first;
} table[BUCKETS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
    for (int i = 0; i < BUCKETS; i++)
        pthread_mutex_init(&table[i].lock, NULL);
}

static unsigned bucket(const char *key) {
    unsigned hash = 2166136261u; /* FNV-1a */
    pthread_once(&once, prepare);
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash % BUCKETS;
}

static long long charge(void *object) {
    return (long long)(ten_usable_size(NULL, object) + TEN_OWNER_BYTES);
}

static void drop(struct value *value) {
    struct client *client = value->client;
    client_count(client, -charge(value));
    ten_free(NULL, value);
    client_release(client);
}

/* Takes the value of a key out of its bucket, which is locked. */
static struct value *take(unsigned in, const char *key) {
    struct value **at = &table[in].first;
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    struct value *found = *at;
    if (found)
        *at = found->next;
    return found;
}

const char *store_set(struct client *client, const char *key, const char *data, size_t bytes) {
    struct value *value = ten_malloc(client->group, sizeof *value + bytes);
    if (!value)
        return ten_last_error_text(); /* the client's own limit, say; nobody else notices */
    value->client = client;
    value->bytes = bytes;
    strcpy(value->key, key);
    memcpy(value->data, data, bytes);
    atomic_fetch_add(&client->references, 1);
    client_count(client, charge(value));

    const unsigned in = bucket(key);
    pthread_mutex_lock(&table[in].lock);
    struct value *old = take(in, key);
    value->next = table[in].first;
    table[in].first = value;
    pthread_mutex_unlock(&table[in].lock);
    if (old)
        drop(old); /* perhaps another client's */
    return NULL;
}

long store_get(const char *key, char *to, size_t room) {
    const unsigned in = bucket(key);
    long bytes = -1;
    pthread_mutex_lock(&table[in].lock);
    struct value *at = table[in].first;
    while (at && strcmp(at->key, key) != 0)
        at = at->next;
    if (at) {
        bytes = (long)at->bytes;
        memcpy(to, at->data, at->bytes < room ? at->bytes : room);
    }
    pthread_mutex_unlock(&table[in].lock);
    return bytes;
}

bool store_delete(const char *key) {
    const unsigned in = bucket(key);
    pthread_mutex_lock(&table[in].lock);
    struct value *old = take(in, key);
    pthread_mutex_unlock(&table[in].lock);
    if (old)
        drop(old);
    return old != NULL;
}

void store_clear(void) {
    for (unsigned in = 0; in < BUCKETS; in++) {
        while (table[in].first) {
            struct value *first = table[in].first;
            table[in].first = first->next;
            drop(first);
        }
    }
}

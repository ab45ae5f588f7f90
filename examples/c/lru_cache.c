/* A cache that tenants share: each has a limit, and gives up its own oldest entries when it meets it, the ones that were
 * hit since last.
 *
 *     gcc lru_cache.c $(pkg-config --cflags --libs tenalloc) -pthread -o lru_cache && ./lru_cache
 *
 * The lock order is the thing to get right: the library calls scan with no lock held, and isolate with the list locked, so
 * isolate only tries the table's lock; everywhere else the table is locked first.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenalloc.h>

struct entry {
    struct entry *next; /* in its bucket; the table's lock */
    uint64_t key;
    ten_lru_item lru;
    char value[168];
};

enum { BUCKETS = 4096 };

static struct entry *table[BUCKETS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static ten_cache *entries;
static ten_lru *lru;

static void must(int code) {
    if (code != TEN_OK) {
        fprintf(stderr, "%s\n", ten_last_error_text());
        exit(1);
    }
}

static struct entry **place(uint64_t key) {
    struct entry **at = &table[key % BUCKETS];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

/* False: the tenant's limit, even after its oldest entries went. */
static bool insert(const ten_group *tenant, uint64_t key) {
    struct entry *entry = ten_cache_alloc_lru(entries, tenant, lru); /* may call scan: no lock is held here */
    if (!entry)
        return false;
    entry->key = key;
    snprintf(entry->value, sizeof entry->value, "value of %" PRIu64, key);
    pthread_mutex_lock(&table_lock);
    entry->next = table[key % BUCKETS];
    table[key % BUCKETS] = entry;
    ten_lru_add(lru, entry);
    pthread_mutex_unlock(&table_lock);
    return true;
}

static bool look_up(uint64_t key) {
    pthread_mutex_lock(&table_lock);
    const struct entry *entry = *place(key);
    if (entry)
        ten_lru_reference(&entry->lru); /* a hit: a store at most */
    pthread_mutex_unlock(&table_lock);
    return entry != NULL;
}

static uint32_t isolate(void *object, void *arg) {
    struct entry *entry = object;
    (void)arg;
    if (ten_lru_take_reference(&entry->lru))
        return TEN_LRU_ROTATE;
    if (pthread_mutex_trylock(&table_lock) != 0)
        return TEN_LRU_SKIP;
    struct entry **at = place(entry->key);
    *at = entry->next; /* nobody finds it any more */
    pthread_mutex_unlock(&table_lock);
    return TEN_LRU_REMOVED;
}

static void dispose(void *object, void *arg) {
    (void)arg;
    ten_cache_free(entries, object);
}

static void scan(const ten_shrinker *self, const ten_lru *list, const ten_group *tenant, uint32_t node,
                 uint64_t number, ten_scanned *done) {
    ten_isolated got;
    (void)self;
    if (ten_lru_walk(list, tenant, node, number, isolate, dispose, NULL, &got) == TEN_OK) {
        done->looked_at = got.shown;
        done->freed = got.removed;
    }
}

static const ten_shrinker shrinker = { scan, 2, 0, NULL };

int main(void) {
    ten_group *root, *small, *large;
    ten_group_stat stat;
    must(ten_root(NULL, &root));
    must(ten_group_create(root, "small", &small));
    must(ten_group_create(root, "large", &large));
    must(ten_cache_create(NULL, "entry", sizeof(struct entry), &entries));
    must(ten_lru_new(NULL, offsetof(struct entry, lru), &lru));
    must(ten_lru_set_shrinker(lru, &shrinker));

    must(ten_group_set_max(small, 256 * 1024));
    for (uint64_t key = 0; key < 10000; key++) {
        if (!insert(small, key))
            return 2;
    }
    for (uint64_t key = 10000; key < 12000; key++) {
        if (!insert(large, key))
            return 2;
    }
    must(ten_group_stat_get(small, &stat, sizeof stat));
    printf("small holds %" PRIu64 " of 10,000 entries in %" PRIu64 " bytes\n", stat.listed, stat.exact);
    if (stat.exact != stat.listed * ten_cache_charge(entries) || !look_up(9999) || look_up(0))
        return 3;
    must(ten_group_stat_get(large, &stat, sizeof stat));
    printf("large lost nothing: %" PRIu64 " entries\n", stat.listed);
    if (stat.listed != 2000)
        return 4;

    ten_group_set_max(small, 128 * 1024);
    must(ten_group_reclaim(small, ten_group_exact(small) / 2, TEN_NO_TIMEOUT, NULL));
    must(ten_group_remove(small));
    must(ten_group_remove(large));
    ten_group_close(small);
    ten_group_close(large);
    char text[1024];
    ten_group_text(root, text, sizeof text);
    printf("both are gone; the root has their entries:\n%s", text);

    ten_reclaimed got;
    ten_group_reclaim(root, UINT64_MAX, TEN_NO_TIMEOUT, &got); /* more than there is: all */
    printf("given back: %" PRIu64 " entries, %" PRIu64 " bytes\n", got.freed, got.bytes);
    const bool empty = ten_group_exact(root) == 0;
    ten_lru_close(lru);
    must(ten_cache_destroy(entries));
    ten_cache_close(entries);
    ten_group_close(root);
    return empty ? 0 : 5;
}

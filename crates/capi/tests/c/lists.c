/* Lists, shrinkers, out of memory, reclaim, the background thread, memory taken out of use, what removed groups left. */
#include "check.h"

struct entry {
    int key;
    ten_lru_item item;
    char rest[100];
};

static ten_controller *ctl;
static ten_group *root;
static ten_cache *entries;
static int disposed;

/* Ten minutes, ns: nothing that succeeds here waits, but a machine may stand still between two looks at the clock. */
#define LONG 600000000000

static uint32_t isolate(void *object, void *arg) {
    struct entry *entry = object;
    (void)arg;
    if (entry->key == 0) /* in use by the test */
        return TEN_LRU_SKIP;
    return ten_lru_take_reference(&entry->item) ? TEN_LRU_ROTATE : TEN_LRU_REMOVED;
}

static void dispose(void *object, void *arg) {
    (void)arg;
    disposed++;
    OK(ten_cache_free(entries, object));
}

static void scan(const ten_shrinker *self, const ten_lru *lru, const ten_group *group, uint32_t node, uint64_t number,
                 ten_scanned *done) {
    ten_isolated isolated;
    CHECK(self->arg == &disposed);
    OK(ten_lru_walk(lru, group, node, number, isolate, dispose, NULL, &isolated));
    done->looked_at = isolated.shown;
    done->freed = isolated.removed;
}

static const ten_shrinker shrinker = { scan, 2, 0, &disposed };

static struct entry *entry(const ten_group *group, const ten_lru *lru, int key) {
    struct entry *new = ten_cache_alloc_lru(entries, group, lru);
    if (new) {
        new->key = key;
        CHECK(ten_lru_add(lru, new));
    }
    return new;
}

static void lists(void) {
    ten_group *group;
    ten_lru *lru, *same, *wrong;
    ten_reclaimed got;
    CHECK(ten_lru_new(ctl, 3, &wrong) == TEN_ERR_INVALID);
    OK(ten_lru_new(ctl, offsetof(struct entry, item), &lru));
    OK(ten_lru_set_shrinker(lru, &shrinker));
    CHECK(ten_lru_set_shrinker(lru, NULL) == TEN_ERR_INVALID);
    OK(ten_group_create(root, "lists", &group));
    OK(ten_group_set_max(group, 1000 * ten_cache_charge(entries)));
    struct entry *hot = entry(group, lru, 0);
    CHECK(hot != NULL && ten_lru_is_listed(&hot->item) && !ten_lru_add(lru, hot));
    for (int i = 1; i < 3000; i++) {
        struct entry *new = entry(group, lru, i);
        CHECK(new != NULL); /* the limit costs its own oldest */
        if (i % 3 == 0)
            ten_lru_reference(&new->item);
    }
    ten_lru_reference(&hot->item);
    CHECK(ten_lru_take_reference(&hot->item) && !ten_lru_take_reference(&hot->item));
    CHECK(ten_lru_is_listed(&hot->item));
    uint64_t number = 0;
    for (uint32_t node = 0; node < ten_controller_nodes(ctl); node++)
        number += ten_lru_count(lru, group, node);
    CHECK(number + (uint64_t)disposed == 3000 && number <= 1000 && ten_lru_groups(lru) == 1 && ten_lru_bytes(lru) > 0);
    CHECK(ten_group_exact(group) == number * ten_cache_charge(entries));

    OK(ten_group_reclaim(group, 10 * ten_cache_charge(entries), TEN_NO_TIMEOUT, &got));
    CHECK(got.freed >= 10 && got.bytes >= 10 * ten_cache_charge(entries));
    CHECK(ten_lru_del(lru, hot) && !ten_lru_del(lru, hot));
    CHECK(ten_group_reclaim(group, 1 << 20, LONG, &got) == TEN_ERR_AGAIN);
    CHECK(ten_group_exact(group) == ten_cache_charge(entries)); /* the hot one is on no list */
    OK(ten_cache_free(entries, hot));

    struct entry *by_hand = ten_cache_alloc(entries, group);
    OK(ten_lru_prepare(lru, group));
    ten_lru_item_init(&by_hand->item);
    CHECK(ten_lru_add(lru, by_hand) && ten_lru_del(lru, by_hand));
    OK(ten_cache_free(entries, by_hand));
    OK(ten_group_remove(group));
    ten_group_close(group);
    OK(ten_lru_dup(lru, &same));
    ten_lru_close(same);
    ten_lru_close(lru);
}

/* A cache of the program's own, charged by hand. */
static uint64_t own_objects = 10;
static ten_owner *own_owner;

static uint64_t own_count(const ten_shrink *self, const ten_group *group, uint32_t node) {
    char name[16];
    (void)self;
    ten_group_name(group, name, sizeof name);
    return node == 0 && strcmp(name, "own") == 0 ? own_objects : 0;
}

static void own_scan(const ten_shrink *self, const ten_group *group, uint32_t node, uint64_t number, ten_scanned *done) {
    (void)self, (void)group, (void)node;
    done->looked_at = number;
    for (; number > 0 && own_objects > 0; number--, own_objects--, done->freed++)
        OK(ten_uncharge(own_owner, 1000));
    done->stop = own_objects == 0;
}

static bool decide(const ten_oom *self, const ten_group *group, uint64_t wanted) {
    void **victim = self->arg;
    CHECK(wanted > 0);
    OK(ten_group_count_oom_victim(group));
    if (!*victim)
        return false;
    OK(ten_free(ctl, *victim));
    *victim = NULL;
    return true;
}

static void *victim;
static const ten_oom oom = { decide, &victim };

static void pressure(void) {
    static const ten_shrink own = { own_count, own_scan, 2, 0, NULL };
    ten_group *group;
    ten_registration *registration;
    ten_background *background;
    ten_events events;
    OK(ten_group_create(root, "own", &group));
    OK(ten_owner_open(group, &own_owner));
    OK(ten_charge(own_owner, own_objects * 1000));
    OK(ten_shrink_register(ctl, &own, &registration));
    OK(ten_group_set_max(group, 12000));
    OK(ten_charge(own_owner, 9000)); /* ten of 1,000 are there; reclaim makes room */
    CHECK(own_objects < 10);
    OK(ten_group_set_max(group, TEN_NO_LIMIT));
    CHECK(ten_group_high_delay(group, 100) == 0);
    OK(ten_group_wait_below_high(group, 0));
    OK(ten_background_start(ctl, "test-reclaim", 0, 0, &background));
    CHECK(ten_background_runs(background) == 0 && ten_background_bytes(background) == 0);
    ten_background_stop(background);
    ten_registration_close(registration);
    OK(ten_uncharge(own_owner, 9000 + own_objects * 1000));
    OK(ten_group_set_high(group, 10));
    OK(ten_charge_forced(own_owner, 5000));
    CHECK(ten_group_wait_below_high(group, 1000000) == TEN_ERR_TIMED_OUT);
    OK(ten_uncharge(own_owner, 5000));
    OK(ten_group_wait_below_high(group, TEN_NO_TIMEOUT));
    OK(ten_group_set_high(group, TEN_NO_LIMIT));

    victim = ten_malloc(group, 8000);
    OK(ten_group_set_max(group, 9000));
    void *object = ten_malloc(group, 8000); /* takes the victim's place */
    CHECK(object != NULL && victim == NULL);
    CHECK(ten_malloc(group, 8000) == NULL && ten_last_error() == TEN_ERR_LIMIT);
    OK(ten_group_events(group, &events, sizeof events));
    CHECK(events.oom_victim == 2);
    OK(ten_free(ctl, object));
    ten_owner_close(own_owner);
    OK(ten_group_remove(group));
    ten_group_close(group);
}

static void pinned(const ten_pin *pin, void *arg) {
    CHECK(pin->bytes > 0 && pin->cache != NULL && pin->owner != NULL);
    ++*(int *)arg;
}

static void left(const ten_orphan *orphan, void *arg) {
    CHECK(ten_group_same(orphan->payer, root) && orphan->cache != NULL && orphan->slot_size > 0);
    *(uint32_t *)arg += orphan->objects;
}

static bool migrate(const ten_migrate *self, void *from, void *to) {
    void **object = self->arg;
    if (*object != from)
        return false;
    memcpy(to, from, 64);
    *object = to;
    return true;
}

static void *movable;
static const ten_migrate mover = { migrate, &movable };

static bool another(const ten_cache *cache, void *arg) {
    CHECK(ten_cache_charge(cache) > 0);
    ++*(int *)arg;
    return true;
}

static void out_of_use(void) {
    ten_group *group;
    ten_cache *cache;
    ten_cache_config config = TEN_CACHE_CONFIG_INIT;
    int pins = 0, number = 0;
    uint32_t orphans = 0;
    OK(ten_group_create(root, "gone", &group));
    void *object = ten_cache_alloc(entries, group);
    CHECK(ten_offline_chunk(ctl, object, 1000000, pinned, &pins, NULL) == TEN_ERR_TIMED_OUT && pins > 0);
    CHECK(ten_offline_chunk(ctl, &pins, 0, NULL, NULL, NULL) == TEN_ERR_NOT_FOUND);
    CHECK(ten_offline_node(ctl, 99, 0, NULL, NULL, NULL) == TEN_ERR_NOT_FOUND);
    OK(ten_offline_cancel(ctl));
    OK(ten_online_node(ctl, 0));
    config.name = "movable";
    config.size = 64;
    config.migrate = &mover;
    OK(ten_cache_new(ctl, &config, &cache));
    movable = ten_cache_alloc(cache, group);
    memset(movable, 9, 64);
    OK(ten_group_remove(group));
    ten_group_close(group);
    OK(ten_orphans(ctl, left, &orphans));
    CHECK(orphans == 2);
    OK(ten_cache_free(entries, object));
    void *const before = movable;
    uint64_t bytes = 0;
    OK(ten_offline_chunk(ctl, movable, LONG, pinned, &pins, &bytes));
    CHECK(movable != before && ((char *)movable)[63] == 9 && bytes >= 2 << 20);
    ten_compacted compacted;
    OK(ten_cache_compact(cache, UINT64_MAX, &compacted)); /* one object: nothing to be saved */
    CHECK(compacted.refused == 0);
    OK(ten_controller_compact(ctl, UINT64_MAX, NULL));
    OK(ten_controller_caches(ctl, another, &number));
    CHECK(number >= 2);
    OK(ten_cache_free(cache, movable));
    OK(ten_cache_destroy(cache));
    ten_cache_close(cache);
}

int main(void) {
    ten_config config = TEN_CONFIG_INIT;
    config.exact_charges = 1;
    config.no_sleep = 1;
    config.oom = &oom;
    OK(ten_controller_new(&config, &ctl));
    OK(ten_root(ctl, &root));
    OK(ten_cache_create(ctl, "entry", sizeof(struct entry), &entries));
    lists();
    pressure();
    out_of_use();
    OK(ten_cache_destroy(entries));
    CHECK(ten_group_exact(root) == 0);
    ten_cache_close(entries);
    ten_group_close(root);
    ten_controller_close(ctl);
    return 0;
}

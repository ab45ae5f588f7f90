/* Many objects in one call, frees that name the size, and objects moved together. */
#include "check.h"

static ten_controller *ctl;
static ten_group *root, *group;

enum { MANY = 1000 };

static void many(void) {
    ten_cache *cache;
    void *objects[MANY], *same[3];
    ten_cache_stat stat;
    OK(ten_cache_create(ctl, "many", 100, &cache));
    const uint64_t each = ten_cache_charge(cache);
    OK(ten_cache_alloc_bulk(cache, group, 0, NULL));
    OK(ten_cache_free_bulk(cache, 0, NULL));
    CHECK(ten_cache_alloc_bulk(cache, group, 1, NULL) == TEN_ERR_INVALID && strstr(ten_last_error_text(), "'objects'"));
    CHECK(ten_cache_free_bulk(cache, 1, NULL) == TEN_ERR_INVALID);
    OK(ten_cache_alloc_bulk(cache, group, MANY, objects));
    CHECK(ten_group_exact(group) == MANY * each);
    for (int i = 0; i < MANY; i++)
        memset(objects[i], i, 100);
    for (int i = 0; i < MANY; i++)
        for (int j = 0; j < 100; j++)
            CHECK(((unsigned char *)objects[i])[j] == (unsigned char)i); /* no two share a byte */

    /* All or none: the limit leaves room for some. */
    void *more[MANY];
    memset(more, 0xff, sizeof more);
    OK(ten_group_set_max(group, (MANY + MANY / 2) * each));
    CHECK(ten_cache_alloc_bulk(cache, group, MANY, more) == TEN_ERR_LIMIT);
    CHECK(ten_group_exact(group) == MANY * each && more[0] == NULL && more[MANY - 1] == NULL);
    OK(ten_cache_alloc_bulk(cache, group, MANY / 2, more));
    OK(ten_cache_free_bulk(cache, MANY / 2, more));
    OK(ten_group_set_max(group, TEN_NO_LIMIT));

    /* Places that are NULL are nothing; a mistake is told, and the others are freed. */
    void *kept = objects[7];
    objects[7] = NULL;
    OK(ten_cache_free_bulk(cache, 500, objects));
    CHECK(ten_group_exact(group) == 501 * each);
    same[0] = kept, same[1] = kept, same[2] = objects[500];
    CHECK(ten_cache_free_bulk(cache, 3, same) == TEN_ERR_NOT_LIVE);
    CHECK(ten_group_exact(group) == 499 * each);
    OK(ten_cache_free_bulk(cache, 499, objects + 501));
    OK(ten_cache_stat_get(cache, &stat, sizeof stat));
    CHECK(stat.objects == 0 && ten_group_exact(group) == 0);
    OK(ten_cache_destroy(cache));
    ten_cache_close(cache);
}

static void sized(void) {
    static const size_t sizes[] = { 0, 1, 24, 100, 1000, 8192, 8193, 100000, 3 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = ten_malloc(group, sizes[i]), *q = ten_aligned_alloc(group, 256, sizes[i]);
        CHECK(p && q && (uintptr_t)q % 256 == 0);
        CHECK(ten_free_sized(ctl, p, sizes[i] * 16 + 200) == TEN_ERR_WRONG_CACHE);
        OK(ten_free_sized(ctl, p, sizes[i]));
        OK(ten_free_aligned_sized(ctl, q, 256, sizes[i]));
    }
    /* What counts is the size that was asked for last. */
    void *p = ten_malloc(group, 40000);
    CHECK((p = ten_realloc(ctl, p, 300)) != NULL);
    OK(ten_free_sized(ctl, p, 300));
    OK(ten_free_sized(ctl, NULL, 5));
    OK(ten_free_aligned_sized(ctl, NULL, 3, 5));
    int on_stack = 0;
    CHECK((p = ten_malloc(group, 8)) != NULL);
    CHECK(ten_free_aligned_sized(ctl, p, 3, 8) == TEN_ERR_INVALID);
    CHECK(ten_free_sized(ctl, &on_stack, 8) == TEN_ERR_BAD_ADDRESS);
    OK(ten_free_sized(ctl, p, 8));
    CHECK(ten_free_sized(ctl, p, 8) == TEN_ERR_NOT_LIVE);
    CHECK(ten_group_exact(group) == 0);
}

/* A table that leads to movable objects: each knows its place in it. */
enum { PLACES = 4000 };
struct movable {
    int place;
    char rest[124];
};
static struct movable *table[PLACES];
static int moves;

static bool migrate(const ten_migrate *self, void *from, void *to) {
    struct movable *m = from;
    CHECK(self->arg == &moves && table[m->place] == from);
    if (m->place == 0) /* in use */
        return false;
    memcpy(to, from, sizeof *m);
    table[m->place] = to;
    moves++;
    return true;
}

static const ten_migrate mover = { migrate, &moves };

static void moved_together(void) {
    ten_cache *cache;
    ten_cache_config config = TEN_CACHE_CONFIG_INIT;
    ten_cache_stat before, after;
    ten_compacted done;
    config.name = "movable";
    config.size = sizeof(struct movable);
    config.migrate = &mover;
    OK(ten_cache_new(ctl, &config, &cache));
    for (int i = 0; i < PLACES; i++) {
        CHECK((table[i] = ten_cache_alloc(cache, group)) != NULL);
        table[i]->place = i;
        memset(table[i]->rest, i, sizeof table[i]->rest);
    }
    for (int i = 0; i < PLACES; i++)
        if (i % 10) {
            OK(ten_cache_free(cache, table[i]));
            table[i] = NULL;
        }
    const uint64_t charged = ten_group_exact(group);
    OK(ten_cache_stat_get(cache, &before, sizeof before));
    OK(ten_cache_compact(cache, 5, &done));
    CHECK(done.moved + done.refused <= 5);
    OK(ten_controller_compact(ctl, UINT64_MAX, &done));
    OK(ten_cache_stat_get(cache, &after, sizeof after));
    CHECK(done.moved > 0 && done.refused <= 1 && moves > 0 && done.bytes > 0);
    CHECK(after.objects == PLACES / 10 && after.slabs * 2 < before.slabs);
    CHECK(ten_group_exact(group) == charged); /* nobody pays more or less */
    for (int i = 0; i < PLACES; i += 10) {
        CHECK(table[i]->place == i && table[i]->rest[123] == (char)i);
        OK(ten_cache_free(cache, table[i]));
    }
    OK(ten_cache_destroy(cache));
    ten_cache_close(cache);
}

int main(void) {
    ctl = strict_controller();
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "bulk", &group));
    many();
    sized();
    moved_together();
    CHECK(ten_group_exact(root) == 0);
    ten_group_close(group);
    ten_group_close(root);
    ten_controller_close(ctl);
    return 0;
}

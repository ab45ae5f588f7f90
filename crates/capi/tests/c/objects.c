/* Objects by size and by kind, charges without objects, mistakes that are told. */
#include "check.h"
#include <pthread.h>

static ten_controller *ctl;
static ten_group *root, *group;

static void sizes(void) {
    static const size_t all[] = { 0, 1, 7, 16, 100, 1000, 8192, 8193, 100000, 3 << 20 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char *p = ten_malloc(group, all[i]);
        CHECK(p != NULL && (uintptr_t)p % 16 == 0);
        const size_t usable = ten_usable_size(ctl, p);
        CHECK(usable >= all[i] && usable > 0);
        CHECK(ten_group_exact(group) == usable + TEN_OWNER_BYTES);
        memset(p, 1, usable);
        OK(ten_free(ctl, p));
        unsigned char *zeros = ten_calloc(group, all[i], 1);
        CHECK(zeros != NULL);
        for (size_t j = 0; j < all[i]; j++)
            CHECK(zeros[j] == 0);
        OK(ten_free(ctl, zeros));
    }
    for (size_t align = 1; align <= 1 << 21; align *= 2) {
        void *p = ten_aligned_alloc(group, align, 100);
        CHECK(p != NULL && (uintptr_t)p % align == 0);
        OK(ten_free(ctl, p));
    }
    CHECK(ten_aligned_alloc(group, 3, 100) == NULL && errno == EINVAL);
    volatile size_t huge = SIZE_MAX; /* the compiler would see the mistake */
    CHECK(ten_malloc(group, huge) == NULL && ten_last_error() == TEN_ERR_INVALID);
    CHECK(ten_calloc(group, huge / 2, 3) == NULL && ten_last_error() == TEN_ERR_INVALID);
    CHECK(ten_malloc(NULL, 1) == NULL && ten_last_error() == TEN_ERR_INVALID);
    OK(ten_free(ctl, NULL));
    CHECK(ten_group_exact(group) == 0);
}

static void resizing(void) {
    ten_group *other, *owner;
    OK(ten_group_create(root, "other", &other));
    char *p = ten_strdup(group, "text \xff");
    for (size_t size = 8; size < 200000; size = size * 3 / 2) {
        p = ten_realloc(ctl, p, size);
        CHECK(p != NULL && strcmp(p, "text \xff") == 0);
    }
    OK(ten_group_of_object(ctl, p, &owner));
    CHECK(ten_group_same(owner, group)); /* kept its owner */
    ten_group_close(owner);
    p = ten_realloc_aligned(ctl, p, 4096, 50);
    CHECK((uintptr_t)p % 4096 == 0 && strcmp(p, "text \xff") == 0);
    OK(ten_free(ctl, p));
    p = ten_calloc(group, 1, 10);
    p = ten_realloc_zeroed(ctl, p, 5000);
    CHECK(p != NULL);
    for (int i = 0; i < 5000; i++)
        CHECK(p[i] == 0);
    OK(ten_free(ctl, p));
    CHECK(ten_realloc(ctl, NULL, 10) == NULL && ten_last_error() == TEN_ERR_INVALID);
    OK(ten_group_remove(other));
    ten_group_close(other);
}

static void caches(void) {
    ten_cache *cache, *same;
    ten_cache_config config = TEN_CACHE_CONFIG_INIT;
    ten_cache_stat stat;
    char name[32], text[256];
    ten_controller *own;
    CHECK(ten_cache_new(ctl, NULL, &cache) == TEN_ERR_INVALID);
    CHECK(ten_cache_new(ctl, &config, &cache) == TEN_ERR_INVALID); /* no name */
    config.name = "session";
    config.size = 192;
    config.align = 64;
    config.policy = 9;
    CHECK(ten_cache_new(ctl, &config, &cache) == TEN_ERR_INVALID && cache == NULL);
    config.policy = TEN_NODE_LOCAL;
    OK(ten_cache_new(ctl, &config, &cache));
    CHECK(ten_cache_name(cache, name, sizeof name) == 7 && strcmp(name, "session") == 0);
    CHECK(ten_cache_charge(cache) == 192 + TEN_OWNER_BYTES);
    void *a = ten_cache_alloc(cache, group);
    unsigned char *b = ten_cache_zalloc(cache, group);
    void *c = ten_cache_alloc_on(cache, group, 0);
    void *unowned = ten_cache_alloc_unowned(cache);
    CHECK(a && b && c && unowned && (uintptr_t)a % 64 == 0 && b[0] == 0 && b[191] == 0);
    CHECK(ten_cache_alloc_on(cache, group, 63) == NULL && ten_last_error() == TEN_ERR_INVALID);
    CHECK(ten_group_exact(group) == 3 * ten_cache_charge(cache));
    OK(ten_cache_stat_get(cache, &stat, sizeof stat));
    CHECK(stat.objects == 4 && stat.slot_size == 192);
    CHECK(ten_cache_text(cache, text, sizeof text) > 0 && strstr(text, "slot_size 192\n"));
    CHECK(ten_cache_json(cache, text, sizeof text) > 0 && strstr(text, "{\"name\":\"session\",\"charge\":196,") == text);
    CHECK(ten_cache_destroy(cache) == TEN_ERR_BUSY);
    OK(ten_cache_controller(cache, &own));
    ten_controller_close(own);
    void *here = ten_cache_alloc_here(cache); /* in no scope: the root's */
    CHECK(ten_group_exact(root) == 4 * ten_cache_charge(cache));
    OK(ten_cache_free(cache, here));

    void *start;
    size_t bytes;
    OK(ten_slab_of_object(ctl, a, &start, &bytes));
    CHECK((char *)a >= (char *)start && (char *)a < (char *)start + bytes);
    ten_group *nobody;
    CHECK(ten_group_of_object(ctl, unowned, &nobody) == TEN_ERR_NOT_FOUND);

    /* Mistakes. */
    int on_stack = 0;
    void *sized = ten_malloc(group, 10);
    CHECK(ten_free(ctl, &on_stack) == TEN_ERR_BAD_ADDRESS);
    CHECK(ten_free(ctl, (char *)a + 8) == TEN_ERR_BAD_ADDRESS);
    CHECK(ten_cache_free(cache, sized) == TEN_ERR_WRONG_CACHE);
    CHECK(ten_realloc(ctl, a, 300) == NULL && ten_last_error() == TEN_ERR_WRONG_CACHE);
    CHECK(ten_usable_size(ctl, &on_stack) == 0);
    OK(ten_free(ctl, sized));
    CHECK(ten_free(ctl, sized) == TEN_ERR_NOT_LIVE);

    OK(ten_cache_free(cache, a));
    OK(ten_free(ctl, b));
    OK(ten_free_nolock(ctl, c));
    OK(ten_cache_free(cache, unowned));
    CHECK(ten_free_nolock(ctl, &on_stack) == TEN_ERR_BAD_ADDRESS);
    void *quick = ten_cache_alloc_nolock(cache, group);
    CHECK(quick != NULL || errno == EAGAIN);
    OK(ten_cache_free(cache, quick));
    ten_cache_shrink(cache);
    OK(ten_cache_dup(cache, &same));
    OK(ten_cache_destroy(cache));
    CHECK(ten_cache_alloc(same, group) == NULL && ten_last_error() == TEN_ERR_REMOVED);
    ten_cache_close(same);
    ten_cache_close(cache);
    CHECK(ten_group_exact(root) == 0);
}

static void find(const ten_damage *damage, void *arg) {
    CHECK(damage->what == TEN_DAMAGE_RED_ZONE && damage->found == 7);
    *(void **)arg = damage->object;
}

static void overruns(void) {
    ten_cache *cache;
    ten_cache_config config = TEN_CACHE_CONFIG_INIT;
    config.name = "debug";
    config.size = 40;
    config.debug = 1;
    OK(ten_cache_new(ctl, &config, &cache));
    volatile char *object = ten_cache_alloc(cache, group);
    void *found = NULL;
    CHECK(ten_cache_validate(cache, find, &found) == 0);
    object[40] = 7;
    CHECK(ten_cache_validate(cache, find, &found) == 1 && found == (void *)object);
    object[41] = 7;
    CHECK(ten_cache_free(cache, (void *)object) == TEN_ERR_OVERWRITTEN);
    OK(ten_cache_destroy(cache));
    ten_cache_close(cache);
}

static void charges(void) {
    ten_owner *owner, *same;
    ten_group *now, *payer;
    OK(ten_group_create(group, "payer", &payer));
    OK(ten_owner_open(payer, &owner));
    OK(ten_group_set_max(payer, 10000));
    OK(ten_charge(owner, 6000));
    CHECK(ten_charge(owner, 6000) == TEN_ERR_LIMIT && ten_group_exact(payer) == 6000);
    OK(ten_charge_forced(owner, 6000));
    CHECK(ten_group_exact(payer) == 12000);
    OK(ten_group_remove(payer));
    OK(ten_owner_group(owner, &now));
    CHECK(ten_group_same(now, group) && ten_group_exact(group) == 12000);
    ten_group_close(now);
    OK(ten_owner_dup(owner, &same));
    OK(ten_uncharge(same, 12000));
    CHECK(ten_group_exact(root) == 0);
    ten_owner_close(same);
    ten_owner_close(owner);
    ten_group_close(payer);
    void *object = ten_malloc(group, 10);
    OK(ten_owner_of_object(ctl, object, &owner));
    ten_owner_close(owner);
    OK(ten_free(ctl, object));
    char *pages = ten_pages(ctl, 3, 0);
    CHECK(pages != NULL && (uintptr_t)pages % 4096 == 0);
    CHECK(ten_free(ctl, pages) == TEN_ERR_BAD_ADDRESS);
    OK(ten_free_pages(ctl, pages));
    CHECK(ten_free_pages(ctl, NULL) == TEN_ERR_INVALID);
}

/* Each thread frees what another allocated, and has a last error of its own. */
enum { THREADS = 4, EACH = 2000 };
static void *shelf[THREADS][EACH];

static void *fill(void *arg) {
    const int me = *(int *)arg;
    for (int i = 0; i < EACH; i++)
        CHECK((shelf[me][i] = ten_malloc(group, (size_t)(i % 700))) != NULL);
    CHECK(ten_last_error() == 0);
    return NULL;
}

static void *empty(void *arg) {
    const int other = (*(int *)arg + 1) % THREADS;
    for (int i = 0; i < EACH; i++)
        OK(ten_free(ctl, shelf[other][i]));
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    int number[THREADS];
    void *(*const what[])(void *) = { fill, empty };
    CHECK(ten_malloc(NULL, 1) == NULL); /* an error of this thread alone */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            number[i] = i;
            CHECK(pthread_create(&thread[i], NULL, what[round], &number[i]) == 0);
        }
        uint64_t sum = 0;
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(thread[i], NULL) == 0);
        for (int i = 0; round == 0 && i < THREADS * EACH; i++)
            sum += ten_usable_size(ctl, shelf[i / EACH][i % EACH]) + TEN_OWNER_BYTES;
        CHECK(ten_group_exact(group) == sum);
    }
}

/* A machine with two nodes that is not there. */
static void nodes(void) {
    ten_config config = TEN_CONFIG_INIT;
    ten_controller *two;
    ten_cache *cache;
    ten_group *top;
    ten_cache_config bound = TEN_CACHE_CONFIG_INIT;
    config.nodes = 2;
    config.cpus = 4;
    OK(ten_controller_new(&config, &two));
    CHECK(ten_controller_nodes(two) == 2 && ten_controller_cpus(two) == 4);
    OK(ten_controller_set_cpu(two, 3));
    CHECK(ten_controller_set_cpu(two, 1 << 20) == TEN_ERR_INVALID);
    bound.name = "bound";
    bound.size = 100;
    bound.policy = TEN_NODE_BIND;
    bound.node = 2;
    CHECK(ten_cache_new(two, &bound, &cache) == TEN_ERR_INVALID);
    bound.node = 1;
    OK(ten_cache_new(two, &bound, &cache));
    OK(ten_root(two, &top));
    CHECK(ten_malloc(group, 1) != NULL && ten_cache_alloc(cache, group) == NULL);
    CHECK(ten_last_error() == TEN_ERR_NOT_FOUND); /* a group of another controller */
    CHECK(ten_cache_alloc(cache, top) != NULL);
    ten_group_close(top);
    ten_cache_close(cache);
    ten_controller_close(two); /* its object goes with it */
}

int main(void) {
    ctl = strict_controller();
    OK(ten_root(ctl, &root));
    OK(ten_group_create(root, "objects", &group));
    sizes();
    resizing();
    caches();
    overruns();
    charges();
    threads();
    nodes();
    ten_group_close(group);
    ten_group_close(root);
    ten_controller_close(ctl);
    return 0;
}

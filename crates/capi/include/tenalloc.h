/*
 * tenalloc.h - memory control groups inside a process.
 *
 * A program that serves many tenants makes a group for each. All tenants share slab pages; every object knows its
 * owner from its address alone; every byte is charged up the tree of groups; limits hold; a group can be removed at
 * once while its objects live on.
 *
 *     ten_group *root, *tenant;
 *     ten_root(NULL, &root);                            // NULL: the process's own controller
 *     ten_group_create(root, "tenant-7", &tenant);
 *     ten_group_set_max(tenant, 1 << 20);
 *     char *text = ten_malloc(tenant, 100);
 *     if (!text) fprintf(stderr, "%s\n", ten_last_error_text());
 *     ten_free(NULL, text);                             // whoever frees it: tenant-7 gets the bytes back
 *
 * WHAT HOLDS FOR EVERY FUNCTION
 *
 * Units       Sizes are bytes, times are nanoseconds (their names end in _ns), unless something else is said.
 *
 * Errors      A function that returns int returns 0 or one of the negative TEN_ERR_ codes, each the negative of the
 *             Linux errno value that comes nearest. A function that returns an address returns NULL and sets errno to
 *             that (positive) value. A function that returns int64_t returns a length, or a code below 0. Functions
 *             that return a figure return 0 where it cannot be had. After any of these failures ten_last_error() has
 *             the code and ten_last_error_text() says in words what failed, where, and what to do. A call that fails
 *             leaves nothing behind: no byte charged, no object taken, and handles that it was to make are NULL. A
 *             call that succeeds leaves the last error as it was.
 *
 * Threads     Every function may be called from any thread at any time, also for the same handle, but for the one that
 *             ends the handle. No function may be called in a signal handler, except those whose name ends in _nolock.
 *             After fork in a program with several threads the child may call nothing of this library before exec,
 *             unless the fork was prepared: see ten_fork_prepare.
 *
 * Ownership   Types without a visible struct are handles. Who gets one through a parameter called out ends it with the
 *             _close function of its type; ending a handle leaves the thing itself (the group, the cache) in place.
 *             Handles that a callback gets as parameters are lent until it returns; _dup makes one that stays. A
 *             handle keeps its controller's memory in place.
 *
 * Callbacks   run in the thread that called, or that needs memory, with no lock held unless something else is said;
 *             they may call this library. They must return: no longjmp, no C++ exception (the process ends).
 *             Their last parameter, or the arg of the struct they are in, is the program's own. Structs with callbacks
 *             that are registered (ten_oom, ten_migrate, ten_shrinker, ten_shrink) are not copied: they stay in place,
 *             unchanged, as long as is said at each. Usually they are static.
 *
 * NULL        Where a ten_controller is asked for, NULL is the process's own controller. Everywhere else a handle that
 *             is NULL is an error (TEN_ERR_INVALID), but for _close and the freeing functions: there it is nothing.
 *             A parameter called out that may be NULL is said to be so.
 *
 * Strings     are UTF-8 and end with NUL. Functions that write one into a buffer work as snprintf does: they write at
 *             most size bytes, NUL included, and return the length that all of it has without the NUL. With size 0 the
 *             buffer may be NULL.
 *
 * Structs     that the program fills in begin with struct_size; start from the _INIT macro. Structs that the library
 *             fills in are passed with sizeof. Both may grow at their ends in later versions.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef TENALLOC_H
#define TENALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEN_VERSION "0.1.0"
#define TEN_VERSION_MAJOR 0
#define TEN_VERSION_MINOR 1
#define TEN_VERSION_PATCH 0

#if defined(__cplusplus)
#define TEN_NOEXCEPT noexcept
extern "C" {
#else
#define TEN_NOEXCEPT
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TEN_CHECK __attribute__((warn_unused_result))
#define TEN_SIZED(...) __attribute__((warn_unused_result, malloc, alloc_size(__VA_ARGS__)))
#define TEN_RESIZED(n) __attribute__((warn_unused_result, alloc_size(n)))
#else
#define TEN_CHECK
#define TEN_SIZED(...)
#define TEN_RESIZED(n)
#endif

typedef struct ten_controller ten_controller;     /* groups, caches and memory that belong together */
typedef struct ten_group ten_group;               /* a memory group, a node of the tree */
typedef struct ten_owner ten_owner;               /* what an object knows of its group; outlives it */
typedef struct ten_cache ten_cache;               /* objects of one kind, size and alignment */
typedef struct ten_lru ten_lru;                   /* LRU lists of one kind of object, one for each group and node */
typedef struct ten_registration ten_registration; /* the place of a free-standing shrinker */
typedef struct ten_peak ten_peak;                 /* a reader of a group's peak */
typedef struct ten_background ten_background;     /* a thread that reclaims */

/* No limit; no end of time. */
#define TEN_NO_LIMIT UINT64_MAX
#define TEN_NO_TIMEOUT UINT64_MAX
/* Bytes that an object is charged beyond its slot (for ten_malloc: beyond ten_usable_size), for its owner entry. */
#define TEN_OWNER_BYTES 4

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

enum ten_error {
    TEN_OK = 0,
    TEN_ERR_NOT_ALLOWED = -1,    /* EPERM: the root group, or the cache of a size class, cannot be removed */
    TEN_ERR_NOT_FOUND = -2,      /* ENOENT: no such group, owner, node or memory; a group of another controller */
    TEN_ERR_AGAIN = -11,         /* EAGAIN: not possible now without waiting, or less than was asked for */
    TEN_ERR_NO_MEMORY = -12,     /* ENOMEM: the system gave no memory */
    TEN_ERR_FROZEN = -13,        /* EACCES: the group or an ancestor is frozen */
    TEN_ERR_BAD_ADDRESS = -14,   /* EFAULT: not the address of an object of this controller */
    TEN_ERR_BUSY = -16,          /* EBUSY: the group has children, or the cache live objects */
    TEN_ERR_EXISTS = -17,        /* EEXIST: a group of that name exists there */
    TEN_ERR_WRONG_CACHE = -18,   /* EXDEV: the object belongs to another cache */
    TEN_ERR_REMOVED = -19,       /* ENODEV: the group was removed, or the cache destroyed */
    TEN_ERR_INVALID = -22,       /* EINVAL: a parameter is NULL or has a value that it cannot have, or not its turn */
    TEN_ERR_FULL = -28,          /* ENOSPC: a table of fixed size is full */
    TEN_ERR_TIMED_OUT = -110,    /* ETIMEDOUT */
    TEN_ERR_NOT_LIVE = -114,     /* EALREADY: the object is not live: freed twice? */
    TEN_ERR_OVERWRITTEN = -117,  /* EUCLEAN: the object was freed, but somebody had written beyond it (debug caches) */
    TEN_ERR_LIMIT = -122,        /* EDQUOT: the charge would pass the max of a group; see ten_last_limit */
    TEN_ERR_CANCELLED = -125,    /* ECANCELED */
    TEN_ERR_INTERNAL = -131      /* ENOTRECOVERABLE: a bug of tenalloc was caught; please report it */
};

/* What a code means, in one line; never NULL, never to be freed. */
const char *ten_strerror(int code) TEN_NOEXCEPT;
/* The code of this thread's last failure; 0 if there was none. */
int ten_last_error(void) TEN_NOEXCEPT;
/* That failure in words, with all figures ("" if there was none). Stays as it is until this thread asks again. */
const char *ten_last_error_text(void) TEN_NOEXCEPT;
/* Forgets this thread's last failure. */
void ten_clear_error(void) TEN_NOEXCEPT;

typedef struct ten_limit {
    uint64_t max;     /* the group's max */
    uint64_t current; /* its current at that moment */
    uint64_t wanted;  /* what was asked for */
    char path[40];    /* its path; the last 39 bytes of a longer one */
} ten_limit;

/* The limit that this thread's last failure met. TEN_ERR_NOT_FOUND if it was another failure (which it stays). */
int ten_last_limit(ten_limit *out) TEN_NOEXCEPT;
/* The version of the library that runs; TEN_VERSION is that of this header. */
const char *ten_version(void) TEN_NOEXCEPT;

/* ---- Controllers ------------------------------------------------------------------------------------------------- */

/* Decides when a charge met a max and reclaim did not help. In place as long as the controller. */
typedef struct ten_oom ten_oom;
struct ten_oom {
    /* group hit its max with a charge of wanted bytes. True: memory was given up, try again (asked 16 times at most).
     * May free; charges of its own that meet a limit fail at once. Should call ten_group_count_oom_victim for the
     * group that it emptied. */
    bool (*decide)(const ten_oom *self, const ten_group *group, uint64_t wanted);
    void *arg;
};

typedef struct ten_config {
    size_t struct_size;
    int hardened;       /* 1: every double free is told, 4 bytes an object more; 0: where it shows; -1: as built */
    int debug;          /* 1: red zones and poison in every cache, see ten_cache_config.debug */
    int exact_charges;  /* 1: charges go to the tree one by one: current is always exact, and slower */
    int no_sleep;       /* 1: a charge above high reclaims, but does not make its thread wait */
    uint32_t nodes;     /* a made-up machine of so many NUMA nodes (1 to 64), for tests; 0: the machine's */
    uint32_t cpus;      /* its CPUs */
    const ten_oom *oom; /* may be NULL: the charge fails */
} ten_config;
#define TEN_CONFIG_INIT { sizeof(ten_config), -1, 0, 0, 0, 0, 0, NULL }

/* A new controller with its own tree, caches and memory. config may be NULL: the usual. Any number may live side by
 * side. With the last handle of any kind to one, all of its memory goes, objects included.
 * TEN_ERR_NO_MEMORY, TEN_ERR_INVALID. */
int ten_controller_new(const ten_config *config, ten_controller **out) TEN_NOEXCEPT;
/* A handle to the process's own controller, which NULL stands for; made on first use, stays for good. */
int ten_controller_global(ten_controller **out) TEN_NOEXCEPT;
int ten_controller_dup(const ten_controller *ctl, ten_controller **out) TEN_NOEXCEPT;
void ten_controller_close(ten_controller *ctl) TEN_NOEXCEPT;
/* Gives back what is free: kept objects to slabs, empty slabs, pages to the system. Returns bytes given to the system. */
uint64_t ten_controller_trim(const ten_controller *ctl) TEN_NOEXCEPT;
/* CPUs and NUMA nodes that may exist. */
uint32_t ten_controller_cpus(const ten_controller *ctl) TEN_NOEXCEPT;
uint32_t ten_controller_nodes(const ten_controller *ctl) TEN_NOEXCEPT;
/* On a made-up machine: every thread is on that CPU from now on. Does nothing on the machine's own. */
int ten_controller_set_cpu(const ten_controller *ctl, uint32_t cpu) TEN_NOEXCEPT;
/* Shows every cache, those of the size classes too, newest first, until each returns false. */
int ten_controller_caches(const ten_controller *ctl, bool (*each)(const ten_cache *cache, void *arg),
                          void *arg) TEN_NOEXCEPT;
/* How far a group's current may run ahead of its exact, for each CPU: bytes that CPUs hold charged in advance. */
uint64_t ten_slack_per_cpu(void) TEN_NOEXCEPT;

/* ---- Groups: the tree ---------------------------------------------------------------------------------------------- */

/* The root: all bytes of a controller are charged to it. */
int ten_root(const ten_controller *ctl, ten_group **out) TEN_NOEXCEPT;
/* Makes a child. A name is 1 to 255 bytes without '/', and not "." or "..". Costs less than 200 bytes and a few
 * hundred ns, whatever else exists. TEN_ERR_INVALID, _EXISTS, _REMOVED, _FULL, _NO_MEMORY. */
int ten_group_create(const ten_group *parent, const char *name, ten_group **out) TEN_NOEXCEPT;
/* The group at a path below another: names separated by '/'. TEN_ERR_NOT_FOUND. */
int ten_group_lookup(const ten_group *from, const char *path, ten_group **out) TEN_NOEXCEPT;
int ten_group_dup(const ten_group *group, ten_group **out) TEN_NOEXCEPT;
/* Ends the handle; the group stays, and is found again by its path. */
void ten_group_close(ten_group *group) TEN_NOEXCEPT;
/* Removes the group. Its live objects stay and are its parent's from now on; the cost does not depend on their number.
 * The handle can still be read (figures stay), and is to be closed. TEN_ERR_BUSY while it has children,
 * TEN_ERR_NOT_ALLOWED for the root, TEN_ERR_REMOVED. */
int ten_group_remove(const ten_group *group) TEN_NOEXCEPT;
bool ten_group_is_removed(const ten_group *group) TEN_NOEXCEPT;
/* Whether two handles are of one group. */
bool ten_group_same(const ten_group *a, const ten_group *b) TEN_NOEXCEPT;
/* Its name ("" for the root) and its path ("/", "/a/b"). */
int64_t ten_group_name(const ten_group *group, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_group_path(const ten_group *group, char *buffer, size_t size) TEN_NOEXCEPT;
/* Its parent; TEN_ERR_NOT_FOUND for the root. */
int ten_group_parent(const ten_group *group, ten_group **out) TEN_NOEXCEPT;
int ten_group_controller(const ten_group *group, ten_controller **out) TEN_NOEXCEPT;
/* Shows its children, newest first, until each returns false. Removals meanwhile do not disturb it. */
int ten_group_children(const ten_group *group, bool (*each)(const ten_group *child, void *arg),
                       void *arg) TEN_NOEXCEPT;

/* ---- Groups: counters and limits, with cgroup v2's names ------------------------------------------------------------ */

/* Bytes charged to it and its descendants, with what CPUs hold in advance. One load. */
uint64_t ten_group_current(const ten_group *group) TEN_NOEXCEPT;
/* Without that: the sum over live objects of (slot + TEN_OWNER_BYTES), and of charges without objects. To the byte when
 * nothing is in flight. Looks at every CPU's part, waits for none that is idle. */
uint64_t ten_group_exact(const ten_group *group) TEN_NOEXCEPT;
/* The largest current since it was made or reset. Readers with resets of their own: ten_peak_open. */
uint64_t ten_group_peak(const ten_group *group) TEN_NOEXCEPT;
int ten_group_reset_peak(const ten_group *group) TEN_NOEXCEPT;
/* What current may reach; TEN_NO_LIMIT without. Setting it below current stops new charges; what is live stays. A charge
 * that would pass it reclaims from the subtree that met it, asks ten_oom, and then fails with TEN_ERR_LIMIT. */
uint64_t ten_group_max(const ten_group *group) TEN_NOEXCEPT;
int ten_group_set_max(const ten_group *group, uint64_t bytes) TEN_NOEXCEPT;
/* Above it a charge reclaims and, if that does not help, makes its thread wait 10 ms to 2 s; it succeeds. Setting it
 * reclaims at once what is above. TEN_NO_LIMIT without. */
uint64_t ten_group_high(const ten_group *group) TEN_NOEXCEPT;
int ten_group_set_high(const ten_group *group, uint64_t bytes) TEN_NOEXCEPT;
/* What reclaim leaves to it while anything else can be had; counts as far as its ancestors' cover it. */
uint64_t ten_group_low(const ten_group *group) TEN_NOEXCEPT;
int ten_group_set_low(const ten_group *group, uint64_t bytes) TEN_NOEXCEPT;
/* What reclaim leaves to it whatever happens. */
uint64_t ten_group_min(const ten_group *group) TEN_NOEXCEPT;
int ten_group_set_min(const ten_group *group, uint64_t bytes) TEN_NOEXCEPT;
/* Stops the growth of it and its descendants (charges fail with TEN_ERR_FROZEN), or allows it again. */
int ten_group_freeze(const ten_group *group, bool on) TEN_NOEXCEPT;
bool ten_group_is_frozen(const ten_group *group) TEN_NOEXCEPT;

typedef struct ten_events {
    uint64_t low;        /* reclaimed although its usage was below low */
    uint64_t high;       /* charges above high */
    uint64_t max;        /* charges that max stopped, at least until something was reclaimed */
    uint64_t oom;        /* reclaim did not help: the policy was asked */
    uint64_t oom_victim; /* the policy chose this group */
} ten_events;

/* Events of it and its descendants, or of its own, since the first knob was set. size: sizeof(ten_events). */
int ten_group_events(const ten_group *group, ten_events *out, size_t size) TEN_NOEXCEPT;
int ten_group_events_local(const ten_group *group, ten_events *out, size_t size) TEN_NOEXCEPT;
/* Counts it as the victim of an out-of-memory policy. */
int ten_group_count_oom_victim(const ten_group *group) TEN_NOEXCEPT;

/* A reader of the group's peak whose resets are its own. */
int ten_peak_open(const ten_group *group, ten_peak **out) TEN_NOEXCEPT;
uint64_t ten_peak_read(const ten_peak *peak) TEN_NOEXCEPT;
int ten_peak_reset(const ten_peak *peak) TEN_NOEXCEPT;
void ten_peak_close(ten_peak *peak) TEN_NOEXCEPT;

/* ---- Objects of any size ------------------------------------------------------------------------------------------- */

/* size bytes owned by and charged to group, aligned to 16, not initialised; size 0 has an address of its own. What is
 * charged is ten_usable_size + TEN_OWNER_BYTES. TEN_ERR_LIMIT, _NO_MEMORY, _INVALID, _REMOVED, _FROZEN. */
void *ten_malloc(const ten_group *group, size_t size) TEN_NOEXCEPT TEN_SIZED(2);
/* The same for the group of this thread (ten_scope_enter); outside of every scope for the root. */
void *ten_malloc_here(const ten_controller *ctl, size_t size) TEN_NOEXCEPT TEN_SIZED(2);
/* The same, aligned to align: a power of two up to 1 GiB. size need not be a multiple of it. */
void *ten_aligned_alloc(const ten_group *group, size_t align, size_t size) TEN_NOEXCEPT TEN_SIZED(3);
/* number times size zeros. A product that does not fit is TEN_ERR_INVALID. */
void *ten_calloc(const ten_group *group, size_t number, size_t size) TEN_NOEXCEPT TEN_SIZED(2, 3);
/* A copy of a string (of any bytes). */
char *ten_strdup(const ten_group *group, const char *text) TEN_NOEXCEPT TEN_CHECK;
/* The object with size bytes instead, in place or moved, its contents kept as far as both sizes go. It keeps its owner,
 * who pays for both while it moves. NULL: the object is as it was. object must not be NULL, and must come from
 * ten_malloc and its like (TEN_ERR_WRONG_CACHE for an object of a cache); size 0 makes it 1. */
void *ten_realloc(const ten_controller *ctl, void *object, size_t size) TEN_NOEXCEPT TEN_RESIZED(3);
void *ten_realloc_aligned(const ten_controller *ctl, void *object, size_t align,
                          size_t size) TEN_NOEXCEPT TEN_RESIZED(4);
/* The same for an object of ten_calloc, always resized by this: what it grows by is zero. */
void *ten_realloc_zeroed(const ten_controller *ctl, void *object, size_t size) TEN_NOEXCEPT TEN_RESIZED(3);
/* Frees any object of the controller, from here or of a cache, on any thread; NULL is nothing. Its owner's group gets the
 * bytes back. TEN_ERR_BAD_ADDRESS, TEN_ERR_NOT_LIVE (always when hardened, else where it shows): nothing was changed.
 * TEN_ERR_OVERWRITTEN: it was freed. */
int ten_free(const ten_controller *ctl, void *object) TEN_NOEXCEPT;
/* The same for who knows the size (and the alignment) that the object was last asked for with, which is checked:
 * TEN_ERR_WRONG_CACHE if it is not an object for that size; nothing was changed. */
int ten_free_sized(const ten_controller *ctl, void *object, size_t size) TEN_NOEXCEPT;
int ten_free_aligned_sized(const ten_controller *ctl, void *object, size_t align, size_t size) TEN_NOEXCEPT;
/* The same in a signal handler: what cannot be freed at once is left to a later call. Leaves no last error. */
int ten_free_nolock(const ten_controller *ctl, void *object) TEN_NOEXCEPT;
/* Bytes that may be used of an object; 0 if it is none. */
size_t ten_usable_size(const ten_controller *ctl, void *object) TEN_NOEXCEPT;
/* The group that a live object is charged to now, from its address. TEN_ERR_NOT_FOUND: nobody owns it. */
int ten_group_of_object(const ten_controller *ctl, void *object, ten_group **out) TEN_NOEXCEPT;
/* The pages that it shares with others. */
int ten_slab_of_object(const ten_controller *ctl, void *object, void **start, size_t *bytes) TEN_NOEXCEPT;
/* count pages of 4 KiB on a node, owned and paid for by nobody, for memory that the program divides itself. */
void *ten_pages(const ten_controller *ctl, size_t count, uint32_t node) TEN_NOEXCEPT TEN_CHECK;
int ten_free_pages(const ten_controller *ctl, void *pages) TEN_NOEXCEPT;

/* ---- Caches: objects of one kind ------------------------------------------------------------------------------------ */

enum ten_node_policy {
    TEN_NODE_LOCAL = 0,     /* the caller's node, else another */
    TEN_NODE_PREFER = 1,    /* this node, else another */
    TEN_NODE_BIND = 2,      /* this node or none */
    TEN_NODE_INTERLEAVE = 3 /* the nodes in turn */
};

/* Moves objects of a cache when their memory is to be given back. In place as long as the controller. */
typedef struct ten_migrate ten_migrate;
struct ten_migrate {
    /* Moves the object at from to to: copies it and leads all pointers there. True: from is used by nobody any more,
     * and will be freed. False: nothing was changed. The program may be freeing the object just now: under its own lock
     * it makes sure that it is still in use. */
    bool (*migrate)(const ten_migrate *self, void *from, void *to);
    void *arg;
};

typedef struct ten_cache_config {
    size_t struct_size;
    const char *name;           /* 1 to 47 bytes; copied */
    size_t size;                /* of an object: 1 to 65,536 */
    size_t align;               /* a power of two, 8 to 4,096; 0: 8 */
    uint32_t policy;            /* one of TEN_NODE_ */
    uint32_t node;              /* for TEN_NODE_PREFER and TEN_NODE_BIND */
    uint32_t slab_pages;        /* pages of 4 KiB in a slab, 1 to 256; 0: chosen */
    uint32_t slab_objects;      /* objects in it */
    int owner_bytes;            /* charged for an object's owner entry; -1: TEN_OWNER_BYTES */
    int sheaf;                  /* nobody's free objects that a CPU keeps at most; 0: nor ready ones; -1: chosen */
    int debug;                  /* 1: red zones and poison: overruns and writes after free are told. -1: as controller */
    const ten_migrate *migrate; /* may be NULL */
} ten_cache_config;
#define TEN_CACHE_CONFIG_INIT { sizeof(ten_cache_config), NULL, 0, 0, TEN_NODE_LOCAL, 0, 0, 0, -1, -1, -1, NULL }

/* A new cache. TEN_ERR_INVALID, TEN_ERR_NO_MEMORY. */
int ten_cache_new(const ten_controller *ctl, const ten_cache_config *config, ten_cache **out) TEN_NOEXCEPT;
/* The same with name and size, and the rest as usual. */
int ten_cache_create(const ten_controller *ctl, const char *name, size_t size, ten_cache **out) TEN_NOEXCEPT;
int ten_cache_dup(const ten_cache *cache, ten_cache **out) TEN_NOEXCEPT;
/* Ends the handle; the cache stays. */
void ten_cache_close(ten_cache *cache) TEN_NOEXCEPT;
/* Takes an empty cache away: handles to it then only fail, and are to be closed. TEN_ERR_BUSY while it has live objects,
 * TEN_ERR_NOT_ALLOWED for a size class. */
int ten_cache_destroy(const ten_cache *cache) TEN_NOEXCEPT;
int ten_cache_controller(const ten_cache *cache, ten_controller **out) TEN_NOEXCEPT;
int64_t ten_cache_name(const ten_cache *cache, char *buffer, size_t size) TEN_NOEXCEPT;
/* Bytes that each object is charged: its slot and its owner entry. */
uint64_t ten_cache_charge(const ten_cache *cache) TEN_NOEXCEPT;

/* An object owned by and charged to group, not initialised. TEN_ERR_LIMIT, _NO_MEMORY, _REMOVED, _FROZEN. */
void *ten_cache_alloc(const ten_cache *cache, const ten_group *group) TEN_NOEXCEPT TEN_CHECK;
/* The same, zeroed. */
void *ten_cache_zalloc(const ten_cache *cache, const ten_group *group) TEN_NOEXCEPT TEN_CHECK;
/* The same for the group of this thread (ten_scope_enter); outside of every scope for the root. */
void *ten_cache_alloc_here(const ten_cache *cache) TEN_NOEXCEPT TEN_CHECK;
/* The same for an object that will be on a list of lru: the lists are made first, its item is initialised. */
void *ten_cache_alloc_lru(const ten_cache *cache, const ten_group *group, const ten_lru *lru) TEN_NOEXCEPT TEN_CHECK;
/* The same on a node if it has memory, whatever the cache's policy. */
void *ten_cache_alloc_on(const ten_cache *cache, const ten_group *group, uint32_t node) TEN_NOEXCEPT TEN_CHECK;
/* An object that no group owns or pays for. */
void *ten_cache_alloc_unowned(const ten_cache *cache) TEN_NOEXCEPT TEN_CHECK;
/* In a signal handler: what this CPU has at hand, else NULL with errno EAGAIN. Leaves no last error. */
void *ten_cache_alloc_nolock(const ten_cache *cache, const ten_group *group) TEN_NOEXCEPT TEN_CHECK;
/* Frees an object of this cache, on any thread; NULL is nothing. As ten_free, and TEN_ERR_WRONG_CACHE. */
int ten_cache_free(const ten_cache *cache, void *object) TEN_NOEXCEPT;
/* number objects into the places at objects, or none: then the places are NULL, and nothing is charged. As
 * ten_cache_alloc; up to 64 at a time are charged and taken together. number 0: objects may be NULL. */
int ten_cache_alloc_bulk(const ten_cache *cache, const ten_group *group, size_t number, void **objects) TEN_NOEXCEPT;
/* Frees the objects at number places; those that are NULL are nothing. Returns the first mistake (as ten_cache_free); the
 * others are freed all the same. */
int ten_cache_free_bulk(const ten_cache *cache, size_t number, void *const *objects) TEN_NOEXCEPT;
/* Gives back what it holds free; returns bytes of slabs. */
uint64_t ten_cache_shrink(const ten_cache *cache) TEN_NOEXCEPT;

typedef struct ten_compacted {
    uint64_t moved;   /* objects moved */
    uint64_t refused; /* objects that ten_migrate did not move */
    uint64_t slabs;   /* slabs fewer than before */
    uint64_t bytes;   /* their bytes */
} ten_compacted;

/* Moves objects of a cache with ten_migrate (or of all such caches) out of the sparsest slabs into the fullest, at most
 * most objects; of other caches only empty slabs go. ten_controller_trim then gives the pages to the system. out may be
 * NULL. */
int ten_cache_compact(const ten_cache *cache, uint64_t most, ten_compacted *out) TEN_NOEXCEPT;
int ten_controller_compact(const ten_controller *ctl, uint64_t most, ten_compacted *out) TEN_NOEXCEPT;

enum ten_damaged {
    TEN_DAMAGE_RED_ZONE = 0,    /* the program wrote beyond an object */
    TEN_DAMAGE_FREE_OBJECT = 1, /* the program wrote to an object after it freed it */
    TEN_DAMAGE_FREE_LIST = 2    /* or to the list of a slab's free objects */
};

typedef struct ten_damage {
    void *object;   /* the cache's object that the place belongs to */
    void *at;       /* the first byte that is not as it was left */
    uint32_t found; /* what stands there */
    uint32_t what;  /* one of TEN_DAMAGE_ */
} ten_damage;

/* Looks for such places in a cache with debug, shows them to each (which may be NULL), mends them, returns their number. */
int64_t ten_cache_validate(const ten_cache *cache, void (*each)(const ten_damage *damage, void *arg),
                           void *arg) TEN_NOEXCEPT;

/* ---- Charges without objects: for memory that comes from elsewhere --------------------------------------------------- */

/* The handle that objects know the group by: when the group is removed, it speaks for the parent. */
int ten_owner_open(const ten_group *group, ten_owner **out) TEN_NOEXCEPT;
/* That of a live object. TEN_ERR_NOT_FOUND: nobody owns it. */
int ten_owner_of_object(const ten_controller *ctl, void *object, ten_owner **out) TEN_NOEXCEPT;
int ten_owner_dup(const ten_owner *owner, ten_owner **out) TEN_NOEXCEPT;
void ten_owner_close(ten_owner *owner) TEN_NOEXCEPT;
/* The group that it speaks for now. */
int ten_owner_group(const ten_owner *owner, ten_group **out) TEN_NOEXCEPT;
/* Charges bytes to that group and all above it, or fails: TEN_ERR_LIMIT, TEN_ERR_FROZEN. */
int ten_charge(const ten_owner *owner, uint64_t bytes) TEN_NOEXCEPT;
/* Charges past all limits, for what must not fail. Counted in ten_stat. */
int ten_charge_forced(const ten_owner *owner, uint64_t bytes) TEN_NOEXCEPT;
/* Gives back bytes that were charged through this handle or a copy of it; never more than that. */
int ten_uncharge(const ten_owner *owner, uint64_t bytes) TEN_NOEXCEPT;

/* ---- Lists and shrinkers --------------------------------------------------------------------------------------------- */

/* What a list needs of an object: a member of it, private. */
typedef struct ten_lru_item {
    void *ten_private[3];
} ten_lru_item;

/* Lists of objects whose ten_lru_item lies offset bytes (a multiple of 8; offsetof) from their start. Costs nothing per
 * group: a group has a list once it has an object. */
int ten_lru_new(const ten_controller *ctl, size_t offset, ten_lru **out) TEN_NOEXCEPT;
int ten_lru_dup(const ten_lru *lru, ten_lru **out) TEN_NOEXCEPT;
/* Ends the handle; with the last one the lists go. No object may be on one then. */
void ten_lru_close(ten_lru *lru) TEN_NOEXCEPT;
/* Makes the lists of a group where they are missing, before an object of it is handed out; ten_cache_alloc_lru does so. */
int ten_lru_prepare(const ten_lru *lru, const ten_group *group) TEN_NOEXCEPT;
/* An item on no list; ten_cache_alloc_lru does so. */
void ten_lru_item_init(ten_lru_item *item) TEN_NOEXCEPT;
/* Puts a live object of the controller at the end of the list of its group and node, found from its address. False: it is
 * on a list already. Takes no memory. The object is deleted from the list before it is freed; nobody adds or deletes the
 * same object at the same time. */
bool ten_lru_add(const ten_lru *lru, void *object) TEN_NOEXCEPT;
/* Takes an object off its list. False: it is on none. */
bool ten_lru_del(const ten_lru *lru, void *object) TEN_NOEXCEPT;
/* Marks a hit, so that the program's isolate can spare the object once: a store at most, no list moves. */
void ten_lru_reference(const ten_lru_item *item) TEN_NOEXCEPT;
/* Clears the mark and tells whether it was there. */
bool ten_lru_take_reference(const ten_lru_item *item) TEN_NOEXCEPT;
/* Only a hint while others add or delete it. */
bool ten_lru_is_listed(const ten_lru_item *item) TEN_NOEXCEPT;
/* Objects on the list of the group itself on a node. */
uint64_t ten_lru_count(const ten_lru *lru, const ten_group *group, uint32_t node) TEN_NOEXCEPT;
/* Bytes of all the lists, and groups that have one, without the root. */
uint64_t ten_lru_bytes(const ten_lru *lru) TEN_NOEXCEPT;
uint64_t ten_lru_groups(const ten_lru *lru) TEN_NOEXCEPT;

enum ten_lru_status {
    TEN_LRU_REMOVED = 0,       /* take it off; dispose gets it once the list is unlocked */
    TEN_LRU_REMOVED_RETRY = 1, /* the same, and begin again at the front */
    TEN_LRU_ROTATE = 2,        /* move it to the end */
    TEN_LRU_SKIP = 3,          /* leave it */
    TEN_LRU_RETRY = 4,         /* begin again at the front */
    TEN_LRU_STOP = 5           /* end the walk here */
};

typedef struct ten_isolated {
    uint64_t removed; /* objects taken off */
    uint64_t shown;   /* objects shown */
} ten_isolated;

/* Shows up to number objects of the group's list on a node, oldest first, to isolate, which returns a TEN_LRU_ status.
 * isolate runs with the list locked: it may look at the object and try a lock of its own, but not call this library, but
 * for ten_lru_take_reference. dispose runs unlocked for each object taken off, and may free it. out may be NULL. */
int ten_lru_walk(const ten_lru *lru, const ten_group *group, uint32_t node, uint64_t number,
                 uint32_t (*isolate)(void *object, void *arg), void (*dispose)(void *object, void *arg), void *arg,
                 ten_isolated *out) TEN_NOEXCEPT;

/* What a scan did; zeroed before it. */
typedef struct ten_scanned {
    uint64_t looked_at; /* objects looked at */
    uint64_t freed;     /* objects freed by now */
    uint64_t asked;     /* objects whose users were asked, and that will follow; not waited for */
    bool stop;          /* nothing more can be had from this list now */
} ten_scanned;

/* Gives objects of lists back. In place as long as the controller. */
typedef struct ten_shrinker ten_shrinker;
struct ten_shrinker {
    /* Looks at up to number objects of group on node, oldest first, and frees what can be spared; usually with
     * ten_lru_walk. May allocate and free. */
    void (*scan)(const ten_shrinker *self, const ten_lru *lru, const ten_group *group, uint32_t node, uint64_t number,
                 ten_scanned *done);
    uint32_t seeks; /* accesses that it takes to make an object again: 1 cheap, 2 usual; 0 gives half at once */
    uint32_t batch; /* objects that one call is asked for at most; 0: 128 */
    void *arg;
};
/* Binds the shrinker that is asked when a group with such lists is short of memory. */
int ten_lru_set_shrinker(const ten_lru *lru, const ten_shrinker *shrinker) TEN_NOEXCEPT;

/* Gives memory of the program's own caches back, that are on no ten_lru. In place until its registration was closed. */
typedef struct ten_shrink ten_shrink;
struct ten_shrink {
    /* Objects of the group itself on a node that a scan could look at; should be quick. */
    uint64_t (*count)(const ten_shrink *self, const ten_group *group, uint32_t node);
    void (*scan)(const ten_shrink *self, const ten_group *group, uint32_t node, uint64_t number, ten_scanned *done);
    uint32_t seeks;
    uint32_t batch;
    void *arg;
};
int ten_shrink_register(const ten_controller *ctl, const ten_shrink *shrink, ten_registration **out) TEN_NOEXCEPT;
/* Takes it away and waits until none of its calls is under way (not from inside a reclaim). */
void ten_registration_close(ten_registration *registration) TEN_NOEXCEPT;

/* ---- Reclaim --------------------------------------------------------------------------------------------------------- */

typedef struct ten_reclaimed {
    uint64_t bytes;            /* by which the group's exact charge fell */
    uint64_t freed;            /* objects that shrinkers freed */
    uint64_t asked;            /* objects that will follow */
    uint64_t protected_groups; /* groups passed over because min or low protects them */
    bool out_of_time;          /* the time was over before everything was asked */
} ten_reclaimed;

/* Reclaims from a group and its descendants, in this thread, until its exact charge fell by bytes, or for about timeout_ns
 * (TEN_NO_TIMEOUT: no end). out may be NULL. TEN_ERR_AGAIN: less was freed; out has how much. */
int ten_group_reclaim(const ten_group *group, uint64_t bytes, uint64_t timeout_ns, ten_reclaimed *out) TEN_NOEXCEPT;
/* How long a charge of bytes would be made to wait now because of high. For no_sleep controllers. */
uint64_t ten_group_high_delay(const ten_group *group, uint64_t bytes) TEN_NOEXCEPT;
/* Waits until the group and all above it are at or below their high, or it was removed. TEN_ERR_TIMED_OUT. */
int ten_group_wait_below_high(const ten_group *group, uint64_t timeout_ns) TEN_NOEXCEPT;
/* Starts a thread that brings groups above their high down to margin bytes below it, so that charges need not. name may
 * be NULL; slice_ns: time for one group at a time when several are above, 0: 20 ms. TEN_ERR_AGAIN: no thread. */
int ten_background_start(const ten_controller *ctl, const char *name, uint64_t margin, uint64_t slice_ns,
                         ten_background **out) TEN_NOEXCEPT;
/* Times that it reclaimed from a group, and bytes in all. */
uint64_t ten_background_runs(const ten_background *background) TEN_NOEXCEPT;
uint64_t ten_background_bytes(const ten_background *background) TEN_NOEXCEPT;
/* Stops the thread, waits for it, and ends the handle. */
void ten_background_stop(ten_background *background) TEN_NOEXCEPT;

/* ---- The group of a thread ------------------------------------------------------------------------------------------- */

/* From now on this thread's ten_malloc_here and ten_cache_alloc_here are group's; NULL: nobody's in particular, so the
 * root's. Returns what was entered before, to be entered again at the end:
 *
 *     const ten_group *before = ten_scope_enter(tenant);
 *     ...
 *     ten_scope_enter(before);
 *
 * The handle must stay open meanwhile. Two stores. */
const ten_group *ten_scope_enter(const ten_group *group) TEN_NOEXCEPT;
/* Calls body inside the group. */
int ten_scope_run(const ten_group *group, void (*body)(void *arg), void *arg) TEN_NOEXCEPT;
/* A handle to the group of this thread; TEN_ERR_NOT_FOUND outside of every scope. */
int ten_scope_current(ten_group **out) TEN_NOEXCEPT;

/* ---- Forks ------------------------------------------------------------------------------------------------------------- */

/* A fork copies the memory of all threads, but only the one that called it: what another thread had locked would be
 * locked for ever in the child. A program that forks and goes on in the child without exec has these called around it,
 * for each of its controllers; with several, parent and child in the reverse order of prepare:
 *
 *     static void prepare(void) { ten_fork_prepare(NULL); }
 *     static void parent(void) { ten_fork_parent(NULL); }
 *     static void child(void) { ten_fork_child(NULL); }
 *     ...
 *     pthread_atfork(prepare, parent, child);            // once, before the first fork
 *
 * prepare waits until nothing is under way in the controller and keeps it so: from there on this thread uses it for
 * nothing (also not in fork handlers of its own; those registered later run before) until it called parent or child. Not
 * in a callback of the controller.
 * In the child all groups, limits, charges and objects are as they were, a copy; what other threads had in their hands
 * stays charged, and a ten_background does not run there: its handle may only be left as it is.
 * A call that is not this thread's turn (parent or child without prepare, any of them twice) does nothing: TEN_ERR_INVALID. */
int ten_fork_prepare(const ten_controller *ctl) TEN_NOEXCEPT;
int ten_fork_parent(const ten_controller *ctl) TEN_NOEXCEPT;
int ten_fork_child(const ten_controller *ctl) TEN_NOEXCEPT;

/* ---- Memory taken out of use, and what removed groups left ------------------------------------------------------------ */

typedef struct ten_pin {
    void *address;          /* where it begins */
    uint64_t bytes;         /* of the object, or of all objects handed out of the slab that begins there */
    const ten_cache *cache; /* lent; NULL for whole pages */
    const ten_group *owner; /* lent; NULL: nobody's */
} ten_pin;

/* Takes a NUMA node, or the 2 MiB chunk of an address, out of use and gives its memory back: no new use, shrinkers and
 * ten_migrate are asked to empty it, then it waits, with no lock held, timeout_ns in all. *bytes (may be NULL): address
 * space given back. TEN_ERR_TIMED_OUT: it is in use again, and each (may be NULL) was shown what held it;
 * TEN_ERR_CANCELLED, TEN_ERR_NOT_FOUND. A node stays out of use until ten_online_node. */
int ten_offline_node(const ten_controller *ctl, uint32_t node, uint64_t timeout_ns,
                     void (*each)(const ten_pin *pin, void *arg), void *arg, uint64_t *bytes) TEN_NOEXCEPT;
int ten_offline_chunk(const ten_controller *ctl, void *address, uint64_t timeout_ns,
                      void (*each)(const ten_pin *pin, void *arg), void *arg, uint64_t *bytes) TEN_NOEXCEPT;
/* Ends every such call that is waiting. */
int ten_offline_cancel(const ten_controller *ctl) TEN_NOEXCEPT;
int ten_online_node(const ten_controller *ctl, uint32_t node) TEN_NOEXCEPT;

typedef struct ten_orphan {
    void *address;          /* the object's; the slab's, where all objects of a slab have one owner */
    uint32_t objects;       /* 1, or for a slab those handed out or kept near a CPU */
    uint32_t slot_size;     /* bytes from one object to the next */
    const ten_cache *cache; /* lent */
    const ten_group *payer; /* lent: the group that pays now */
} ten_orphan;

/* Shows the live objects of removed groups (whole pages are not shown). Costs a look at every owner entry. */
int ten_orphans(const ten_controller *ctl, void (*each)(const ten_orphan *orphan, void *arg), void *arg) TEN_NOEXCEPT;

/* ---- Figures ---------------------------------------------------------------------------------------------------------- */

typedef struct ten_stat {
    uint64_t live_bytes;         /* slots of live objects, and whole pages of large ones */
    uint64_t objects;            /* live objects */
    uint64_t slab_bytes;         /* pages of all slabs */
    uint64_t large_bytes;        /* pages of large objects (in live_bytes too) */
    uint64_t cached_bytes;       /* free objects kept near CPUs (in slab_bytes too) */
    uint64_t owner_vector_bytes; /* owners of objects */
    uint64_t metadata_bytes;     /* all other bookkeeping that is resident */
    uint64_t raw_bytes;          /* pages of ten_pages */
    uint64_t free_page_bytes;    /* free pages that are still resident */
    uint64_t mapped_bytes;       /* address space */
    uint64_t stock_bytes;        /* charged in advance: what the root's current is ahead of its exact */
    uint64_t stock_bound_bytes;  /* what that can be at most */
    uint64_t forced_bytes;       /* ever charged past all limits */
    uint64_t groups;             /* groups, without the root */
    uint64_t removed_held;       /* removed groups that a handle still holds */
    uint64_t orphans;            /* owners of removed groups that live objects or handles still hold */
    uint64_t corrupted;          /* places found overwritten */
} ten_stat;

typedef struct ten_group_stat {
    uint64_t current;     /* bytes charged, with what CPUs hold in advance */
    uint64_t exact;       /* without that */
    uint64_t own;         /* of exact, what is no descendant's */
    uint64_t descendants; /* groups below it */
    uint64_t lists;       /* lists that it and its descendants have */
    uint64_t listed;      /* objects on them */
    uint64_t list_bytes;  /* bytes of these lists */
} ten_group_stat;

typedef struct ten_cache_stat {
    uint64_t objects;    /* live */
    uint64_t cached;     /* free, kept near CPUs */
    uint64_t slabs;      /* slabs */
    uint64_t slot_size;  /* bytes from one object to the next */
    uint64_t slab_bytes; /* pages of all slabs */
} ten_cache_stat;

/* At about one moment: what goes on meanwhile may show in one figure and not yet in another. size: sizeof(*out). */
int ten_stat_get(const ten_controller *ctl, ten_stat *out, size_t size) TEN_NOEXCEPT;
int ten_group_stat_get(const ten_group *group, ten_group_stat *out, size_t size) TEN_NOEXCEPT;
int ten_cache_stat_get(const ten_cache *cache, ten_cache_stat *out, size_t size) TEN_NOEXCEPT;

/* The same as lines of name and value, like cgroup v2's files (of a group: its limits and events too), and as one JSON
 * object (of a controller: its caches too; of a group: its descendants, depth levels down, 64 at most). Takes no memory. Figures
 * change between two calls: leave some room above the length that the first one returned. */
int64_t ten_controller_text(const ten_controller *ctl, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_controller_json(const ten_controller *ctl, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_group_text(const ten_group *group, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_group_json(const ten_group *group, uint32_t depth, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_cache_text(const ten_cache *cache, char *buffer, size_t size) TEN_NOEXCEPT;
int64_t ten_cache_json(const ten_cache *cache, char *buffer, size_t size) TEN_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif

/*
 * The deadlock of four threads that Pavel Tatashin reported in 2020: memory is being taken back, a group is being
 * removed, a crashing task writes its core into a pipe, and who reads that pipe first asks for the task's group. It
 * goes through three locks, a reference count, and a pipe, so no lock checker sees it.
 *
 *     -DLINUX_5_8    the locks of Linux up to 5.8: spin finds the deadlock
 *     (nothing)      the locks of tenalloc, as src/sync ranks them: a full search finds none
 *     -DWAIT_LOCKED  tenalloc, but who takes memory back waits for the page with the caches locked: spin finds the
 *                    deadlock. It shows that the clean search above could have found one.
 *     -DSEEN_LATE    tenalloc, but the count that T1 sleeps on is read after the look, not before: a wake-up is lost,
 *                    and spin finds it.
 *
 * To check:  spin -a [-D...] deadlock.pml && cc -O1 -DSAFETY -o pan pan.c && ./pan -m100000
 * tests/deadlock.rs does so, and runs the same four threads on the real library.
 */

#define ROUNDS 2      /* times that each thread does its part */
#define CPUS   2

/* A lock is a flag. lock() waits until it is free. */
#define lock(l)   atomic { !l -> l = true }
#define unlock(l) l = false

/* References of the page that T3 holds. */
byte pinned = 0;

/* A pipe with room for one message. Each of T3's cores has two: the second write waits for T4. */
chan pipe = [1] of { bit };

/* T4 was told that there is a core to be read. */
chan core = [ROUNDS] of { bit };

#ifdef LINUX_5_8

bool mem_hotplug, cgroup_mutex, slab_mutex;

/* T1: offline_pages() holds mem_hotplug_lock for writing, and waits until nobody refers to the page. */
inline take_memory_back() {
	lock(mem_hotplug);
	(pinned == 0);
	unlock(mem_hotplug)
}

/* T2: css_killed_work_fn() holds cgroup_mutex; memcg_deactivate_kmem_caches() asks for get_online_mems(). */
inline remove_group() {
	lock(cgroup_mutex);
	lock(mem_hotplug);
	lock(slab_mutex);
	unlock(slab_mutex);
	unlock(mem_hotplug);
	unlock(cgroup_mutex)
}

/* T3: charges and gets a page: no lock of these is held meanwhile. */
inline allocate() { skip }
inline release() { pinned-- }

/* T4: reading /proc/<pid>/cgroup takes cgroup_mutex. */
inline read_state() {
	lock(cgroup_mutex);
	unlock(cgroup_mutex)
}

#else

/* Ranks fall: tree, indexes, caches, cpu, list, parent list, owners, partial, chunk. */
bool tree, indexes, caches, cpu[CPUS], list, parent_list, owners, partial, chunk;

/* Runs that left the chunk: T1 sleeps while this is what it last saw (src/sync/event.rs). */
byte departures = 0;

#ifdef WAIT_LOCKED
#define lock_if_told   lock(caches)
#define unlock_if_told unlock(caches)
#else
#define lock_if_told   skip
#define unlock_if_told skip
#endif

#ifdef SEEN_LATE
#define early skip
#define late  seen = departures
#else
#define early seen = departures
#define late  skip
#endif

/* T1: offline() of the chunk that the page lies in, for one cache and one list (src/reclaim/offline.rs). */
inline take_memory_back() {
	lock(chunk);            /* no new use of it */
	unlock(chunk);
	do
	:: early;
	   lock(caches);        /* which caches there are; then the sheaves of each CPU */
	   unlock(caches);
	   c1 = 0;
	   do
	   :: c1 < CPUS ->
		lock(cpu[c1]);
		lock(partial);
		lock(chunk);
		unlock(chunk);
		unlock(partial);
		unlock(cpu[c1]);
		c1++
	   :: else -> break
	   od;
	   c1 = 0;
	   lock(partial);       /* slabs off the lists, empty ones back */
	   lock(chunk);
	   unlock(chunk);
	   unlock(partial);
	   lock(indexes);       /* shrinkers: the next list, a walk, the next child */
	   unlock(indexes);
	   lock(cpu[0]);
	   lock(list);
	   unlock(cpu[0]);
	   unlock(list);
	   lock(tree);
	   unlock(tree);
	   lock(chunk);         /* is it empty? */
	   gone = (pinned == 0);
	   unlock(chunk);
	   if
	   :: gone -> break
	   :: else
	   fi;
	   late;
	   lock_if_told;
	   (departures != seen);
	   unlock_if_told
	od;
	gone = 0
}

/* T2: lists to the parent, owner forwarded, every CPU's stock drained, with the tree locked; memory of the lists and
   owners is given back at the end. */
inline remove_group() {
	lock(tree);
	lock(indexes);
	lock(list);
	lock(parent_list);
	unlock(parent_list);
	unlock(list);
	unlock(indexes);
	lock(owners);
	unlock(owners);
	c2 = 0;
	do
	:: c2 < CPUS ->
		lock(cpu[c2]);
		unlock(cpu[c2]);
		c2++
	:: else -> break
	od;
	unlock(tree);
	c2 = 0
}

/* T3: charge (which may meet a forwarded owner) and take an object, on either CPU. */
inline allocate() {
	if
	:: c3 = 0
	:: c3 = 1
	fi;
	lock(cpu[c3]);
	lock(owners);
	unlock(owners);
	lock(partial);
	lock(chunk);
	unlock(chunk);
	unlock(partial);
	unlock(cpu[c3])
}

/* The way back: its slab is empty and goes, and who waits for the chunk is told with the outer locks still held. */
inline release() {
	if
	:: c3 = 0
	:: c3 = 1
	fi;
	lock(cpu[c3]);
	lock(partial);
	lock(chunk);
	pinned--;
	unlock(chunk);
	departures++;
	unlock(partial);
	lock(owners);
	unlock(owners);
	unlock(cpu[c3])
}

/* T4: look-up, path, exact (every CPU's lock, rising), and the statistics (caches, then each CPU; tree; owners). */
inline read_state() {
	lock(tree);
	unlock(tree);
	lock(cpu[0]);
	lock(cpu[1]);
	unlock(cpu[1]);
	unlock(cpu[0]);
	lock(caches);
	lock(cpu[0]);
	unlock(cpu[0]);
	lock(cpu[1]);
	unlock(cpu[1]);
	lock(partial);
	unlock(partial);
	unlock(caches);
	lock(tree);
	unlock(tree);
	lock(owners);
	unlock(owners)
}

#endif

active proctype T1() {
	byte n, c1, seen;
	bool gone;
	do
	:: n < ROUNDS -> take_memory_back(); n++
	:: else -> break
	od
}

active proctype T2() {
	byte n, c2;
	do
	:: n < ROUNDS -> remove_group(); n++
	:: else -> break
	od
}

active proctype T3() {
	byte n, c3;
	do
	:: n < ROUNDS ->
		allocate();
		pinned++;
		core ! 1;
		pipe ! 1;
		pipe ! 1;       /* waits for T4 */
		release();
		n++
	:: else -> break
	od
}

active proctype T4() {
	byte n;
	do
	:: n < ROUNDS ->
		core ? _;
		read_state();
		pipe ? _;
		pipe ? _;
		n++
	:: else -> break
	od
}

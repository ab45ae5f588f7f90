/* Forks while other threads allocate from two controllers: the child finds nothing locked, and figures that are whole. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static ten_controller *own;
static ten_group *roots[2]; /* of the process's controller and of the program's own */
static atomic_int enough;

/* The reverse order after the fork, as header and pthread_atfork have it. */
static void prepare(void) {
    OK(ten_fork_prepare(NULL));
    OK(ten_fork_prepare(own));
}

static void parent(void) {
    OK(ten_fork_parent(own));
    OK(ten_fork_parent(NULL));
}

static void child(void) {
    OK(ten_fork_child(own));
    OK(ten_fork_child(NULL));
}

static void use(const ten_group *root, const char *name, int rounds) {
    ten_group *group;
    ten_controller *ctl;
    void *objects[50];
    OK(ten_group_create(root, name, &group));
    OK(ten_group_controller(group, &ctl));
    OK(ten_group_set_max(group, 4 << 20));
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 50; i++)
            CHECK((objects[i] = ten_malloc(group, (size_t)((i * 37 + round) % 20000))) != NULL);
        for (int i = 0; i < 50; i++)
            OK(ten_free(ctl, objects[i]));
    }
    CHECK(ten_group_exact(group) == 0);
    OK(ten_group_remove(group));
    ten_controller_close(ctl);
    ten_group_close(group);
}

static void *work(void *arg) {
    const char *name = arg;
    while (!atomic_load(&enough))
        use(roots[name[0] % 2], name, 3);
    return NULL;
}

int main(int argc, char **argv) {
    const int number = argc > 1 ? atoi(argv[1]) : 60; /* fewer where forks are slow */
    static char names[4][2] = { "a", "b", "c", "d" };
    pthread_t threads[4];
    ten_stat stat;
    OK(ten_controller_new(NULL, &own));
    OK(ten_root(NULL, &roots[0]));
    OK(ten_root(own, &roots[1]));
    CHECK(ten_fork_parent(own) == TEN_ERR_INVALID && ten_fork_child(own) == TEN_ERR_INVALID);
    CHECK(strstr(ten_last_error_text(), "first prepare") != NULL);
    CHECK(pthread_atfork(prepare, parent, child) == 0);
    void *kept = ten_malloc(roots[1], 1000);
    CHECK(kept != NULL);
    memset(kept, 5, 1000);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, names[i]) == 0);
    for (int i = 0; i < number; i++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(300); /* a child that hangs ends, which the parent sees */
            CHECK(((char *)kept)[999] == 5);
            OK(ten_free(own, kept));
            use(roots[0], "child", 5);
            use(roots[1], "child", 5);
            OK(ten_stat_get(own, &stat, sizeof stat));
            ten_controller_trim(own);
            if (i % 10 == 0) {
                const pid_t again = fork(); /* the child of the child */
                int status;
                CHECK(again >= 0);
                if (again == 0) {
                    use(roots[1], "grandchild", 5);
                    _exit(0);
                }
                CHECK(waitpid(again, &status, 0) == again && status == 0);
            }
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    atomic_store(&enough, 1);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(ten_free(own, kept));
    CHECK(ten_group_exact(roots[0]) == 0 && ten_group_exact(roots[1]) == 0);
    ten_group_close(roots[0]);
    ten_group_close(roots[1]);
    ten_controller_close(own);
    return 0;
}

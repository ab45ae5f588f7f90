/* The first program: a tenant with a limit.
 *
 *     gcc hello.c $(pkg-config --cflags --libs tenalloc) -o hello && ./hello
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenalloc.h>

static void must(int code) {
    if (code != TEN_OK) {
        fprintf(stderr, "%s: %s\n", ten_strerror(code), ten_last_error_text());
        exit(1);
    }
}

int main(void) {
    ten_group *root, *tenant;
    must(ten_root(NULL, &root)); /* NULL: the process's own controller */
    must(ten_group_create(root, "tenant-7", &tenant));
    must(ten_group_set_max(tenant, 64 * 1024));

    /* Memory of the tenant: any size, freed by anybody, on any thread. */
    char *text = ten_strdup(tenant, "hello");
    text = text ? ten_realloc(NULL, text, 100) : NULL; /* keeps its owner */
    if (!text)
        must(ten_last_error());
    strcat(text, ", tenant");
    printf("%s: %" PRIu64 " bytes are charged\n", text, ten_group_exact(tenant));

    /* The limit holds, and says what it is. */
    void *much = ten_malloc(tenant, 100 * 1024);
    if (much)
        return 1;
    printf("refused (%s):\n  %s\n", ten_strerror(ten_last_error()), ten_last_error_text());

    /* The tenant goes; what lives on is its parent's. */
    must(ten_group_remove(tenant));
    ten_group_close(tenant);
    printf("the root has %" PRIu64 " bytes\n", ten_group_exact(root));
    must(ten_free(NULL, text));
    printf("and now %" PRIu64 "\n", ten_group_exact(root));
    ten_group_close(root);
    return 0;
}

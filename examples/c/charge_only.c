/* Memory that comes from elsewhere (malloc, mmap, a GPU), charged to tenants all the same: their limits hold for it, and
 * together with objects from here it is one sum.
 *
 *     gcc charge_only.c $(pkg-config --cflags --libs tenalloc) -o charge_only && ./charge_only
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenalloc.h>

/* A buffer that knows who pays for it: the owner outlives the group. */
struct buffer {
    ten_owner *owner;
    uint64_t bytes;
    char *data;
};

static int buffer_open(struct buffer *buffer, const ten_group *tenant, uint64_t bytes) {
    int code = ten_owner_open(tenant, &buffer->owner);
    if (code == TEN_OK)
        code = ten_charge(buffer->owner, bytes); /* first pay, then take */
    if (code == TEN_OK && !(buffer->data = malloc(bytes))) {
        ten_uncharge(buffer->owner, bytes);
        code = TEN_ERR_NO_MEMORY;
    }
    if (code != TEN_OK)
        ten_owner_close(buffer->owner);
    buffer->bytes = bytes;
    return code;
}

static void buffer_close(struct buffer *buffer) {
    free(buffer->data);
    ten_uncharge(buffer->owner, buffer->bytes); /* to whoever pays by now */
    ten_owner_close(buffer->owner);
}

int main(void) {
    ten_group *root, *tenant;
    struct buffer buffers[8];
    int made = 0, code = ten_root(NULL, &root);
    if (code == TEN_OK)
        code = ten_group_create(root, "tenant", &tenant);
    if (code != TEN_OK) {
        fprintf(stderr, "%s\n", ten_last_error_text());
        return 1;
    }
    ten_group_set_max(tenant, 1000000);
    while (made < 8 && (code = buffer_open(&buffers[made], tenant, 300000)) == TEN_OK)
        made++;
    printf("%d buffers of 300000 bytes, then: %s\n", made, ten_last_error_text());
    if (made != 3 || code != TEN_ERR_LIMIT || ten_group_exact(tenant) != 900000)
        return 2;

    ten_group_remove(tenant);
    printf("the tenant is gone; the root pays %" PRIu64 "\n", ten_group_exact(root));
    while (made > 0)
        buffer_close(&buffers[--made]);
    printf("all given back: %" PRIu64 "\n", ten_group_exact(root));
    code = ten_group_exact(root) == 0 ? 0 : 3;
    ten_group_close(tenant);
    ten_group_close(root);
    return code;
}

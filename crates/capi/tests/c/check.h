/* What the test programs share: a check that says where it failed and what the library says of it. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tenalloc.h"

#define CHECK(what)                                                                                        \
    do {                                                                                                   \
        if (!(what)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #what,                    \
                    ten_last_error_text());                                                                \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#define OK(call) CHECK((call) == TEN_OK)

/* A controller that forgives nothing, whose figures are exact at every moment. */
static inline ten_controller *strict_controller(void) {
    ten_config config = TEN_CONFIG_INIT;
    ten_controller *ctl;
    config.hardened = 1;
    config.exact_charges = 1;
    OK(ten_controller_new(&config, &ctl));
    return ctl;
}

#endif

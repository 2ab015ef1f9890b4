/* What a call that may fail must give. */
#ifndef STATUS_CHECKS_H
#define STATUS_CHECKS_H

#include <criterion/criterion.h>
#include <string.h>

#include "base.h"

#define OK(call) cr_assert_eq((call), DQN_OK, "%s: %s", #call, dqn_error_text())
/* This status, and `part` in the error's text. */
#define FAILS(call, status, part)                                                                  \
    do {                                                                                           \
        cr_assert_eq((call), (status), "%s: %s", #call, dqn_error_text());                         \
        cr_assert_not_null(strstr(dqn_error_text(), (part)), "%s", dqn_error_text());              \
    } while (0)

#endif

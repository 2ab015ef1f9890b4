/* h5_same A B: exit status 0 when both checkpoints have equal datasets, the text of the
 * configuration apart; for tests of the programs from a shell. */
#include <stdio.h>

#include "h5_compare.h"

int main(int argc, char **argv) {
    char why[512] = "";
    if (argc != 3) {
        fprintf(stderr, "usage: h5_same A B\n");
        return 2;
    }
    if (!h5_equal_but_config(argv[1], argv[2], why, sizeof why)) {
        fprintf(stderr, "%s, %s: %s\n", argv[1], argv[2], why);
        return 1;
    }
    return 0;
}

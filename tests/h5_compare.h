/* Byte for byte comparison of HDF5 files, by the library alone. */
#ifndef DQN_TESTS_H5_COMPARE_H
#define DQN_TESTS_H5_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

/* Every dataset of a is in b with the same type, shape and bytes, and the other way round. `why`
 * tells the first difference. */
bool h5_equal(const char *a, const char *b, char *why, size_t size);
/* The same, the dataset with the configuration's text apart. */
bool h5_equal_but_config(const char *a, const char *b, char *why, size_t size);
/* One dataset. */
bool h5_dataset_equal(const char *a, const char *b, const char *name, char *why, size_t size);

#endif

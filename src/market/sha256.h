/* SHA-256 of a stream of bytes, as hexadecimal text (FIPS 180-4, through libcrypto). */
#ifndef DQN_MARKET_SHA256_H
#define DQN_MARKET_SHA256_H

#include "../base.h"

enum { DQN_SHA256_TEXT = 65 };

struct dqn_sha256;

enum dqn_status dqn_sha256_create(struct dqn_sha256 **out);
void dqn_sha256_destroy(struct dqn_sha256 *sha);
enum dqn_status dqn_sha256_add(struct dqn_sha256 *sha, const void *bytes, size_t n);
/* Ends the sum; nothing may be added afterwards. */
enum dqn_status dqn_sha256_text(struct dqn_sha256 *sha, char out[DQN_SHA256_TEXT]);

#endif

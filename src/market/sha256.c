#include "sha256.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct dqn_sha256 {
    EVP_MD_CTX *context;
};

enum dqn_status dqn_sha256_create(struct dqn_sha256 **out) {
    *out = NULL;
    void *memory = NULL;
    DQN_TRY(dqn_alloc(&memory, 1, sizeof(struct dqn_sha256), "SHA-256"));
    struct dqn_sha256 *sha = memory;
    sha->context = EVP_MD_CTX_new();
    if (sha->context == NULL || EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) != 1) {
        dqn_sha256_destroy(sha);
        return dqn_fail(DQN_ERR_INTERNAL, "libcrypto does not offer SHA-256");
    }
    *out = sha;
    return DQN_OK;
}

void dqn_sha256_destroy(struct dqn_sha256 *sha) {
    if (sha != NULL) {
        EVP_MD_CTX_free(sha->context);
        free(sha);
    }
}

enum dqn_status dqn_sha256_add(struct dqn_sha256 *sha, const void *bytes, size_t n) {
    if (EVP_DigestUpdate(sha->context, bytes, n) != 1) {
        return dqn_fail(DQN_ERR_INTERNAL, "libcrypto failed to add %zu bytes to a SHA-256", n);
    }
    return DQN_OK;
}

enum dqn_status dqn_sha256_text(struct dqn_sha256 *sha, char out[DQN_SHA256_TEXT]) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_DigestFinal_ex(sha->context, sum, &n) != 1 || n != 32) {
        return dqn_fail(DQN_ERR_INTERNAL, "libcrypto failed to end a SHA-256");
    }
    for (unsigned i = 0; i < n; i++) {
        snprintf(out + 2 * (size_t)i, 3, "%02x", sum[i]);
    }
    return DQN_OK;
}

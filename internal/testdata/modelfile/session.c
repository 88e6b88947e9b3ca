#include "session.h"

session_result_t session_init(session_t* session, void* const memory[], size_t bytes) {
    session->table = memory[0];
    session->length = bytes / sizeof(int32_t);
    if ((session->length < 3U) || (((uintptr_t)memory[0] & 63U) != 0U)) {
        return SESSION_NO_MEMORY;
    }
    for (int i = 0; i < 3; i++) {
        session->table[i] += i + 1;  // a second call would change the results
    }
    return SESSION_OK;
}

session_result_t session_run(const session_t* session, struct session_buffers* buffers, int scale, void* scratch) {
    int32_t* copy = scratch;
    if (((uintptr_t)scratch & 31U) != 0U) {
        return SESSION_NO_MEMORY;
    }
    for (int i = 0; i < 3; i++) {
        copy[i] = session->table[i] * scale;
    }
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 3; i++) {
            buffers->sums[r][i] = (int16_t)(copy[i] * buffers->image[r * 3 + i] + (int32_t)buffers->scale.gain);
        }
    }
    return SESSION_OK;
}

// A network as a vendor's library offers it: a handle, a struct of buffers, a table of memory from the caller, status
// codes.
#ifndef SESSION_H
#define SESSION_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t* table;
    size_t length;
} session_t;

struct session_buffers {
    const int8_t* image;
    int16_t sums[2][3];
    struct {
        float gain;
    } scale;
};

typedef enum { SESSION_OK = 7, SESSION_NO_MEMORY = 1 } session_result_t;

session_result_t session_init(session_t* session, void* const memory[], size_t bytes);
session_result_t session_run(const session_t* session, struct session_buffers* buffers, int scale, void* scratch);
#endif

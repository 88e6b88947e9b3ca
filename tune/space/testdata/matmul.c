// C = A × B for matrices of 64 × 64 numbers, in blocks of TILE_M × TILE_N × TILE_K.
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#define PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n) PRAGMA(GCC unroll n)

enum { SIZE = 64 };

static void block(const int8_t* a, const int8_t* b, int32_t* c, int m, int n, int k) {
  for (int i = m; i < m + TILE_M; i++) {
    for (int p = k; p < k + TILE_K; p++) {
#if UNROLL
      UNROLL_BY(UNROLL)
#endif
      for (int j = n; j < n + TILE_N; j++) {
        c[i * SIZE + j] += (ACC)a[i * SIZE + p] * b[p * SIZE + j];
      }
    }
  }
}

int32_t matmul(TVMValue* args, int* types, int count, TVMValue* result, int* result_type, void* handle) {
  const DLTensor* a = args[0].v_handle;
  const DLTensor* b = args[1].v_handle;
  DLTensor* c = args[2].v_handle;
  (void)types, (void)count, (void)result, (void)result_type, (void)handle;
  memset(c->data, 0, SIZE * SIZE * sizeof(int32_t));
  for (int m = 0; m < SIZE; m += TILE_M) {
    for (int n = 0; n < SIZE; n += TILE_N) {
      for (int k = 0; k < SIZE; k += TILE_K) {
        block(a->data, b->data, c->data, m, n, k);
      }
    }
  }
  return 0;
}

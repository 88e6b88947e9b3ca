// SPDX-License-Identifier: 0BSD
// C = A × B for matrices of 48 × 48 numbers. ROWS × COLUMNS sums are kept at a time. One pass of the loop over k adds
// DEPTH products to each of them. The loops over these three are unrolled.
#include <stdint.h>

enum { SIZE = 48 };

#define UNROLLED _Pragma("GCC unroll 8")

static void block(const int8_t* a, const int8_t* b, int32_t* c) {
  int32_t sum[ROWS][COLUMNS] = {{0}};
  for (int k = 0; k < SIZE; k += DEPTH) {
    UNROLLED for (int p = k; p < k + DEPTH; p++) {
      UNROLLED for (int i = 0; i < ROWS; i++) {
        UNROLLED for (int j = 0; j < COLUMNS; j++) {
          sum[i][j] += a[i * SIZE + p] * b[p * SIZE + j];
        }
      }
    }
  }
  UNROLLED for (int i = 0; i < ROWS; i++) {
    UNROLLED for (int j = 0; j < COLUMNS; j++) {
      c[i * SIZE + j] = sum[i][j];
    }
  }
}

void matmul(const int8_t* a, const int8_t* b, int32_t* c) {
  for (int i = 0; i < SIZE; i += ROWS) {
    for (int j = 0; j < SIZE; j += COLUMNS) {
      block(a + i * SIZE, b + j, c + i * SIZE + j);
    }
  }
}

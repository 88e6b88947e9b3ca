// This file generates the part of a typed call that checks accesses to arguments.

package modelfile

import (
	"fmt"
	"strings"
)

// checkedC precedes the description's macros. In a process that is built with -fsanitize=address, a block of the heap
// takes the place of each argument, so that AddressSanitizer finds each access outside of it. It prints its report and
// calls boardsmith_0_report. This finds the argument, and the place in the program: an access may be in a function of
// the sanitizer, such as memset.
const checkedC = `#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && defined(__linux__)
#define BOARDSMITH_0_CHECKED
#include <assert.h>
#include <execinfo.h>
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct boardsmith_0_block {
  struct boardsmith_0_block* next;
  const char* name;
  unsigned line;
  size_t size;
  void* data;
} boardsmith_0_block;
static boardsmith_0_block* boardsmith_0_blocks;
static void boardsmith_0_report(const char* report) {
  extern char __executable_start[], etext[];
  char place[256] = "?", text[512];
  void* frames[64];
  const int depth = backtrace(frames, 64);
  const uintptr_t access = (uintptr_t)__asan_get_report_address();
  const char* description = __asan_get_report_description();
  const boardsmith_0_block* nearest = NULL;
  uintptr_t least = 4096;
  (void)report;
  for (int i = 2; i < depth; i++) {  // before these: backtrace and this function
    if ((char*)frames[i] > __executable_start && (char*)frames[i] <= etext) {
      __sanitizer_symbolize_pc((char*)frames[i] - 1, "%s:%l", place, sizeof place);
      break;
    }
  }
  const char* file = strrchr(place, '/') != NULL ? strrchr(place, '/') + 1 : place;
  for (const boardsmith_0_block* b = boardsmith_0_blocks; b != NULL; b = b->next) {
    const uintptr_t start = (uintptr_t)b->data, end = start + b->size;
    const uintptr_t distance = access < start ? start - access : access - end;
    if (distance < least) {
      least = distance;
      nearest = b;
    }
  }
  if (nearest == NULL || strcmp(description, "heap-buffer-overflow") != 0) {
    snprintf(text, sizeof text, "%s: %s", file, description);
    __assert_fail(text, BOARDSMITH_0_FILE, 1, "");
  }
  snprintf(text, sizeof text, "%s %s byte %td of %s, which has %zu bytes", file,
           __asan_get_report_access_type() ? "writes" : "reads", (ptrdiff_t)(access - (uintptr_t)nearest->data),
           nearest->name, nearest->size);
  __assert_fail(text, BOARDSMITH_0_FILE, nearest->line, "");
}
static void* boardsmith_0_take(const char* name, unsigned line, const void* from, size_t size, size_t align) {
  boardsmith_0_block* b = malloc(sizeof *b);
  if (b == NULL || posix_memalign(&b->data, align, size) != 0) {
    abort();
  }
  *b = (boardsmith_0_block){boardsmith_0_blocks, name, line, size, b->data};
  boardsmith_0_blocks = b;
  if (from != NULL) {
    memcpy(b->data, from, size);
  }
  __asan_set_error_report_callback(boardsmith_0_report);
  return b->data;
}
static void boardsmith_0_release(void) {
  while (boardsmith_0_blocks != NULL) {
    boardsmith_0_block* b = boardsmith_0_blocks;
    boardsmith_0_blocks = b->next;
    free(b->data);
    free(b);
  }
}
`

// checked writes the function that the firmware calls in a checked build: it calls the unchecked one with blocks.
func (w *writer) checked(m *model) {
	w.line("#ifdef BOARDSMITH_0_CHECKED\n#undef %s\nint32_t %[1]s(%s) {", m.main(), m.parameters())

	take := func(kind, name, from string, bytes, align int64) string {
		to := "boardsmith_0_" + kind + "_" + name
		w.line("  void* %s = boardsmith_0_take(\"%s %s\", %dU, %s, %dU, %dU);", to, kind, name, m.lines[name], from, bytes,
			align)
		return to
	}

	var args, back []string
	for _, t := range m.inputs {
		args = append(args, take("input", t.name, local(t.name), int64(t.bytes), defaultAlign))
	}
	for _, t := range m.outputs {
		to := take("output", t.name, local(t.name), int64(t.bytes), defaultAlign)
		args = append(args, to)
		back = append(back, fmt.Sprintf("  memcpy(%s, %s, %dU);", local(t.name), to, t.bytes))
	}
	for _, p := range m.pools {
		args = append(args, take("arena", p.name, "NULL", p.size, p.align))
		// The caller's arena is not used: the block takes its place.
		back = append(back, "  (void)"+p.name+"_0_var;")
	}

	w.line("  const int32_t boardsmith_0_result = %s(%s);", m.unchecked(), strings.Join(args, ", "))
	w.line("%s\n  boardsmith_0_release();\n  return boardsmith_0_result;\n}\n#endif", strings.Join(back, "\n"))
}

// unchecked is the name of the function with the call in a checked build.
func (m *model) unchecked() string { return "boardsmith_0_" + m.Name + "_main" }

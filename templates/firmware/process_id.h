// SPDX-License-Identifier: Apache-2.0
//
// The build id of a process, for its port: the linker's note, which the program headers name.
#ifndef BOARDSMITH_PROCESS_ID_H_
#define BOARDSMITH_PROCESS_ID_H_

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "port.h"

#if UINTPTR_MAX > 0xFFFFFFFFU
typedef Elf64_Ehdr process_header_t;
typedef Elf64_Phdr process_segment_t;
typedef Elf64_Nhdr process_note_t;
#else
typedef Elf32_Ehdr process_header_t;
typedef Elf32_Phdr process_segment_t;
typedef Elf32_Nhdr process_note_t;
#endif

// The first byte of the program, its ELF header, from the system's linker.
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

// Copies the build id from a segment of notes to id.
static void process_id_read(const process_segment_t* segment, const uint8_t* notes, uint8_t* id) {
  const size_t align = (segment->p_align == 8U) ? 8U : 4U;
  process_note_t note;
  for (size_t at = 0; (at + sizeof note) < segment->p_memsz;) {
    (void)memcpy(&note, &notes[at], sizeof note);
    const size_t name = at + sizeof note;
    const size_t content = (name + note.n_namesz + align - 1U) & ~(align - 1U);
    if ((note.n_type == (uint32_t)NT_GNU_BUILD_ID) && (note.n_namesz == sizeof ELF_NOTE_GNU) &&
        (note.n_descsz >= (uint32_t)BUILD_ID_BYTES) && (memcmp(&notes[name], ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0)) {
      (void)memcpy(id, &notes[content], BUILD_ID_BYTES);
    }
    at = (content + note.n_descsz + align - 1U) & ~(align - 1U);
  }
}

// Copies the program's build id to id, BUILD_ID_BYTES; leaves them as they are without a note.
static void process_id(uint8_t* id) {
  process_header_t header;
  if (__ehdr_start == NULL) {
    return;
  }
  (void)memcpy(&header, __ehdr_start, sizeof header);
  const process_segment_t* const segments = (const process_segment_t*)(const void*)&__ehdr_start[header.e_phoff];
  uintptr_t moved = 0;  // from the addresses in the file
  for (uint32_t i = 0; i < header.e_phnum; i++) {
    if ((segments[i].p_type == (uint32_t)PT_LOAD) && (segments[i].p_offset == 0U)) {
      moved = (uintptr_t)__ehdr_start - (uintptr_t)segments[i].p_vaddr;
    }
  }
  for (uint32_t i = 0; i < header.e_phnum; i++) {
    if (segments[i].p_type == (uint32_t)PT_NOTE) {
      process_id_read(&segments[i], (const uint8_t*)(moved + (uintptr_t)segments[i].p_vaddr), id);
    }
  }
}

#endif  // BOARDSMITH_PROCESS_ID_H_

// SPDX-License-Identifier: Apache-2.0
//
// The firmware of one model without an RPC server: it sets up the chip, runs the model by the embedded C interface, and
// reports the outcome over the port's link (boardsmith.md, "Standalone firmware"). It is the same for every model: what
// differs is in tvm_<model>.h and in boardsmith_standalone.c, which has the buffers.
//
// A firmware with samples runs them once by itself, if no request arrives within START_MS of the start, unless a fault
// ended the last run. Afterwards it answers requests.
#include <boardsmith/boardsmith.h>
#include <boardsmith/standalone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/logging.h>

#include "fault.h"
#include "lines.h"
#include "port.h"
#include "stack.h"

#define START_MS 2000U

enum { CHIP_ID_MAX_BYTES = 32, NONCE_DIGITS = 16 };

// The time of runs of the model, and the result of the last one.
typedef struct outcome {
  int32_t error;
  uint64_t ticks;  // UINT64_MAX: unknown
} outcome_t;

// The number of the session, which the last request for the identity began; 0: none since the start. Inputs and outputs
// belong to a session: a host cannot mistake those of an earlier one, or the zeros after a reset, for its own.
static uint32_t session;

static bool has_outputs;  // the session's last run returned 0

TVM_WEAK const TVMContext standalone_context = TVM_CONTEXT_INIT(NULL, NULL);

// ---- The model ---------------------------------------------------------------------------------------------------

// Runs the model once.
static outcome_t run_once(void) {
  const standalone_model_t* const m = &standalone_model;
  boardsmith_port.ticks_align(boardsmith_port.ctx);
  port_measure(1);
  const uint64_t before = boardsmith_port.ticks(boardsmith_port.ctx);
  const int32_t error = TVMExecute(m->model, m->input, m->output, &standalone_context);
  const uint64_t after = boardsmith_port.ticks(boardsmith_port.ctx);
  port_measure(0);
  const bool valid = (before != UINT64_MAX) && (after != UINT64_MAX) && (after >= before);
  outcome_t o = {error, UINT64_MAX};
  if (valid) {
    o.ticks = after - before;
  }
  return o;
}

// Runs the model `times` times, until one run returns an error. All runs together count as one of the host's calls: the
// tick feeds the watchdog, and ends them with a fault when they have used up the budget. This function's name is in
// template.json, for the stack's depth.
__attribute__((noinline)) static outcome_t run_times(uint32_t times) {
  outcome_t all = {0, 0};
  boardsmith_call_begins((TVMFunctionHandle)(uintptr_t)FAULT_FUNCTION_AOT_RUN);
  for (uint32_t i = 0; (i < times) && (all.error == 0); i++) {
    const outcome_t last = run_once();
    all.error = last.error;
    all.ticks = ((all.ticks == UINT64_MAX) || (last.ticks == UINT64_MAX)) ? UINT64_MAX : (all.ticks + last.ticks);
  }
  boardsmith_call_ends();
  return all;
}

static void put_outcome(outcome_t o) {
  lines_put("run");
  lines_put_number((uint32_t)o.error, 8);
  lines_put_number(o.ticks, 16);
  lines_put_number(boardsmith_port.ticks_hz(boardsmith_port.ctx), 8);
}

// Sends a part of an output: its index, the offset, and at most LINES_DATA_BYTES.
static void put_output(uint32_t index, uint32_t offset) {
  const TVMModelTensor* const t = &standalone_model.model->tensors[standalone_model.model->num_inputs + index];
  const uint32_t left = t->size_bytes - offset;
  lines_put("out");
  lines_put_number(index, 4);
  lines_put_number(offset, 8);
  lines_put_bytes(&standalone_model.output_data[index][offset],
                  (left < (uint32_t)LINES_DATA_BYTES) ? left : (uint32_t)LINES_DATA_BYTES);
}

// ---- Requests ----------------------------------------------------------------------------------------------------

// Sends the identity: build id, CRC-32 over the nonce and the image in flash, and the chip's id, as those of
// boardsmith.build_id.
static void put_identity(uint32_t crc) {
  uint8_t chip[CHIP_ID_MAX_BYTES];
  const uint32_t chip_bytes = boardsmith_port.chip_id(boardsmith_port.ctx, chip, CHIP_ID_MAX_BYTES);
  lines_put("id");
  lines_put_bytes(boardsmith_port.build_id, BUILD_ID_BYTES);
  lines_put_number(boardsmith_port.image_crc(boardsmith_port.ctx, crc), 8);
  lines_put_bytes(chip, chip_bytes);
}

static bool do_id(lines_reader_t* line) {
  uint8_t nonce[NONCE_DIGITS / 2];
  uint32_t count = 0;
  if (!lines_bytes(line, nonce, (uint32_t)sizeof nonce, &count) || (count != (uint32_t)sizeof nonce) ||
      !lines_ended(line)) {
    return false;
  }
  session = boardsmith_crc32(nonce, sizeof nonce);
  has_outputs = false;
  lines_begin('=', line->number);
  put_identity(session);
  return true;
}

// Reads the session's word.
static bool is_session(lines_reader_t* line) {
  uint32_t word = 0;
  return lines_number(line, &word) && (session != 0U) && (word == session);
}

static bool do_in(lines_reader_t* line) {
  const standalone_model_t* const m = &standalone_model;
  uint32_t index = 0;
  uint32_t offset = 0;
  uint32_t count = 0;
  if ((m->has_samples != 0) || !is_session(line) || !lines_number(line, &index) || (index >= m->model->num_inputs) ||
      !lines_number(line, &offset) || (offset > m->model->tensors[index].size_bytes)) {
    return false;
  }
  const uint32_t left = m->model->tensors[index].size_bytes - offset;
  const uint32_t most = (left < (uint32_t)LINES_DATA_BYTES) ? left : (uint32_t)LINES_DATA_BYTES;
  uint8_t* const input = m->input_data[index];
  if (!lines_bytes(line, &input[offset], most, &count) || !lines_ended(line)) {
    return false;
  }
  lines_begin('=', line->number);
  lines_put("in");
  return true;
}

static bool do_run(lines_reader_t* line) {
  uint32_t times = 0;
  uint32_t budget_ms = 0;
  TVMValue budget;
  TVMValue ignored;
  int type = (int)kTVMArgInt;
  if (!is_session(line) || !lines_number(line, &times) || !lines_number(line, &budget_ms) || !lines_ended(line)) {
    return false;
  }
  budget.v_int64 = (int64_t)budget_ms;
  if (fault_budget_packed(&budget, &type, 1, &ignored, &type, NULL) != 0) {
    return false;
  }
  const outcome_t o = run_times(times);
  has_outputs = (times != 0U) && (o.error == 0);
  lines_begin('=', line->number);
  put_outcome(o);
  return true;
}

static bool do_out(lines_reader_t* line) {
  uint32_t index = 0;
  uint32_t offset = 0;
  const TVMModel* const m = standalone_model.model;
  if (!is_session(line) || !has_outputs || !lines_number(line, &index) || (index >= m->num_outputs) ||
      !lines_number(line, &offset) || (offset > m->tensors[m->num_inputs + index].size_bytes) || !lines_ended(line)) {
    return false;
  }
  lines_begin('=', line->number);
  put_output(index, offset);
  return true;
}

static bool do_model(const lines_reader_t* line) {
  if (!lines_ended(line)) {
    return false;
  }
  lines_begin('=', line->number);
  lines_put("model");
  lines_put_number(standalone_model.model->num_inputs, 4);
  lines_put_number(standalone_model.model->num_outputs, 4);
  lines_put_number((uint32_t)standalone_model.has_samples, 1);
  return true;
}

// Sends type and extents of an input or, after these, of an output.
static bool do_tensor(lines_reader_t* line) {
  uint32_t index = 0;
  const TVMModel* const m = standalone_model.model;
  if (!lines_number(line, &index) || (index >= ((uint32_t)m->num_inputs + m->num_outputs)) || !lines_ended(line)) {
    return false;
  }
  const TVMModelTensor* const t = &m->tensors[index];
  lines_begin('=', line->number);
  lines_put("tensor");
  lines_put_number(t->dtype.code, 2);
  lines_put_number(t->dtype.bits, 2);
  lines_put_number(t->dtype.lanes, 4);
  for (int32_t i = 0; i < t->ndim; i++) {
    lines_put_number((uint64_t)t->shape[i], 8);
  }
  return true;
}

// Sends the length of the fault record, 0 without one, and a part of it.
static bool do_fault(lines_reader_t* line) {
  uint32_t offset = 0;
  uint32_t length = 0;
  const uint8_t* const record = fault_record(&length);
  if (!lines_number(line, &offset) || (offset > length) || !lines_ended(line)) {
    return false;
  }
  const uint32_t left = length - offset;
  lines_begin('=', line->number);
  lines_put("fault");
  lines_put_number(length, 4);
  lines_put_bytes((record != NULL) ? &record[offset] : NULL,
                  (left < (uint32_t)LINES_DATA_BYTES) ? left : (uint32_t)LINES_DATA_BYTES);
  return true;
}

// Drops the record, which the host has received: the next fault may replace it.
static bool do_forget(const lines_reader_t* line) {
  TVMValue record;
  int type = 0;
  if (!lines_ended(line)) {
    return false;
  }
  (void)fault_packed(NULL, NULL, 0, &record, &type, NULL);  // without arguments it always succeeds
  lines_begin('=', line->number);
  lines_put("forget");
  return true;
}

// Sends the bytes of the stack used so far, and its size; 0 if unknown.
static bool do_stack(const lines_reader_t* line) {
  uint32_t size_bytes = 0;
  if (!lines_ended(line)) {
    return false;
  }
  const uint32_t used_bytes = stack_used(&size_bytes);
  lines_begin('=', line->number);
  lines_put("stack");
  lines_put_number(used_bytes, 8);
  lines_put_number(size_bytes, 8);
  return true;
}

// Sends the counter and its rate, and how far it runs during a number of instructions; 0 if that is unknown.
static bool do_clock(const lines_reader_t* line) {
  if (!lines_ended(line)) {
    return false;
  }
  boardsmith_port.ticks_align(boardsmith_port.ctx);
  const uint32_t counts = port_counts();
  lines_begin('=', line->number);
  lines_put("clock");
  lines_put_number(boardsmith_port.ticks(boardsmith_port.ctx), 16);
  lines_put_number(boardsmith_port.ticks_hz(boardsmith_port.ctx), 8);
  lines_put_number(PORT_COUNTED, 8);
  lines_put_number(counts, 8);
  return true;
}

static bool answered(lines_reader_t* line) {
  if (lines_word(line, "id")) {
    return do_id(line);
  }
  if (lines_word(line, "model")) {
    return do_model(line);
  }
  if (lines_word(line, "tensor")) {
    return do_tensor(line);
  }
  if (lines_word(line, "in")) {
    return do_in(line);
  }
  if (lines_word(line, "run")) {
    return do_run(line);
  }
  if (lines_word(line, "out")) {
    return do_out(line);
  }
  if (lines_word(line, "clock")) {
    return do_clock(line);
  }
  if (lines_word(line, "stack")) {
    return do_stack(line);
  }
  if (lines_word(line, "fault")) {
    return do_fault(line);
  }
  return lines_word(line, "forget") && do_forget(line);
}

// ---- The loop ----------------------------------------------------------------------------------------------------

static void flush(void) {
  if (boardsmith_port.flush(boardsmith_port.ctx) != 0) {
    boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_BROKEN, 0);
  }
}

static void take(const uint8_t* data, uint32_t size_bytes) {
  for (uint32_t i = 0; i < size_bytes; i++) {
    lines_reader_t line;
    if (lines_received(data[i], &line)) {
      if (!answered(&line)) {
        lines_begin('=', line.number);
        lines_put("no");
        lines_put((session != 0U) ? "request" : "session");
      }
      lines_end();
    }
  }
  flush();
}

// Runs the samples and sends the identity, the outcome and all outputs, without a request.
static void report(void) {
  lines_begin('!', 0);
  put_identity(0);
  lines_end();
  const outcome_t o = run_times(1);
  lines_begin('!', 0);
  put_outcome(o);
  lines_end();
  const TVMModel* const m = standalone_model.model;
  for (uint32_t i = 0; (i < m->num_outputs) && (o.error == 0); i++) {
    for (uint32_t at = 0; at < m->tensors[m->num_inputs + i].size_bytes; at += (uint32_t)LINES_DATA_BYTES) {
      lines_begin('!', 0);
      put_output(i, at);
      lines_end();
    }
  }
  flush();
}

// Drops lines of operators: there is no log.
void TVMLogf(const char* fmt, ...) { (void)fmt; }

int main(void) {
  uint32_t fault_bytes = 0;
  if (boardsmith_port.init(boardsmith_port.ctx) != 0) {
    boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_ABORT, (uint32_t)kTvmErrorPlatformCheckFailure);
  }
  stack_paint();
  (void)fault_record(&fault_bytes);
  lines_start();
  lines_begin('!', 0);
  lines_put((fault_bytes != 0U) ? "faulted" : "start");
  lines_end();
  flush();
  bool reports = (standalone_model.has_samples != 0) && (fault_bytes == 0U);
  for (;;) {
    uint8_t* data = NULL;
    const int32_t got = boardsmith_port.receive(boardsmith_port.ctx, &data, reports ? START_MS : PORT_FOREVER);
    if (got < 0) {
      boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_CLOSED, 0);
    }
    if ((got == 0) && reports) {
      report();
    }
    reports = false;
    take(data, (got > 0) ? (uint32_t)got : 0U);
  }
}

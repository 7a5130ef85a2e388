// The runtime of sim:cpu. A worker (an OS thread) runs one threadgroup at a time; each MSL thread of it is a fiber.
// Lanes of a simdgroup meet at simd operations and simdgroup barriers, all threads at threadgroup barriers.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define MAX_ARGS 31
#define MAX_THREADS 1024
#define LANES 32
#define SLOT 16 // bytes a lane hands over at a meeting: a vector of four 32-bit values

// One dispatch. Go fills it: struct op of cpu_op.go has the same layout.
struct op {
  void *kernel;
  struct trace *trace; // what to watch, or 0
  uint32_t groups[3], threads[3];
  uint32_t count; // threadgroups, the product of groups
  uint32_t level; // dispatches of equal level may run at the same time
  void *args[MAX_ARGS];
};

// A binding of a dispatch: Go's type is traceRange. The maps exist while the dispatch runs.
struct range {
  uintptr_t start;
  uint64_t length;
  uint64_t access; // ACCESS_IN, ACCESS_OUT or both
  uint64_t reads, writes; // unique bytes
  uint8_t *seen;
  uint32_t *writer; // 1 + the threadgroup that wrote the byte last, by a plain store
};
enum { ACCESS_IN = 1, ACCESS_OUT = 2 };

// What a dispatch may touch: Go's type is trace.
struct trace {
  uintptr_t image, image_size; // the kernel's library: its code, constants and threadgroup arrays
  uint64_t count;
  struct range ranges[MAX_ARGS];
};

// What is wrong with an access: failure.what.
enum { TRACE_MISALIGNED = 1, TRACE_OUTSIDE, TRACE_LOAD, TRACE_STORE, TRACE_FOREIGN };

int trace_begin(struct op *op);
void trace_end(struct op *op);

enum failure_code { FAIL_NONE, FAIL_BARRIER, FAIL_EXITED, FAIL_SITES, FAIL_TRACE, FAIL_MEMORY };

// The first thing that went wrong in a run. Go reads it: failure of cpu_op.go.
struct failure {
  uint32_t code, op, group[3], thread;
  uint64_t site, other; // lines of the source; FAIL_TRACE: the address of the code
  uint64_t address;     // of the access that FAIL_TRACE complains about
  uint32_t what, binding;
};

struct fiber {
  void *sp;
  uint32_t thread[3], index; // what sim_thread shows the kernel
  uint32_t exited, site;
};

struct simdgroup {
  uint32_t ready, arrived, full; // bit sets of lanes
  uint32_t parity;               // slots in use; the others may still be read
  uint32_t site;                 // where the lanes that have arrived wait
  char slots[2][LANES * SLOT] __attribute__((aligned(64)));
};

struct worker {
  struct fiber *current;
  uint32_t group[3], groups[3], threads[3]; // what sim_group shows the kernel
  struct op *op;
  uint32_t op_index;
  uint32_t ready;   // simdgroups with ready lanes
  uint32_t count;   // threads of the threadgroup
  uint32_t running; // of them not exited
  uint32_t waiting; // of them at the threadgroup barrier
  uint32_t barrier; // the barrier's site
  uint64_t random;  // 0: threads run in order
  void *home;       // stack pointer of the thread itself
  char *stacks;
  struct failure failure;
  struct simdgroup simd[MAX_THREADS / LANES];
  struct fiber fibers[MAX_THREADS];
};

extern __thread struct worker *self __attribute__((tls_model("initial-exec")));

struct worker *new_worker(void);
void run_group(struct worker *w, struct op *op, uint32_t group);
void fail(struct worker *w, uint32_t code, uint64_t site, uint64_t other) __attribute__((noreturn));
int is_private(struct worker *w, uintptr_t address); // of a stack, or of the runtime's own

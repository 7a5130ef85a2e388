// Calls that instrumented kernels make before each access to memory (instrument.go puts them in), and what they find out.
#include "sim.h"
#include <stdlib.h>

enum { READ = 1, WRITTEN = 2 };

// trace_begin makes the maps of op's ranges, one entry a byte; 0 when there is no memory for them.
int trace_begin(struct op *op) {
  struct trace *t = op->trace;
  for (uint32_t i = 0; t && i < t->count; i++) {
    struct range *r = &t->ranges[i];
    r->reads = r->writes = 0;
    r->seen = calloc(r->length, 1);
    r->writer = r->access & ACCESS_OUT ? calloc(r->length, sizeof *r->writer) : 0;
    if (!r->seen || ((r->access & ACCESS_OUT) && !r->writer)) return 0;
  }
  return 1;
}

// trace_end frees the maps; the numbers of bytes read and written stay.
void trace_end(struct op *op) {
  struct trace *t = op->trace;
  for (uint32_t i = 0; t && i < t->count; i++) {
    free(t->ranges[i].seen);
    free(t->ranges[i].writer);
    t->ranges[i].seen = 0, t->ranges[i].writer = 0;
  }
}

static void __attribute__((noreturn)) complain(struct worker *w, uint32_t what, uintptr_t at, uint32_t binding, void *site) {
  w->failure.what = what;
  w->failure.address = at;
  w->failure.binding = binding;
  fail(w, FAIL_TRACE, (uint64_t)site, 0);
}

// find returns the binding that holds [at, at+size) and allows access; 0 for memory that is not a binding's.
static struct range *find(struct worker *w, uintptr_t at, size_t size, uint32_t access, void *site) {
  struct trace *t = w->op->trace;
  struct range *forbidden = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    struct range *r = &t->ranges[i];
    if (at < r->start || size > r->length || at - r->start > r->length - size) continue;
    if ((r->access & access) == access) return r;
    forbidden = r;
  }
  if (forbidden) complain(w, access == ACCESS_OUT ? TRACE_STORE : TRACE_LOAD, at, (uint32_t)(forbidden - t->ranges), site);
  if (at - t->image < t->image_size) return 0; // threadgroup arrays and constants of the kernel's own
  complain(w, TRACE_OUTSIDE, at, 0, site);
}

static void mark(struct range *r, uintptr_t at, size_t size, uint8_t how) {
  uint8_t *seen = r->seen + (at - r->start);
  for (size_t i = 0; i < size; i++) {
    if (seen[i] & how) continue;
    seen[i] |= how;
    if (how == READ) r->reads++;
    else r->writes++;
  }
}

static uint32_t group_number(struct worker *w) {
  return w->group[0] + w->groups[0] * (w->group[1] + w->groups[1] * w->group[2]);
}

void sim_load(const void *p, size_t size, uint32_t align) {
  struct worker *w = self;
  uintptr_t at = (uintptr_t)p;
  if (!w->op->trace || is_private(w, at)) return;
  void *site = __builtin_return_address(0);
  if (at % align) complain(w, TRACE_MISALIGNED, at, align, site);
  struct range *r = find(w, at, size, ACCESS_IN, site);
  if (!r) return;
  if (r->writer)
    for (size_t i = 0; i < size; i++) {
      uint32_t by = r->writer[at - r->start + i];
      if (by && by != group_number(w) + 1) complain(w, TRACE_FOREIGN, at, (uint32_t)(r - w->op->trace->ranges), site);
    }
  mark(r, at, size, READ);
}

void sim_store(const void *p, size_t size, uint32_t align) {
  struct worker *w = self;
  uintptr_t at = (uintptr_t)p;
  if (!w->op->trace || is_private(w, at)) return;
  void *site = __builtin_return_address(0);
  if (at % align) complain(w, TRACE_MISALIGNED, at, align, site);
  struct range *r = find(w, at, size, ACCESS_OUT, site);
  if (!r) return;
  for (size_t i = 0; i < size; i++) r->writer[at - r->start + i] = group_number(w) + 1;
  mark(r, at, size, WRITTEN);
}

// sim_aligned comes before accesses to vectors, in code that is not optimised yet: later, parts may be all that is read.
void sim_aligned(const void *p, uint32_t align) {
  uintptr_t at = (uintptr_t)p;
  if (at % align && !is_private(self, at)) complain(self, TRACE_MISALIGNED, at, align, __builtin_return_address(0));
}

// An atomic may read what another threadgroup wrote.
void sim_atomic(const void *p, size_t size, uint32_t access) {
  struct worker *w = self;
  uintptr_t at = (uintptr_t)p;
  if (!w->op->trace || is_private(w, at)) return;
  void *site = __builtin_return_address(0);
  if (at % size) complain(w, TRACE_MISALIGNED, at, (uint32_t)size, site);
  struct range *r = find(w, at, size, access, site);
  if (!r) return;
  if (access & ACCESS_IN) mark(r, at, size, READ);
  if (access & ACCESS_OUT) mark(r, at, size, WRITTEN);
}

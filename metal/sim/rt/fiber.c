#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Stacks are apart by an odd number of cache lines, so that the tops of 32 lanes don't fall into one cache set.
#define STACK (64 * 1024 + 9 * 64)

__thread struct worker *self __attribute__((tls_model("initial-exec")));

// switch_to leaves this stack, its pointer in *save, and goes on where the stack at to was left. It is part of its caller
// and jumps, since the processor predicts neither calls nor returns that don't pair. The compiler saves what it needs of
// the registers; this file is compiled without a red zone.
static inline __attribute__((always_inline)) void switch_to(void **save, void *to) {
  __asm__ volatile("push %%rbp\n lea 1f(%%rip), %%rax\n push %%rax\n mov %%rsp, (%0)\n"
                   "mov %1, %%rsp\n pop %%rax\n jmp *%%rax\n1:\n pop %%rbp\n"
                   : "+D"(save), "+S"(to)
                   :
                   : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1",
                     "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

struct worker *new_worker(void) {
  struct worker *w = mmap(0, sizeof *w, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *stacks = mmap(0, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (w == MAP_FAILED || stacks == MAP_FAILED) return 0;
  madvise(stacks, (size_t)MAX_THREADS * STACK, MADV_HUGEPAGE); // switching between many small pages costs more than the memory
  w->stacks = stacks;
  return w;
}

int is_private(struct worker *w, uintptr_t address) {
  return address - (uintptr_t)w->stacks < (uintptr_t)MAX_THREADS * STACK || address - (uintptr_t)w < sizeof *w;
}

void fail(struct worker *w, uint32_t code, uint64_t site, uint64_t other) {
  struct failure *f = &w->failure;
  f->code = code;
  f->op = w->op_index;
  memcpy(f->group, w->group, sizeof f->group);
  f->thread = w->current->index;
  f->site = site;
  f->other = other;
  void *lost;
  switch_to(&lost, w->home); // the fibers are abandoned: run_group makes new ones
  abort();
}

static uint32_t draw(struct worker *w) { // xorshift64*
  uint64_t x = w->random;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  w->random = x;
  return (uint32_t)((x * 2685821657736338717ull) >> 32);
}

// pick is a set bit of bits: the lowest, or any in random order.
static inline uint32_t pick(struct worker *w, uint32_t bits) {
  if (w->random)
    for (uint32_t n = draw(w) % (uint32_t)__builtin_popcount(bits); n > 0; n--) bits &= bits - 1;
  return (uint32_t)__builtin_ctz(bits);
}

// stuck says why nobody can run although threads have not exited.
static void stuck(struct worker *w) {
  for (uint32_t g = 0; g * LANES < w->count; g++) {
    struct simdgroup *s = &w->simd[g];
    if (!s->arrived) continue;
    for (uint32_t l = 0; l < LANES; l++)
      if ((s->full >> l & 1) && w->fibers[g * LANES + l].exited) fail(w, FAIL_EXITED, s->site, 0);
    fail(w, FAIL_SITES, s->site, w->barrier);
  }
  fail(w, FAIL_BARRIER, w->barrier, 0);
}

// take makes a ready lane of a simdgroup the current one.
static inline struct fiber *take(struct worker *w, uint32_t g) {
  struct simdgroup *s = &w->simd[g];
  uint32_t lane = pick(w, s->ready);
  s->ready &= ~(1u << lane);
  if (!s->ready) w->ready &= ~(1u << g);
  return w->current = &w->fibers[g * LANES + lane];
}

// leave runs another ready thread until this one is ready and chosen. A thread of the same simdgroup is preferred in
// order: its data is in the cache.
static inline __attribute__((always_inline)) void leave(struct worker *w, struct fiber *f) {
  if (!w->ready) {
    if (w->running) stuck(w);
    switch_to(&f->sp, w->home);
    return;
  }
  uint32_t g = f->index / LANES;
  if (w->random || !w->simd[g].ready) g = pick(w, w->ready);
  struct fiber *next = take(w, g);
  if (next == f) return;
  switch_to(&f->sp, next->sp);
}

static void make_ready(struct worker *w, uint32_t group, uint32_t lanes) {
  w->simd[group].ready |= lanes;
  if (w->simd[group].ready) w->ready |= 1u << group;
}

// Kernels have at most 31 arguments, all pointers. A caller may pass more than a function takes on this ABI, so two
// forms serve all.
typedef void short_kernel(void *, void *, void *, void *, void *, void *);
typedef void long_kernel(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                         void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                         void *, void *, void *, void *, void *);

static void fiber_main(void) {
  struct worker *w = self;
  struct fiber *f = w->current;
  void **a = w->op->args;
  if (!a[6])
    ((short_kernel *)w->op->kernel)(a[0], a[1], a[2], a[3], a[4], a[5]);
  else
    ((long_kernel *)w->op->kernel)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
                                   a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27],
                                   a[28], a[29], a[30]);
  f->exited = 1;
  w->running--;
  leave(w, f);
  abort();
}

// start gives every thread of the threadgroup a fresh stack that begins in fiber_main.
static void start(struct worker *w) {
  const uint32_t *t = w->threads;
  w->running = w->count;
  w->waiting = w->ready = 0;
  w->barrier = 0;
  for (uint32_t i = 0; i < w->count; i++) {
    struct fiber *f = &w->fibers[i];
    f->index = i;
    f->exited = f->site = 0;
    f->thread[0] = i % t[0];
    f->thread[1] = i / t[0] % t[1];
    f->thread[2] = i / t[0] / t[1];
    void **sp = (void **)(((uintptr_t)w->stacks + (size_t)(i + 1) * STACK) & ~(uintptr_t)15);
    *--sp = 0; // a return address that is not used: fiber_main finds the stack aligned as after a call
    *--sp = (void *)fiber_main;
    f->sp = sp;
  }
  for (uint32_t g = 0; g * LANES < w->count; g++) {
    uint32_t lanes = w->count - g * LANES;
    struct simdgroup *s = &w->simd[g];
    s->arrived = s->parity = 0;
    s->site = 0;
    s->full = lanes >= LANES ? ~0u : (1u << lanes) - 1;
    s->ready = 0;
    make_ready(w, g, s->full);
  }
}

// run_group runs one threadgroup of op. What went wrong is in w->failure.
void run_group(struct worker *w, struct op *op, uint32_t group) {
  self = w;
  w->op = op;
  memcpy(w->groups, op->groups, sizeof w->groups);
  memcpy(w->threads, op->threads, sizeof w->threads);
  w->group[0] = group % op->groups[0];
  w->group[1] = group / op->groups[0] % op->groups[1];
  w->group[2] = group / op->groups[0] / op->groups[1];
  w->count = op->threads[0] * op->threads[1] * op->threads[2];
  start(w);
  struct fiber *first = take(w, pick(w, w->ready));
  switch_to(&w->home, first->sp);
}

// What kernels call. The header declares these.

// sim_site says on which line of the source the meeting or barrier is that follows. Only checked code calls it (ir.go): the
// address of a call won't do, since the compiler merges calls.
void sim_site(uint32_t line) { self->current->site = line; }

const void *sim_group(void) { return self->group; }
const void *sim_thread(void) { return self->current->thread; }
uint32_t sim_lane(void) { return self->current->index % LANES; }

void sim_threadgroup_barrier(void) {
  struct worker *w = self;
  struct fiber *f = w->current;
  if (w->waiting == 0) w->barrier = f->site;
  if (f->site != w->barrier) fail(w, FAIL_BARRIER, f->site, w->barrier);
  if (++w->waiting == w->count) {
    w->waiting = 0;
    for (uint32_t g = 0; g * LANES < w->count; g++) make_ready(w, g, w->simd[g].full);
  }
  leave(w, f);
}

// meet waits for all lanes of the simdgroup to come to the same place. The last calls fold, if there is one, on the slots.
static inline __attribute__((always_inline)) char *meet(const void *value, uint32_t size, void (*fold)(void *, uint32_t)) {
  struct worker *w = self;
  struct fiber *f = w->current;
  uint32_t lane = f->index % LANES, g = f->index / LANES;
  struct simdgroup *s = &w->simd[g];
  char *slots = s->slots[s->parity];
  if (size == 4) memcpy(slots + lane * SLOT, value, 4); // one move
  else memcpy(slots + lane * SLOT, value, size);
  if (!s->arrived) s->site = f->site;
  if (f->site != s->site) fail(w, FAIL_SITES, f->site, s->site);
  s->arrived |= 1u << lane;
  if (s->arrived == s->full) {
    if (fold) fold(slots, (uint32_t)__builtin_popcount(s->full));
    s->arrived = 0;
    s->parity ^= 1; // nobody is a whole meeting behind, so these slots are read before they are written again
    if (!w->random) {
      make_ready(w, g, s->full & ~(1u << lane));
      return slots;
    }
    make_ready(w, g, s->full);
  }
  leave(w, f);
  return slots;
}

void sim_simdgroup_barrier(void) { meet(0, 0, 0); }

// sim_exchange hands size bytes to the other lanes; the slots of all 32 are 16 bytes apart.
void *sim_exchange(const void *value, uint32_t size) { return meet(value, size, 0); }

// sim_fold is sim_exchange after fold has changed the slots of the given number of lanes.
void *sim_fold(const void *value, uint32_t size, void (*fold)(void *, uint32_t)) {
  return meet(value, size, fold);
}

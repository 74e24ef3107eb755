// failing_allocations.c - preloaded: makes chosen allocations of one thread fail.
//
// Requests for memory and for threads between fail_allocations() and stop_failing() are counted, and
// those numbered from first to last fail.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

#define OF_THIS_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THIS_THREAD long asked, failed, first_number, last_number;

void fail_allocations(long first, long last) {
  asked = failed = 0;
  first_number = first;
  last_number = last;
}

// The number of failures.
long stop_failing(void) {
  last_number = 0;
  return failed;
}

static int fails(void) {
  if (last_number == 0) return 0;
  ++asked;
  if (asked < first_number || asked > last_number) return 0;
  ++failed;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }

void *calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }

void *realloc(void *old, size_t bytes) {
  return bytes > 0 && fails() ? NULL : __libc_realloc(old, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
  return fails() ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **to, size_t alignment, size_t bytes) {
  void *made = memalign(alignment, bytes);
  if (made == NULL) return ENOMEM;
  *to = made;
  return 0;
}

void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  if (fails()) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, bytes, access, flags, file, offset);
}

typedef int Create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *made, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
  if (fails()) return EAGAIN;
  Create *create;
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  return create(made, attributes, run, argument);
}

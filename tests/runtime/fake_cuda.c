/* A CUDA driver in one file, so that the launcher's use of the real one is tested without a device: memory is the host's,
 * kernels are C functions of a library that the test names, graphs are lists of nodes. It is strict where the real one is: a call without a current context,
 * with memory that was not allocated, or with a stale handle fails. Built as a library named libcuda.so.1 when the test runs. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NO_BINARY = 209, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900 };

/* What the test reads and sets. */
struct fake_counts {
  int kernel_launches, graph_launches, graphs, patched_nodes, fills, live_allocations, live_host_allocations, live_modules, live_events,
      live_graphs, context_depth, primary_retained;
  long long live_bytes;
} fake_counts;
void* fake_kernels = 0;            /* from dlopen: tcc_v1_<name> computes, <name>_parameters is the number of its buffers */
const char* fake_failing_call = 0; /* the next call of that name fails */
int fake_capability = 90;
char fake_loaded_images[256]; /* first line of each image, in order */
void* const fake_capturing_stream = (void*)0x77;

static int fails(const char* name) {
  if (!fake_failing_call || strcmp(fake_failing_call, name)) return 0;
  fake_failing_call = 0;
  return 1;
}
/* One context; each thread has its own stack of it. */
static int context_object;
static __thread int depth_of_thread;
#define NEED_CONTEXT()                            \
  do {                                            \
    if (fails(__func__)) return INVALID_VALUE;    \
    if (!depth_of_thread) return INVALID_CONTEXT; \
  } while (0)

struct block {
  char* memory;
  size_t bytes;
};
static struct block blocks[64];
static int in_device(CUdeviceptr p, size_t bytes) {
  for (int i = 0; i < 64; i++) {
    if (blocks[i].memory && p >= (uintptr_t)blocks[i].memory && p + bytes <= (uintptr_t)blocks[i].memory + blocks[i].bytes) return 1;
  }
  return 0;
}

/* Memory of the host that kernels reach under the address they are given. */
static struct block host_blocks[16];
static int in_mapped(CUdeviceptr p, size_t bytes) {
  for (int i = 0; i < 16; i++) {
    if (host_blocks[i].memory && p >= (uintptr_t)host_blocks[i].memory &&
        p + bytes <= (uintptr_t)host_blocks[i].memory + host_blocks[i].bytes)
      return 1;
  }
  return 0;
}

struct function {
  char name[64];
  int parameters;
  void (*body)(void* const* buffers, int64_t begin, int64_t end);
};
static struct function functions[32];
static CUresult launch(struct function* f, unsigned grid, unsigned threads, uint64_t* p) {
  if (!f || !grid || !threads) return INVALID_VALUE;
  for (int i = 0; i < f->parameters; i++)
    if (!in_device(p[i], 4) && !in_mapped(p[i], 8)) return 700;
  f->body((void* const*)p, 0, grid);
  fake_counts.kernel_launches++;
  return OK;
}

CUresult cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }
CUresult cuDriverGetVersion(int* v) {
  *v = 12080;
  return OK;
}
CUresult cuGetErrorName(CUresult e, const char** s) {
  *s = e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}
CUresult cuGetErrorString(CUresult e, const char** s) {
  *s = e == OUT_OF_MEMORY ? "out of memory" : "invalid argument";
  return OK;
}
CUresult cuDeviceGetCount(int* n) {
  *n = 1;
  return OK;
}
CUresult cuDeviceGet(int* d, int ordinal) {
  *d = 5;
  return ordinal ? 101 : OK;
}
CUresult cuDeviceGetName(char* s, int n, int d) {
  (void)d;
  strncpy(s, "Fake GPU", n);
  return OK;
}
CUresult cuDeviceGetAttribute(int* v, int a, int d) {
  (void)d;
  *v = a == 75 ? fake_capability / 10 : a == 76 ? fake_capability % 10 : a == 97 ? 232448 : 0;
  return OK;
}
CUresult cuDevicePrimaryCtxRetain(void** c, int d) {
  if (d != 5) return INVALID_VALUE;
  *c = &context_object;
  fake_counts.primary_retained++;
  return OK;
}
CUresult cuDevicePrimaryCtxRelease(int d) {
  (void)d;
  fake_counts.primary_retained--;
  return OK;
}
CUresult cuCtxGetCurrent(void** c) {
  *c = depth_of_thread ? &context_object : 0;
  return OK;
}
CUresult cuCtxPushCurrent(void* c) {
  if (c != &context_object) return INVALID_CONTEXT;
  depth_of_thread++;
  __atomic_fetch_add(&fake_counts.context_depth, 1, __ATOMIC_SEQ_CST);
  return OK;
}
CUresult cuCtxPopCurrent(void** c) {
  if (!depth_of_thread) return INVALID_CONTEXT;
  depth_of_thread--;
  __atomic_fetch_sub(&fake_counts.context_depth, 1, __ATOMIC_SEQ_CST);
  *c = &context_object;
  return OK;
}
CUresult cuCtxGetDevice(int* d) {
  NEED_CONTEXT();
  *d = 5;
  return OK;
}
CUresult cuCtxSynchronize(void) {
  NEED_CONTEXT();
  return OK;
}
CUresult cuModuleLoadDataEx(void** m, const void* image, unsigned n, int* options, void** values) {
  NEED_CONTEXT();
  if (n != 2 || options[0] != 5 || options[1] != 6) return INVALID_VALUE;
  const char* text = image;
  if (strstr(text, "broken")) {
    strcpy(values[0], "ptxas fatal: broken");
    return NO_BINARY;
  }
  size_t line = strcspn(text, "\n");
  strncat(fake_loaded_images, text, line);
  strcat(fake_loaded_images, ";");
  *m = &functions;
  __atomic_fetch_add(&fake_counts.live_modules, 1, __ATOMIC_SEQ_CST);
  return OK;
}
CUresult cuModuleUnload(void* m) {
  NEED_CONTEXT();
  (void)m;
  fake_counts.live_modules--;
  return OK;
}
CUresult cuModuleGetFunction(void** f, void* m, const char* name) {
  NEED_CONTEXT();
  if (m != functions) return INVALID_VALUE;
  char symbol[160] = "tcc_v1_", *to = symbol + 7;
  for (const char* c = name; *c; c++) {
    *to++ = *c;
    if (*c == '_') *to++ = '_';
  }
  *to = 0;
  void* body = dlsym(fake_kernels, symbol);
  snprintf(symbol, sizeof symbol, "%s_parameters", name);
  int* parameters = dlsym(fake_kernels, symbol);
  for (int i = 0; body && parameters && i < 32; i++) {
    if (functions[i].body && strcmp(functions[i].name, name)) continue;
    snprintf(functions[i].name, sizeof functions[i].name, "%s", name);
    functions[i].parameters = *parameters;
    functions[i].body = body;
    *f = &functions[i];
    return OK;
  }
  return NOT_FOUND;
}
CUresult cuFuncSetAttribute(void* f, int a, int v) {
  NEED_CONTEXT();
  (void)f;
  return a == 8 && v <= 232448 ? OK : INVALID_VALUE;
}
CUresult cuFuncGetAttribute(int* v, int a, void* f) {
  NEED_CONTEXT();
  (void)f;
  *v = a == 0 ? 1024 : 32;
  return OK;
}
CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) {
  if (fails(__func__)) return OUT_OF_MEMORY;
  NEED_CONTEXT();
  for (int i = 0; i < 64; i++) {
    if (blocks[i].memory) continue;
    blocks[i].memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
    memset(blocks[i].memory, 0xee, bytes);
    blocks[i].bytes = bytes;
    *p = (uintptr_t)blocks[i].memory;
    fake_counts.live_allocations++;
    fake_counts.live_bytes += bytes;
    return OK;
  }
  return OUT_OF_MEMORY;
}
CUresult cuMemFree(CUdeviceptr p) {
  NEED_CONTEXT();
  for (int i = 0; i < 64; i++) {
    if (blocks[i].memory && (uintptr_t)blocks[i].memory == p) {
      free(blocks[i].memory);
      fake_counts.live_bytes -= blocks[i].bytes;
      blocks[i].memory = 0;
      fake_counts.live_allocations--;
      return OK;
    }
  }
  return INVALID_VALUE;
}
CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  NEED_CONTEXT();
  if (flags != 2) return INVALID_VALUE; /* mapped */
  for (int i = 0; i < 16; i++) {
    if (host_blocks[i].memory) continue;
    *p = host_blocks[i].memory = malloc(bytes);
    memset(*p, 0xee, bytes);
    host_blocks[i].bytes = bytes;
    fake_counts.live_host_allocations++;
    return OK;
  }
  return OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void* p) {
  NEED_CONTEXT();
  for (int i = 0; i < 16; i++) {
    if (!p || host_blocks[i].memory != p) continue;
    free(p);
    host_blocks[i].memory = 0;
    fake_counts.live_host_allocations--;
    return OK;
  }
  return INVALID_VALUE;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* d, void* p, unsigned flags) {
  NEED_CONTEXT();
  for (int i = 0; i < 16; i++) {
    if (!p || host_blocks[i].memory != p || flags) continue;
    *d = (uintptr_t)p;
    return OK;
  }
  return INVALID_VALUE;
}
CUresult cuMemcpyHtoD(CUdeviceptr d, const void* s, size_t n) {
  NEED_CONTEXT();
  if (!in_device(d, n)) return INVALID_VALUE;
  memcpy((void*)d, s, n);
  return OK;
}
CUresult cuMemcpyDtoH(void* d, CUdeviceptr s, size_t n) {
  NEED_CONTEXT();
  if (!in_device(s, n)) return INVALID_VALUE;
  memcpy(d, (void*)s, n);
  return OK;
}
CUresult cuMemcpyDtoD(CUdeviceptr d, CUdeviceptr s, size_t n) {
  NEED_CONTEXT();
  if (!in_device(s, n) || !in_device(d, n)) return INVALID_VALUE;
  memcpy((void*)d, (void*)s, n);
  return OK;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void* s, size_t n, void* stream) {
  (void)stream;
  return cuMemcpyHtoD(d, s, n);
}
CUresult cuMemcpyDtoHAsync(void* d, CUdeviceptr s, size_t n, void* stream) {
  (void)stream;
  return cuMemcpyDtoH(d, s, n);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, void* stream) {
  (void)stream;
  return cuMemcpyDtoD(d, s, n);
}
static CUresult fill(CUdeviceptr d, uint32_t v, size_t width, size_t n) {
  fake_counts.fills++;
  if (!in_device(d, n * width)) return INVALID_VALUE;
  for (size_t i = 0; i < n; i++) memcpy((char*)d + i * width, &v, width);
  return OK;
}
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, void* s) {
  NEED_CONTEXT();
  if (s == fake_capturing_stream) {
    fake_counts.fills++;
    return OK;
  }
  return fill(d, v, 1, n);
}
CUresult cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, void* s) {
  NEED_CONTEXT();
  if (s == fake_capturing_stream) {
    fake_counts.fills++;
    return OK;
  }
  return fill(d, v, 2, n);
}
CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, void* s) {
  NEED_CONTEXT();
  if (s == fake_capturing_stream) {
    fake_counts.fills++;
    return OK;
  }
  return fill(d, v, 4, n);
}

struct kernel_params {
  struct function* f;
  unsigned gx, gy, gz, bx, by, bz, shared;
  void** params;
  void** extra;
};
struct memcpy3d {
  size_t sx, sy, sz, sl;
  int st;
  const void* sh;
  CUdeviceptr sd;
  void* sa;
  void* r0;
  size_t sp, sht;
  size_t dx, dy, dz, dl;
  int dt;
  void* dh;
  CUdeviceptr dd;
  void* da;
  void* r1;
  size_t dp, dht, w, h, d;
};
struct memset_params {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
};
struct node {
  int kind;
  struct kernel_params k;
  uint64_t arguments[8];
  struct memcpy3d c;
  struct memset_params s;
};
struct graph {
  int count;
  struct node nodes[32];
};

CUresult cuLaunchKernel(struct function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        void* stream, void** p, void** e) {
  NEED_CONTEXT();
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || e) return INVALID_VALUE;
  if (stream == fake_capturing_stream) {
    fake_counts.kernel_launches++;
    return OK;
  }
  uint64_t arguments[8];
  for (int i = 0; i < f->parameters; i++) arguments[i] = *(uint64_t*)p[i];
  return launch(f, gx, bx, arguments);
}
CUresult cuStreamSynchronize(void* s) {
  NEED_CONTEXT();
  return s == fake_capturing_stream ? CAPTURE_UNSUPPORTED : OK;
}
CUresult cuStreamIsCapturing(void* s, int* status) {
  NEED_CONTEXT();
  *status = s == fake_capturing_stream;
  return OK;
}
CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  static int current = 0;
  int old = current;
  current = *mode;
  *mode = old;
  return OK;
}
CUresult cuEventCreate(void** e, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  *e = malloc(1);
  fake_counts.live_events++;
  return OK;
}
CUresult cuEventDestroy(void* e) {
  NEED_CONTEXT();
  free(e);
  fake_counts.live_events--;
  return OK;
}
CUresult cuEventRecord(void* e, void* s) {
  NEED_CONTEXT();
  (void)e;
  (void)s;
  return OK;
}
CUresult cuEventSynchronize(void* e) {
  NEED_CONTEXT();
  (void)e;
  return OK;
}
CUresult cuEventElapsedTime(float* ms, void* a, void* b) {
  NEED_CONTEXT();
  *ms = a != b ? 0.25f : 0;
  return OK;
}

static CUresult set_kernel(struct node* n, const struct kernel_params* p) {
  n->kind = 1;
  n->k = *p;
  for (int i = 0; i < p->f->parameters; i++) n->arguments[i] = *(uint64_t*)p->params[i];
  return p->gy == 1 && p->gz == 1 && p->by == 1 && p->bz == 1 && !p->extra ? OK : INVALID_VALUE;
}
static CUresult set_copy(struct node* n, const struct memcpy3d* p, void* context) {
  n->kind = 2;
  n->c = *p;
  return context == &context_object && p->st == 2 && p->dt == 2 && p->h == 1 && p->d == 1 && p->sp >= p->w && p->dp >= p->w ? OK
                                                                                                                            : INVALID_VALUE;
}
static CUresult set_fill(struct node* n, const struct memset_params* p, void* context) {
  n->kind = 3;
  n->s = *p;
  return context == &context_object && p->height == 1 && p->element <= 4 ? OK : INVALID_VALUE;
}
static struct node* add_node(struct graph* g, struct node* const* dependencies, size_t n) {
  /* A chain is what is expected. */
  if (n != (g->count ? 1u : 0u) || (n && dependencies[0] != &g->nodes[g->count - 1])) return 0;
  return &g->nodes[g->count++];
}
CUresult cuGraphCreate(struct graph** g, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  *g = calloc(1, sizeof **g);
  fake_counts.live_graphs++;
  return OK;
}
CUresult cuGraphDestroy(struct graph* g) {
  NEED_CONTEXT();
  free(g);
  fake_counts.live_graphs--;
  return OK;
}
CUresult cuGraphAddKernelNode(struct node** n, struct graph* g, struct node* const* d, size_t nd, const struct kernel_params* p) {
  NEED_CONTEXT();
  return (*n = add_node(g, d, nd)) ? set_kernel(*n, p) : INVALID_VALUE;
}
CUresult cuGraphAddMemcpyNode(struct node** n, struct graph* g, struct node* const* d, size_t nd, const struct memcpy3d* p, void* c) {
  NEED_CONTEXT();
  return (*n = add_node(g, d, nd)) ? set_copy(*n, p, c) : INVALID_VALUE;
}
CUresult cuGraphAddMemsetNode(struct node** n, struct graph* g, struct node* const* d, size_t nd, const struct memset_params* p, void* c) {
  NEED_CONTEXT();
  return (*n = add_node(g, d, nd)) ? set_fill(*n, p, c) : INVALID_VALUE;
}
/* The executable graph remembers its source to find the counterpart of a node. */
struct exec {
  struct graph* source;
  struct graph copy;
};
CUresult cuGraphInstantiateWithFlags(struct exec** e, struct graph* g, unsigned long long flags) {
  NEED_CONTEXT();
  if (flags) return INVALID_VALUE;
  *e = malloc(sizeof **e);
  (*e)->source = g;
  (*e)->copy = *g;
  fake_counts.graphs++;
  fake_counts.live_graphs++;
  return OK;
}
CUresult cuGraphExecDestroy(struct exec* e) {
  NEED_CONTEXT();
  free(e);
  fake_counts.live_graphs--;
  return OK;
}
CUresult cuGraphUpload(struct exec* e, void* s) {
  NEED_CONTEXT();
  (void)e;
  (void)s;
  return OK;
}
static struct node* counterpart(struct exec* e, struct node* n) {
  fake_counts.patched_nodes++;
  return &e->copy.nodes[n - e->source->nodes];
}
CUresult cuGraphExecKernelNodeSetParams(struct exec* e, struct node* n, const struct kernel_params* p) {
  NEED_CONTEXT();
  return n->kind == 1 ? set_kernel(counterpart(e, n), p) : INVALID_VALUE;
}
CUresult cuGraphExecMemcpyNodeSetParams(struct exec* e, struct node* n, const struct memcpy3d* p, void* c) {
  NEED_CONTEXT();
  return n->kind == 2 ? set_copy(counterpart(e, n), p, c) : INVALID_VALUE;
}
CUresult cuGraphExecMemsetNodeSetParams(struct exec* e, struct node* n, const struct memset_params* p, void* c) {
  NEED_CONTEXT();
  return n->kind == 3 ? set_fill(counterpart(e, n), p, c) : INVALID_VALUE;
}
CUresult cuGraphLaunch(struct exec* e, void* stream) {
  NEED_CONTEXT();
  if (stream == fake_capturing_stream) return CAPTURE_UNSUPPORTED;
  fake_counts.graph_launches++;
  for (int i = 0; i < e->copy.count; i++) {
    struct node* n = &e->copy.nodes[i];
    CUresult r = n->kind == 1   ? launch(n->k.f, n->k.gx, n->k.bx, n->arguments)
                 : n->kind == 2 ? cuMemcpyDtoD(n->c.dd, n->c.sd, n->c.w)
                                : fill(n->s.dst, n->s.value, n->s.element, n->s.width);
    if (r) return r;
  }
  return OK;
}

#define ENTRY(name) {#name, (void*)name}
CUresult cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  static const struct {
    const char* name;
    void* function;
  } table[] = {ENTRY(cuInit),
               ENTRY(cuDriverGetVersion),
               ENTRY(cuGetErrorName),
               ENTRY(cuGetErrorString),
               ENTRY(cuDeviceGetCount),
               ENTRY(cuDeviceGet),
               ENTRY(cuDeviceGetName),
               ENTRY(cuDeviceGetAttribute),
               ENTRY(cuDevicePrimaryCtxRetain),
               ENTRY(cuDevicePrimaryCtxRelease),
               ENTRY(cuCtxGetCurrent),
               ENTRY(cuCtxPushCurrent),
               ENTRY(cuCtxPopCurrent),
               ENTRY(cuCtxGetDevice),
               ENTRY(cuCtxSynchronize),
               ENTRY(cuModuleLoadDataEx),
               ENTRY(cuModuleUnload),
               ENTRY(cuModuleGetFunction),
               ENTRY(cuFuncSetAttribute),
               ENTRY(cuFuncGetAttribute),
               ENTRY(cuMemAlloc),
               ENTRY(cuMemFree),
               ENTRY(cuMemHostAlloc),
               ENTRY(cuMemFreeHost),
               ENTRY(cuMemHostGetDevicePointer),
               ENTRY(cuMemcpyHtoD),
               ENTRY(cuMemcpyDtoH),
               ENTRY(cuMemcpyDtoD),
               ENTRY(cuMemcpyHtoDAsync),
               ENTRY(cuMemcpyDtoHAsync),
               ENTRY(cuMemcpyDtoDAsync),
               ENTRY(cuMemsetD8Async),
               ENTRY(cuMemsetD16Async),
               ENTRY(cuMemsetD32Async),
               ENTRY(cuLaunchKernel),
               ENTRY(cuStreamSynchronize),
               ENTRY(cuStreamIsCapturing),
               ENTRY(cuThreadExchangeStreamCaptureMode),
               ENTRY(cuEventCreate),
               ENTRY(cuEventDestroy),
               ENTRY(cuEventRecord),
               ENTRY(cuEventSynchronize),
               ENTRY(cuEventElapsedTime),
               ENTRY(cuGraphCreate),
               ENTRY(cuGraphDestroy),
               ENTRY(cuGraphAddKernelNode),
               ENTRY(cuGraphAddMemcpyNode),
               ENTRY(cuGraphAddMemsetNode),
               ENTRY(cuGraphInstantiateWithFlags),
               ENTRY(cuGraphExecKernelNodeSetParams),
               ENTRY(cuGraphExecMemcpyNodeSetParams),
               ENTRY(cuGraphExecMemsetNodeSetParams),
               ENTRY(cuGraphExecDestroy),
               ENTRY(cuGraphUpload),
               ENTRY(cuGraphLaunch)};
  if (version != 11040 || flags) return INVALID_VALUE;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (!strcmp(table[i].name, name)) {
      *function = table[i].function;
      return OK;
    }
  }
  return NOT_FOUND;
}

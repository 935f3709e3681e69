/* The C interface of every library that tcc makes. Plain C11, no dependency, stable: see TCC_ABI_VERSION.
 *
 * A library exports one function, <prefix>_query (and the same as tcc_model_query), which returns a table of functions:
 *
 *   const tcc_api* api = tcc_model_query(TCC_ABI_VERSION);
 *   tcc_create_options options = {.struct_size = sizeof options};            // device auto: CUDA when there is one, else the CPU
 *   tcc_instance* instance;
 *   if (api->create(&options, &instance)) puts(api->last_error());
 *   if (api->run(instance, inputs, 1, outputs, 1, NULL, 0, NULL)) puts(api->last_error());
 *   api->destroy(instance);
 *
 * Rules that hold for all of it:
 *  - Functions return TCC_OK (0) or another tcc_status; api->last_error() then is the message of the calling thread.
 *  - A struct that is handed over begins with struct_size, set by the caller to sizeof of the struct it was compiled with.
 *    Unset fields are zero, which always means the default. Reserved fields must be zero.
 *  - One thread at a time per instance; any number of instances, from any threads.
 *  - The library does not change: weights are read-only and shared by all instances of a process (on CUDA: one copy per instance).
 */
#ifndef TCC_RUNTIME_RUNTIME_H
#define TCC_RUNTIME_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or field is added at the end (older callers keep working); query() refuses a version it does not know. */
#define TCC_ABI_VERSION 1u

typedef enum tcc_status {
  TCC_OK = 0,
  TCC_INVALID_ARGUMENT = 1, /* a tensor or option that does not fit the model; nothing was run */
  TCC_NO_DEVICE = 2,        /* the device asked for is not there, or the library has no code for it */
  TCC_OUT_OF_MEMORY = 3,
  TCC_DRIVER_ERROR = 4,  /* the CUDA driver refused a call; the message names the call, the error and the kernel */
  TCC_FILE_ERROR = 5,    /* the weights file cannot be read or does not belong to this library */
  TCC_INTERNAL_ERROR = 6 /* the library itself is damaged */
} tcc_status;

/* Element types. Little endian; sub-byte types are packed two per byte, low nibble first. */
typedef enum tcc_dtype {
  TCC_F32 = 0,
  TCC_F64 = 1,
  TCC_F16 = 2,
  TCC_BF16 = 3,
  TCC_I8 = 4,
  TCC_I16 = 5,
  TCC_I32 = 6,
  TCC_I64 = 7,
  TCC_U8 = 8,
  TCC_U16 = 9,
  TCC_U32 = 10,
  TCC_U64 = 11,
  TCC_BOOL = 12,
  TCC_F8E4M3FN = 13,
  TCC_F8E4M3FNUZ = 14,
  TCC_F8E5M2 = 15,
  TCC_F8E5M2FNUZ = 16,
  TCC_I4 = 17,
  TCC_U4 = 18
} tcc_dtype;

typedef enum tcc_device {
  TCC_DEVICE_AUTO = 0, /* create only: CUDA when the library has code for it and a driver and device are there, else the CPU */
  TCC_DEVICE_CPU = 1,  /* for a tensor: memory of the host */
  TCC_DEVICE_CUDA = 2  /* for a tensor: memory of the instance's CUDA device */
} tcc_device;

typedef enum tcc_log_level { TCC_LOG_INFO = 0, TCC_LOG_WARNING = 1 } tcc_log_level;

typedef struct tcc_instance tcc_instance;

/* A tensor handed to run(). The library reads inputs and writes outputs in place and keeps no pointer after the call, except that
 * on a stream the work may still be going on: the memory must stay until the stream has passed it. */
typedef struct tcc_tensor {
  void* data;
  const int64_t* shape;   /* `rank` extents; may be NULL for rank 0 */
  const int64_t* strides; /* in elements; NULL: dense and row-major, which is what the library takes */
  int32_t rank;
  int32_t dtype;          /* tcc_dtype */
  int32_t device;         /* tcc_device; 0 counts as TCC_DEVICE_CPU */
  int32_t device_ordinal; /* of a CUDA tensor */
  uint64_t reserved[2];
} tcc_tensor;

/* An input or output as the model declares it. Strings and shape belong to the library. */
typedef struct tcc_tensor_info {
  uint32_t struct_size;
  int32_t dtype;
  const char* name;
  const int64_t* shape;
  int32_t rank;
  int32_t reserved0;
  uint64_t size_bytes;
  uint64_t reserved[4];
} tcc_tensor_info;

typedef struct tcc_model_info {
  uint32_t struct_size;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t num_weights;
  const char* name;
  uint64_t weights_bytes;
  uint32_t weights_embedded; /* 0: create() needs weights_path */
  uint32_t has_cpu;          /* which targets the library was compiled for */
  uint32_t has_cuda;
  uint32_t reserved0;
  uint64_t reserved[4];
} tcc_model_info;

typedef struct tcc_create_options {
  uint32_t struct_size;
  int32_t device;           /* tcc_device */
  int32_t device_ordinal;   /* CUDA: which device */
  int32_t num_threads;      /* CPU: threads that take part in a run, the caller's included; 0: the CPUs this process may use */
  void* cuda_context;       /* a CUcontext to work in; NULL: the device's primary context */
  const char* weights_path; /* only for a library compiled with its weights apart */
  /* Messages that are no errors: the device chosen and why. NULL: none. May be called only inside create(). */
  void (*log)(void* user, int32_t level, const char* message);
  void* log_user;
  /* Host memory of the instance. Both or neither. The block must be aligned to `alignment` (a power of two up to 4096). */
  void* (*allocate)(void* user, size_t size_bytes, size_t alignment);
  void (*deallocate)(void* user, void* block, size_t size_bytes);
  void* allocator_user;
  uint32_t no_cuda_graph; /* 1: launch each kernel by itself */
  uint32_t reserved0;
  uint64_t reserved[6];
} tcc_create_options;

typedef struct tcc_instance_info {
  uint32_t struct_size;
  int32_t device; /* TCC_DEVICE_CPU or TCC_DEVICE_CUDA */
  int32_t device_ordinal;
  int32_t num_threads;
  const char* device_name;   /* "NVIDIA H200 (compute capability 9.0)", "CPU, x86-64-v3, 8 threads" */
  const char* device_reason; /* why this one: "asked for", "libcuda.so.1 not found", ... */
  uint64_t workspace_bytes;  /* what run() takes as workspace: the planned peak of all intermediate values */
  uint64_t workspace_alignment;
  uint64_t weights_bytes;
  uint32_t num_launches;
  uint32_t num_kernels;
  uint64_t reserved[4];
} tcc_instance_info;

/* One step of the plan, for profiles. Strings belong to the library. */
typedef struct tcc_launch_info {
  uint32_t struct_size;
  uint32_t reserved0;
  const char* label;  /* the model's own node names */
  const char* kernel; /* kernel name; "copy" or "fill" for those */
  uint64_t grid;      /* thread blocks on CUDA, parallel items on the CPU */
  uint64_t reserved[4];
} tcc_launch_info;

typedef struct tcc_timing {
  uint32_t struct_size;
  uint32_t reserved0;
  double host_us;   /* inside run() on the caller's thread, waiting not included */
  double device_us; /* CUDA: between two events around the work on the stream; CPU: equal to host_us */
  uint64_t reserved[4];
} tcc_timing;

typedef struct tcc_api {
  uint32_t struct_size;
  uint32_t abi_version;

  /* The message of the last failure in this thread; never NULL, valid until this thread's next failing call. */
  const char* (*last_error)(void);

  int (*model_info)(tcc_model_info* info);
  int (*describe_input)(uint32_t index, tcc_tensor_info* info);
  int (*describe_output)(uint32_t index, tcc_tensor_info* info);

  /* Finds the device, loads the kernels, copies weights to a CUDA device, starts the threads of a CPU instance. */
  int (*create)(const tcc_create_options* options, tcc_instance** instance);
  /* Waits for the instance's own work on a CUDA device, then frees everything. NULL is allowed. */
  void (*destroy)(tcc_instance* instance);
  int (*instance_info)(tcc_instance* instance, tcc_instance_info* info);
  int (*describe_launch)(tcc_instance* instance, uint32_t index, tcc_launch_info* info);

  /* Runs the model once.
   * inputs, outputs: all of them, in the model's order. Dtype, rank, shape, strides and device are checked first; when one does not
   *   fit nothing is run. Outputs must not overlap inputs or each other.
   * workspace: instance_info.workspace_bytes of the instance's device, aligned to workspace_alignment, or NULL: the instance's own,
   *   allocated by the first run. After the first run nothing is allocated (a first run with host tensors on a CUDA instance
   *   also allocates their staging).
   * stream: a CUstream of the instance's context (cast), NULL the default stream; ignored on the CPU.
   * On the CPU the outputs are ready on return. On CUDA the work is ordered on the stream and not waited for, unless a host tensor is
   *   among the arguments: then it is copied on the stream and run() returns when the outputs are ready. Runs of one instance must not
   *   overlap in time, as they share the workspace. While the stream is capturing, the kernels become part of that capture. */
  int (*run)(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
             void* workspace, uint64_t workspace_bytes, void* stream);
  /* The same, then waits for it, and tells how long it took. */
  int (*run_timed)(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
                   void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing);
  /* Runs launch by launch with a clock around each; writes num_launches times in microseconds. Slower than run() by what that costs. */
  int (*profile)(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
                 void* workspace, uint64_t workspace_bytes, void* stream, double* launch_us, uint32_t num_launches);

  /* Memory of the instance's device for callers without a CUDA library of their own; on a CPU instance it is host memory. */
  int (*allocate)(tcc_instance* instance, uint64_t size_bytes, void** memory);
  int (*deallocate)(tcc_instance* instance, void* memory);
  /* Copies and waits. The devices are tcc_device. */
  int (*copy)(tcc_instance* instance, void* destination, int32_t destination_device, const void* source, int32_t source_device,
              uint64_t size_bytes);
  /* Waits for the stream (NULL: the default stream). */
  int (*synchronize)(tcc_instance* instance, void* stream);
} tcc_api;

/* NULL when the library does not speak that version. */
typedef const tcc_api* (*tcc_query_function)(uint32_t abi_version);
const tcc_api* tcc_model_query(uint32_t abi_version);

#ifdef __cplusplus
}
#endif
#endif

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
 *    Unset fields are zero, which always means the default. Reserved fields must be zero; others are refused.
 *  - One thread at a time per instance; any number of instances, from any threads. A second thread that comes while the first runs, or
 *    reads or writes state, is refused.
 *  - Destroy all instances before dlclose. One that is left can't be used any more, but does no harm: its threads are ended.
 *  - The library does not change: weights are read-only and shared by all instances of a process (on CUDA: one copy per instance).
 *
 * A library has one or more functions; run() runs the first. A library for training (tcc --mode=train) has
 *   infer                      the model, with the parameters as they are now; so run() infers
 *   step                       forward, backward and update on one batch; returns the loss. step() below calls it
 *   accumulate                 with --accumulate=K: a step that adds to the gradients; step() calls it for all but the last of K micro-batches
 *   forward, backward, update  the same in parts: forward returns the loss and the tensor `saved`, which backward takes; backward leaves the
 *                              gradients in the state; update applies them
 * and each instance has state: parameters, gradients, what the optimizer keeps, running statistics. State is addressed by name, and as flat
 * buffers (sections): all tensors of one role and dtype in one piece, so that one all-reduce averages all gradients. Scalars, such as the
 * learning rate `lr`, are set between runs.
 */
#ifndef TCC_RUNTIME_RUNTIME_H
#define TCC_RUNTIME_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or field is added at the end (older callers keep working); query() refuses a version it does not know. */
#define TCC_ABI_VERSION 3u

typedef enum tcc_status {
  TCC_OK = 0,
  TCC_INVALID_ARGUMENT = 1, /* a tensor or option that does not fit the model, an instance that is in use or destroyed; nothing was run */
  TCC_NO_DEVICE = 2,        /* the device asked for is not there, or the library has no code for it */
  TCC_OUT_OF_MEMORY = 3,
  TCC_DRIVER_ERROR = 4,    /* the CUDA driver refused a call; the message names the call, the error and the kernel */
  TCC_FILE_ERROR = 5,      /* a file of weights or state cannot be read or written, or does not belong to this library */
  TCC_DAMAGED_LIBRARY = 6, /* its program, code or weights are not what the compiler wrote */
  TCC_INTERNAL_ERROR = 6,  /* the same, as it was called before version 3 */
  /* Since version 3. A run has read an index (of a gather, a scatter, an embedding, a class of a loss) that is out of range. The message names
   * the input, the index, the op and what is valid. See run(). */
  TCC_INDEX_OUT_OF_RANGE = 7
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
  /* 1: the elements of this input serve as indices, classes or lengths, for which low to high are valid (both included; negative indices,
   * which may be valid too, and the ignore_index of a loss are left out). 0: nothing is known. */
  int32_t has_range;
  uint64_t size_bytes;
  int64_t low, high;
  uint64_t reserved[2];
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
  uint32_t num_functions; /* num_inputs and num_outputs are those of the first */
  uint32_t num_state_tensors;
  uint32_t num_sections;
  uint32_t num_scalars;
  uint32_t accumulate; /* calls of step() that make one update; 1 without --accumulate */
  uint64_t reserved[2];
} tcc_model_info;

typedef struct tcc_create_options {
  uint32_t struct_size;
  int32_t device;           /* tcc_device */
  int32_t device_ordinal;   /* CUDA: which device */
  int32_t num_threads;      /* CPU: threads that take part in a run, the caller's included; 0: the CPUs this process may use */
  void* cuda_context;       /* a CUcontext to work in; NULL: the device's primary context */
  const char* weights_path; /* only for a library compiled with its weights apart */
  /* Messages that are not errors: the device chosen and why. NULL: none. Called only inside create() and load_state(). */
  void (*log)(void* user, int32_t level, const char* message);
  void* log_user;
  /* Host memory of the instance. Both or neither. The block must be aligned to `alignment` (a power of two up to 4096). */
  void* (*allocate)(void* user, size_t size_bytes, size_t alignment);
  void (*deallocate)(void* user, void* block, size_t size_bytes);
  void* allocator_user;
  uint32_t no_cuda_graph; /* 1: launch each kernel by itself */
  /* Since version 3. 1: create() reads all weights and fails when they are not those that the compiler wrote. */
  uint32_t check_weights;
  /* Since version 3, in the place of weights_path: the contents of the weights file, all of them, at a multiple of 64. They stay the
   * caller's, and where they are until the instance is destroyed. */
  const void* weights_data;
  uint64_t weights_data_bytes;
  uint32_t no_index_check; /* since version 3. 1: never report TCC_INDEX_OUT_OF_RANGE */
  uint32_t reserved0;
  uint64_t reserved[3];
} tcc_create_options;

typedef struct tcc_instance_info {
  uint32_t struct_size;
  int32_t device; /* TCC_DEVICE_CPU or TCC_DEVICE_CUDA */
  int32_t device_ordinal;
  int32_t num_threads;
  const char* device_name;   /* "NVIDIA H200 (compute capability 9.0)", "CPU, x86-64-v3, 8 threads" */
  const char* device_reason; /* why this one: "asked for", "libcuda.so.1 not found", ... */
  uint64_t workspace_bytes;  /* what run() takes as workspace: the planned peak of all intermediate values of the first function */
  uint64_t workspace_alignment;
  uint64_t weights_bytes;
  uint32_t num_launches;   /* of the first function */
  uint32_t num_kernels;    /* of all functions */
  uint64_t state_bytes;    /* block of parameters, optimizer, statistics and scalars; allocated by create() */
  uint64_t gradient_bytes; /* block of gradients; allocated when a function that uses it first runs, or somebody asks for its address */
  uint64_t prepared_bytes; /* block of what create() makes of weights, such as other layouts of them */
  uint64_t reserved[1];
} tcc_instance_info;

typedef struct tcc_function_info {
  uint32_t struct_size;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t uses_gradients; /* it reads or writes the block of gradients */
  const char* name;
  uint64_t workspace_bytes; /* what call() takes as workspace */
  uint64_t workspace_alignment;
  uint64_t
      planned_peak_bytes; /* all that the instance allocates on its device to run this function: weights, what is made of them, state, workspace */
  uint32_t num_launches;
  uint32_t reserved0;
  uint64_t reserved[4];
} tcc_function_info;

typedef enum tcc_state_role {
  TCC_STATE_PARAMETER = 0,
  TCC_STATE_GRADIENT = 1,
  TCC_STATE_OPTIMIZER = 2,
  TCC_STATE_STATISTIC = 3, /* of a batch norm that learns them */
  TCC_STATE_BUFFER = 4     /* of the model, which changes it when it runs */
} tcc_state_role;

/* A tensor of the state. Its address is that of its section plus `offset`. */
typedef struct tcc_state_info {
  uint32_t struct_size;
  int32_t dtype;
  const char* name; /* the model's own; grad.<parameter>; optimizer.<slot>.<parameter> */
  const int64_t* shape;
  int32_t rank;
  int32_t role;     /* tcc_state_role */
  uint32_t section; /* index */
  uint32_t trained; /* parameters: 0 when frozen */
  uint64_t offset;  /* in bytes, a multiple of 256 */
  uint64_t size_bytes;
  uint64_t reserved[4];
} tcc_state_info;

/* All tensors of one role and dtype in one piece, zeros in between: a flat buffer. `gradients.f32` has the parameters of `parameters.f32`
 * in the same order, at the same offsets. */
typedef struct tcc_section_info {
  uint32_t struct_size;
  int32_t dtype;
  const char* name;
  int32_t role; /* tcc_state_role */
  int32_t reserved0;
  uint64_t size_bytes;
  void* data; /* in memory of the instance's device; stays where it is as long as the instance lives */
  uint64_t reserved[4];
} tcc_section_info;

/* A number that a run reads and set_scalar() sets. */
typedef struct tcc_scalar_info {
  uint32_t struct_size;
  int32_t dtype;
  const char* name;
  double value; /* the instance's; without an instance the one it begins with */
  uint64_t reserved[4];
} tcc_scalar_info;

/* load_state(): takes parameters and statistics, and leaves alone what the file has of an optimizer. */
#define TCC_LOAD_PARAMETERS 1u

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
  /* Waits for the instance's own work on a CUDA device, then frees everything. NULL is allowed. An instance that was destroyed before is
   * left alone, as long as no other has taken its place in memory. */
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
   *   overlap in time, as they share the workspace. While the stream is capturing, the kernels become part of that capture.
   * An index out of range reads as 0 and writes nothing; the run does all its work, and then returns TCC_INDEX_OUT_OF_RANGE (since version 3; an
   * instance that was created through an older table never does). On CUDA that is known when something has waited for the run: a run that waits
   * returns it itself, otherwise the next synchronize() does, or the next run that finds it (and then runs nothing). It is reported once. */
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
  /* Copies and waits. The devices are TCC_DEVICE_CPU and TCC_DEVICE_CUDA; for TCC_DEVICE_AUTO see tcc_tensor.device. */
  int (*copy)(tcc_instance* instance, void* destination, int32_t destination_device, const void* source, int32_t source_device,
              uint64_t size_bytes);
  /* Waits for the stream (NULL: the default stream). */
  int (*synchronize)(tcc_instance* instance, void* stream);

  /* ---- since version 2: functions ---- */

  int (*find_function)(const char* name, uint32_t* function);
  /* instance may be NULL: then the fields that depend on its device are 0. */
  int (*function_info)(tcc_instance* instance, uint32_t function, tcc_function_info* info);
  int (*describe_function_input)(uint32_t function, uint32_t index, tcc_tensor_info* info);
  int (*describe_function_output)(uint32_t function, uint32_t index, tcc_tensor_info* info);
  int (*describe_function_launch)(tcc_instance* instance, uint32_t function, uint32_t index, tcc_launch_info* info);
  /* What run() does, for any function; all that is said there holds, "the first run" being the first of that function. The instance's own
   * workspace is one for all functions, as large as the largest that ran. timing: NULL, or as run_timed(): the call waits. */
  int (*call)(tcc_instance* instance, uint32_t function, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs,
              uint32_t num_outputs, void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing);
  int (*profile_function)(tcc_instance* instance, uint32_t function, const tcc_tensor* inputs, uint32_t num_inputs,
                          const tcc_tensor* outputs, uint32_t num_outputs, void* workspace, uint64_t workspace_bytes, void* stream,
                          double* launch_us, uint32_t num_launches);
  /* One training step on one batch, or with --accumulate=K one of K micro-batches: the K-th updates. Arguments as call(); the workspace has
   * to do for `step` and `accumulate`. */
  int (*step)(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
              void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing);

  /* ---- scalars ---- */

  int (*describe_scalar)(tcc_instance* instance, uint32_t index, tcc_scalar_info* info); /* instance may be NULL */
  /* From the next run on. A run that is captured takes the values of that moment with it: so do the replays of the capture. */
  int (*set_scalar)(tcc_instance* instance, const char* name, double value);
  int (*get_scalar)(tcc_instance* instance, const char* name, double* value);

  /* ---- state. What reads or writes it waits for the instance's device, and must not be called while a stream is capturing. ---- */

  int (*find_state)(const char* name, uint32_t* index);
  int (*describe_state)(uint32_t index, tcc_state_info* info);
  int (*find_section)(const char* name, uint32_t* index); /* "gradients.f32" */
  /* instance may be NULL: data then is, too. Allocates the block of gradients if it is asked for one of these. */
  int (*section_info)(tcc_instance* instance, uint32_t index, tcc_section_info* info);
  /* The whole tensor, dense, from and to memory of the host. A parameter that has a master copy in the optimizer's state is written there
   * too. */
  int (*read_state)(tcc_instance* instance, const char* name, void* data, uint64_t size_bytes);
  int (*write_state)(tcc_instance* instance, const char* name, const void* data, uint64_t size_bytes);
  /* Parameters, statistics and optimizer state as a safetensors file, which takes the place of an earlier one only when it is complete.
   * Gradients are not saved: save between updates, not between the micro-batches of one. */
  int (*save_state)(tcc_instance* instance, const char* path);
  /* All or nothing: every tensor of the state must be in the file, and no other, with its dtype and shape; the message names the first that
   * does not fit. A file without any `optimizer.*`, or flags TCC_LOAD_PARAMETERS: parameters and statistics are taken and the optimizer
   * starts anew, which the log says. Gradients are zero afterwards. */
  int (*load_state)(tcc_instance* instance, const char* path, uint32_t flags);
  /* What create() made: first contents, scalars as they are. */
  int (*reset_state)(tcc_instance* instance);
} tcc_api;

/* NULL when the library does not speak that version. */
typedef const tcc_api* (*tcc_query_function)(uint32_t abi_version);
const tcc_api* tcc_model_query(uint32_t abi_version);

#ifdef __cplusplus
}
#endif
#endif

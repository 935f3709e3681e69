// The C interface of tcc/runtime/runtime.h, over the CPU and CUDA devices.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "runtime/stub/check_tensors.h"
#include "runtime/stub/cpu_device.h"
#include "runtime/stub/cuda_device.h"
#include "runtime/stub/message.h"
#include "runtime/stub/weights.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

// Callers compiled against an older header hand over a shorter struct; the fields that they do not know are zero. The library never
// writes past the size it was given.
template <class T> int read_struct(const T* given, T* full, const char* name) {
  memset(static_cast<void*>(full), 0, sizeof *full);
  if (!given) return TCC_OK;
  uint32_t size = given->struct_size;
  if (size < sizeof size) return fail(TCC_INVALID_ARGUMENT, "%s: struct_size is %u, expected %zu", name, size, sizeof *full);
  if (size > sizeof *full) {
    for (uint32_t i = sizeof *full; i < size; i++) {
      if (reinterpret_cast<const unsigned char*>(given)[i] != 0) {
        return fail(TCC_INVALID_ARGUMENT, "%s: a field is set that this library is too old to know (struct_size is %u, known %zu)", name,
                    size, sizeof *full);
      }
    }
    size = sizeof *full;
  }
  memcpy(static_cast<void*>(full), given, size);
  return TCC_OK;
}

template <class T> int write_struct(T* given, T full, const char* name) {
  if (!given) return fail(TCC_INVALID_ARGUMENT, "%s is NULL", name);
  const uint32_t size = given->struct_size;
  if (size < sizeof size) return fail(TCC_INVALID_ARGUMENT, "%s: struct_size is %u, expected %zu", name, size, sizeof full);
  full.struct_size = size;
  memcpy(given, &full, size < sizeof full ? size : sizeof full);
  return TCC_OK;
}

int model_info(tcc_model_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  tcc_model_info full = {};
  full.num_inputs = view.inputs().count;
  full.num_outputs = view.outputs().count;
  full.num_weights = view.weights().count;
  full.name = view.text(view.header().model_name);
  full.weights_bytes = view.header().weights_bytes;
  full.weights_embedded = view.header().weights_embedded;
  full.has_cpu = view.target(TargetKind::cpu) != nullptr;
  full.has_cuda = view.target(TargetKind::cuda) != nullptr;
  return write_struct(info, full, "model_info");
}

int describe(const ProgramView& view, Rows<program::Tensor> tensors, const char* role, uint32_t index, tcc_tensor_info* info) {
  if (index >= tensors.count) return fail(TCC_INVALID_ARGUMENT, "%s %u is asked for, the model has %u", role, index, tensors.count);
  const program::Tensor& tensor = tensors[index];
  tcc_tensor_info full = {};
  full.dtype = static_cast<int32_t>(tensor.dtype);
  full.name = view.text(tensor.name);
  full.shape = view.shape(tensor);
  full.rank = static_cast<int32_t>(tensor.shape.count);
  full.size_bytes = tensor.size_bytes;
  return write_struct(info, full, "tensor_info");
}

int describe_input(uint32_t index, tcc_tensor_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  return describe(view, view.inputs(), "input", index, info);
}

int describe_output(uint32_t index, tcc_tensor_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  return describe(view, view.outputs(), "output", index, info);
}

void destroy(tcc_instance* instance) {
  if (!instance) return;
  if (instance->device == TCC_DEVICE_CUDA) {
    cuda_destroy(instance);
  } else {
    cpu_destroy(instance);
  }
  unmap_weights(instance);
  instance->memory.free_all();
  free(instance);
}

// Decides for a device and says why. `auto` falls back to the CPU where CUDA is not usable, never because something failed on the way.
int choose_device(tcc_instance* instance, const tcc_create_options& options) {
  const Target* cpu = instance->view.target(TargetKind::cpu);
  const Target* cuda = instance->view.target(TargetKind::cuda);
  char* reason = instance->device_reason;
  const size_t reason_bytes = sizeof instance->device_reason;
  const bool is_auto = options.device == TCC_DEVICE_AUTO;
  if (options.device < TCC_DEVICE_AUTO || options.device > TCC_DEVICE_CUDA) {
    return fail(TCC_INVALID_ARGUMENT, "device is %d, expected %d (auto), %d (CPU) or %d (CUDA)", options.device, TCC_DEVICE_AUTO,
                TCC_DEVICE_CPU, TCC_DEVICE_CUDA);
  }
  bool take_cuda = options.device == TCC_DEVICE_CUDA;
  snprintf(reason, reason_bytes, "asked for");
  if (is_auto && !cuda) snprintf(reason, reason_bytes, "the library was compiled without --target=cuda");
  if (cuda && options.device != TCC_DEVICE_CPU) {
    take_cuda = cuda_usable(instance->view, *cuda, options, reason, reason_bytes);
    if (!take_cuda && !is_auto) return fail(TCC_NO_DEVICE, "CUDA was asked for: %s", reason);
    if (take_cuda) snprintf(reason, reason_bytes, is_auto ? "a driver and a device are there" : "asked for");
  }
  instance->target = take_cuda ? cuda : cpu;
  if (!instance->target) {
    if (is_auto && cuda) return fail(TCC_NO_DEVICE, "the library was compiled for CUDA only: %s", reason);
    return fail(TCC_NO_DEVICE, "the library was compiled without --target=%s", take_cuda ? "cuda" : "cpu");
  }
  instance->device = take_cuda ? TCC_DEVICE_CUDA : TCC_DEVICE_CPU;
  return TCC_OK;
}

int create(const tcc_create_options* given, tcc_instance** result) {
  if (!result) return fail(TCC_INVALID_ARGUMENT, "the address for the instance is NULL");
  *result = nullptr;
  tcc_create_options options;
  if (int status = read_struct(given, &options, "create_options")) return status;
  if ((options.allocate == nullptr) != (options.deallocate == nullptr)) {
    return fail(TCC_INVALID_ARGUMENT, "only one of allocate and deallocate is set, expected both or neither");
  }
  if (options.num_threads < 0 || options.num_threads > 4096) {
    return fail(TCC_INVALID_ARGUMENT, "num_threads is %d, expected 0 (all that this process may use) to 4096", options.num_threads);
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignof(tcc_instance), sizeof(tcc_instance)) != 0)
    return fail(TCC_OUT_OF_MEMORY, "no memory for an instance");
  tcc_instance* instance = new (memory) tcc_instance;
  instance->memory.use(options);
  int status = ProgramView::open(&instance->view);
  if (status == TCC_OK) status = choose_device(instance, options);
  if (status == TCC_OK) status = map_weights(instance, options.weights_path);
  if (status == TCC_OK) status = instance->device == TCC_DEVICE_CUDA ? cuda_create(instance, options) : cpu_create(instance, options);
  if (status != TCC_OK) {
    destroy(instance);
    return status;
  }
  if (options.log) {
    char message[640];
    snprintf(message, sizeof message, "%s runs on %s: %s", instance->view.text(instance->view.header().model_name), instance->device_name,
             instance->device_reason);
    options.log(options.log_user, TCC_LOG_INFO, message);
  }
  *result = instance;
  return TCC_OK;
}

int check_instance(const tcc_instance* instance) { return instance ? TCC_OK : fail(TCC_INVALID_ARGUMENT, "the instance is NULL"); }

int instance_info(tcc_instance* instance, tcc_instance_info* info) {
  if (int status = check_instance(instance)) return status;
  tcc_instance_info full = {};
  full.device = instance->device;
  full.device_ordinal = instance->device_ordinal;
  full.num_threads = instance->num_threads;
  full.device_name = instance->device_name;
  full.device_reason = instance->device_reason;
  full.workspace_bytes = instance->target->arena_bytes;
  full.workspace_alignment = instance->target->arena_alignment;
  full.weights_bytes = instance->device_weights_bytes;
  full.num_launches = instance->target->launches.count;
  full.num_kernels = instance->target->kernels.count;
  return write_struct(info, full, "instance_info");
}

int describe_launch(tcc_instance* instance, uint32_t index, tcc_launch_info* info) {
  if (int status = check_instance(instance)) return status;
  const ProgramView& view = instance->view;
  const Rows<Launch> launches = view.rows<Launch>(instance->target->launches);
  if (index >= launches.count) return fail(TCC_INVALID_ARGUMENT, "launch %u is asked for, the plan has %u", index, launches.count);
  const Launch& launch = launches[index];
  tcc_launch_info full = {};
  full.label = view.text(launch.label);
  full.kernel = launch.kind == LaunchKind::kernel ? view.text(view.rows<Kernel>(instance->target->kernels)[launch.kernel].name)
                : launch.kind == LaunchKind::copy ? "copy"
                                                  : "fill";
  full.grid = launch.kind == LaunchKind::kernel ? launch.grid : 1;
  return write_struct(info, full, "launch_info");
}

int check_run(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
              void* workspace, uint64_t workspace_bytes) {
  if (int status = check_instance(instance)) return status;
  const Target& target = *instance->target;
  const TensorRules rules = {instance->device == TCC_DEVICE_CUDA, instance->device_ordinal, target.io_alignment};
  if (int status = check_tensors(instance->view, rules, inputs, num_inputs, outputs, num_outputs)) return status;
  if (workspace && workspace_bytes < target.arena_bytes) {
    return fail(TCC_INVALID_ARGUMENT, "workspace has %llu bytes, expected %llu", static_cast<unsigned long long>(workspace_bytes),
                static_cast<unsigned long long>(target.arena_bytes));
  }
  if (workspace && reinterpret_cast<uintptr_t>(workspace) % target.arena_alignment != 0) {
    return fail(TCC_INVALID_ARGUMENT, "workspace is at address 0x%llx, expected a multiple of %u",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(workspace)), target.arena_alignment);
  }
  return TCC_OK;
}

int run(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
        void* workspace, uint64_t workspace_bytes, void* stream) {
  if (int status = check_run(instance, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes)) return status;
  const RunCall call = {inputs, outputs, workspace, stream};
  return instance->device == TCC_DEVICE_CUDA ? cuda_run(instance, call, {}) : cpu_run(instance, call, nullptr);
}

int run_timed(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
              void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing) {
  const double start_us = now_us();
  if (int status = check_run(instance, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes)) return status;
  const RunCall call = {inputs, outputs, workspace, stream};
  tcc_timing full = {};
  if (instance->device == TCC_DEVICE_CUDA) {
    if (int status = cuda_run(instance, call, {.timing = &full, .launch_us = nullptr})) return status;
  } else {
    if (int status = cpu_run(instance, call, nullptr)) return status;
    full.host_us = full.device_us = now_us() - start_us;
  }
  return write_struct(timing, full, "timing");
}

int profile(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
            void* workspace, uint64_t workspace_bytes, void* stream, double* launch_us, uint32_t num_launches) {
  if (int status = check_run(instance, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes)) return status;
  if (!launch_us || num_launches != instance->target->launches.count) {
    return fail(TCC_INVALID_ARGUMENT, "room for %u launch times is given, the plan has %u", launch_us ? num_launches : 0,
                instance->target->launches.count);
  }
  const RunCall call = {inputs, outputs, workspace, stream};
  return instance->device == TCC_DEVICE_CUDA ? cuda_run(instance, call, {.timing = nullptr, .launch_us = launch_us})
                                             : cpu_run(instance, call, launch_us);
}

int allocate(tcc_instance* instance, uint64_t size_bytes, void** memory) {
  if (int status = check_instance(instance)) return status;
  if (!memory) return fail(TCC_INVALID_ARGUMENT, "the address for the memory is NULL");
  *memory = nullptr;
  if (instance->device == TCC_DEVICE_CUDA) return cuda_allocate(instance, size_bytes, memory);
  if (posix_memalign(memory, 4096, size_bytes ? size_bytes : 1) == 0) return TCC_OK;
  *memory = nullptr;
  return fail(TCC_OUT_OF_MEMORY, "no memory for %llu bytes", static_cast<unsigned long long>(size_bytes));
}

int deallocate(tcc_instance* instance, void* memory) {
  if (int status = check_instance(instance)) return status;
  if (!memory) return TCC_OK;
  if (instance->device == TCC_DEVICE_CUDA) return cuda_deallocate(instance, memory);
  free(memory);
  return TCC_OK;
}

int copy(tcc_instance* instance, void* destination, int32_t destination_device, const void* source, int32_t source_device,
         uint64_t size_bytes) {
  if (int status = check_instance(instance)) return status;
  const bool to_device = destination_device == TCC_DEVICE_CUDA, from_device = source_device == TCC_DEVICE_CUDA;
  if (!to_device && !from_device) {
    memmove(destination, source, size_bytes);
    return TCC_OK;
  }
  if (instance->device != TCC_DEVICE_CUDA)
    return fail(TCC_INVALID_ARGUMENT, "a copy in CUDA memory is asked for, but this instance runs on the CPU");
  return cuda_copy(instance, destination, to_device, source, from_device, size_bytes);
}

int synchronize(tcc_instance* instance, void* stream) {
  if (int status = check_instance(instance)) return status;
  return instance->device == TCC_DEVICE_CUDA ? cuda_synchronize(instance, stream) : TCC_OK;
}

const tcc_api api = {
    sizeof(tcc_api), TCC_ABI_VERSION, last_message, model_info, describe_input, describe_output, create,     destroy,
    instance_info,   describe_launch, run,          run_timed,  profile,        allocate,        deallocate, copy,
    synchronize,
};

}  // namespace
}  // namespace tcc::stub

// Exported; the linker adds <prefix>_query as a second name.
extern "C" __attribute__((visibility("default"))) const tcc_api* tcc_model_query(uint32_t abi_version) {
  return abi_version == TCC_ABI_VERSION ? &tcc::stub::api : nullptr;
}

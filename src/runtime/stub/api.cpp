// The C interface of tcc/runtime/runtime.h, over the CPU and CUDA devices.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "runtime/stub/api_state.h"
#include "runtime/stub/api_structs.h"
#include "runtime/stub/bad_indices.h"
#include "runtime/stub/check_tensors.h"
#include "runtime/stub/cpu_device.h"
#include "runtime/stub/cuda_device.h"
#include "runtime/stub/live_instances.h"
#include "runtime/stub/message.h"
#include "runtime/stub/state.h"
#include "runtime/stub/weights.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

int model_info(tcc_model_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  tcc_model_info full = {};
  full.num_inputs = view.inputs(0).count;
  full.num_outputs = view.outputs(0).count;
  full.num_weights = view.weights().count;
  full.name = view.text(view.header().model_name);
  full.weights_bytes = view.header().weights_bytes;
  full.weights_embedded = view.header().weights_embedded;
  full.has_cpu = view.target(TargetKind::cpu) != nullptr;
  full.has_cuda = view.target(TargetKind::cuda) != nullptr;
  full.num_functions = view.functions().count;
  full.num_state_tensors = view.state().count;
  full.num_sections = view.sections().count;
  full.num_scalars = view.scalars().count;
  full.accumulate = view.header().accumulate;
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
  full.has_range = tensor.low <= tensor.high;
  if (full.has_range) {
    full.low = tensor.low;
    full.high = tensor.high;
  }
  return write_struct(info, full, "tensor_info");
}

int check_function(const ProgramView& view, uint32_t function) {
  const uint32_t count = view.functions().count;
  return function < count ? TCC_OK : fail(TCC_INVALID_ARGUMENT, "function %u is asked for, the library has %u", function, count);
}

int describe_function_input(uint32_t function, uint32_t index, tcc_tensor_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (int status = check_function(view, function)) return status;
  return describe(view, view.inputs(function), "input", index, info);
}

int describe_function_output(uint32_t function, uint32_t index, tcc_tensor_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (int status = check_function(view, function)) return status;
  return describe(view, view.outputs(function), "output", index, info);
}

int describe_input(uint32_t index, tcc_tensor_info* info) { return describe_function_input(0, index, info); }
int describe_output(uint32_t index, tcc_tensor_info* info) { return describe_function_output(0, index, info); }

int find_function(const char* name, uint32_t* function) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (!name || !function) return fail(TCC_INVALID_ARGUMENT, "the name of the function or the address for its number is NULL");
  char known[512] = "";
  size_t at = 0;
  const Rows<Function> functions = view.functions();
  for (uint32_t f = 0; f < functions.count; f++) {
    if (strcmp(view.text(functions[f].name), name) == 0) {
      *function = f;
      return TCC_OK;
    }
    if (at < sizeof known - 64)
      at += static_cast<size_t>(snprintf(known + at, sizeof known - at, "%s`%.40s`", f ? ", " : "", view.text(functions[f].name)));
  }
  return fail(TCC_INVALID_ARGUMENT, "there is no function `%.200s`, the library has %s", name, known);
}

void free_instance(tcc_instance* instance) {
  if (instance->device == TCC_DEVICE_CUDA) {
    cuda_destroy(instance);
  } else {
    cpu_destroy(instance);
  }
  unmap_weights(instance);
  instance->memory.free_all();
  instance->alive.store(0);
  free(instance);
}

void destroy(tcc_instance* instance) {
  if (!instance) return;
  if (!remove_live(instance)) {
    fail(TCC_INVALID_ARGUMENT, "destroy: the instance has been destroyed already, or create() never made it");
    return;
  }
  free_instance(instance);
}

// Of the targets for CUDA the first whose code runs here; null, with the last one's reason, when there is none.
const Target* usable_cuda(const ProgramView& view, const tcc_create_options& options, char* reason, size_t reason_bytes) {
  for (const Target& target : view.targets()) {
    if (target.kind == TargetKind::cuda && cuda_usable(view, target, options, reason, reason_bytes)) return &target;
  }
  return nullptr;
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
    const Target* usable = usable_cuda(instance->view, options, reason, reason_bytes);
    take_cuda = usable != nullptr;
    if (usable) cuda = usable;
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

int bind_functions(tcc_instance* instance) {
  const ProgramView& view = instance->view;
  const uint32_t count = view.functions().count;
  instance->functions = instance->memory.allocate_array<BoundFunction>(count);
  if (!instance->functions) return fail(TCC_OUT_OF_MEMORY, "no memory for an instance");
  for (uint32_t f = 0; f < count; f++) {
    BoundFunction* function = new (&instance->functions[f]) BoundFunction;
    function->number = f;
    function->code = &view.code(*instance->target, f);
    function->num_inputs = view.inputs(f).count;
    function->num_outputs = view.outputs(f).count;
    for (const Buffer& buffer : view.rows<Buffer>(function->code->buffers))
      function->uses_gradients |= buffer.kind == BufferKind::state && buffer.index == block_of(StateRole::gradient);
  }
  return TCC_OK;
}

int create_instance(const tcc_create_options* given, bool reports_bad_indices, tcc_instance** result) {
  if (!result) return fail(TCC_INVALID_ARGUMENT, "the address for the instance is NULL");
  *result = nullptr;
  tcc_create_options options;
  if (int status = read_struct(given, &options, "create_options")) return status;
  if (int status = check_reserved(options.reserved, "create_options")) return status;
  const struct {
    const char* name;
    uint32_t value;
  } switches[] = {
      {"check_weights", options.check_weights}, {"no_cuda_graph", options.no_cuda_graph}, {"no_index_check", options.no_index_check}};
  for (const auto& one : switches) {
    if (one.value > 1) return fail(TCC_INVALID_ARGUMENT, "create_options: %s is %u, expected 0 or 1", one.name, one.value);
  }
  if (options.reserved0 != 0) return fail(TCC_INVALID_ARGUMENT, "create_options: reserved0 is not 0");
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
  instance->log = options.log;
  instance->log_user = options.log_user;
  instance->ignore_bad_indices = options.no_index_check || !reports_bad_indices;
  int status = ProgramView::open(&instance->view);
  if (status == TCC_OK) status = choose_device(instance, options);
  if (status == TCC_OK) status = map_weights(instance, options);
  if (status == TCC_OK && options.check_weights) status = check_weights(instance, options);
  if (status == TCC_OK) status = bind_functions(instance);
  if (status == TCC_OK) status = create_bad_indices(instance);
  if (status == TCC_OK) status = instance->device == TCC_DEVICE_CUDA ? cuda_create(instance, options) : cpu_create(instance, options);
  if (status == TCC_OK) status = create_state(instance);
  if (status != TCC_OK) {
    free_instance(instance);
    return status;
  }
  add_live(instance);
  if (options.log) {
    char message[640];
    snprintf(message, sizeof message, "%s runs on %s: %s", instance->view.text(instance->view.header().model_name), instance->device_name,
             instance->device_reason);
    options.log(options.log_user, TCC_LOG_INFO, message);
  }
  *result = instance;
  return TCC_OK;
}

int create(const tcc_create_options* given, tcc_instance** result) { return create_instance(given, true, result); }
// Callers that were written before there was TCC_INDEX_OUT_OF_RANGE run as they did.
int create_before_3(const tcc_create_options* given, tcc_instance** result) { return create_instance(given, false, result); }

int instance_info(tcc_instance* instance, tcc_instance_info* info) {
  if (int status = check_instance(instance)) return status;
  tcc_instance_info full = {};
  full.device = instance->device;
  full.device_ordinal = instance->device_ordinal;
  full.num_threads = instance->num_threads;
  full.device_name = instance->device_name;
  full.device_reason = instance->device_reason;
  full.workspace_bytes = instance->functions[0].code->arena_bytes;
  full.workspace_alignment = instance->target->arena_alignment;
  full.weights_bytes = instance->device_weights_bytes;
  full.num_launches = instance->functions[0].code->launches.count;
  full.num_kernels = instance->target->kernels.count;
  full.prepared_bytes = instance->target->prepared_bytes;
  full.state_bytes = state_block_bytes(instance->view.header().state_bytes, instance->view.scalars().count);
  full.gradient_bytes = instance->view.header().gradient_bytes;
  return write_struct(info, full, "instance_info");
}

int function_info(tcc_instance* instance, uint32_t number, tcc_function_info* info) {
  ProgramView view;
  if (int status = ProgramView::open(&view)) return status;
  if (int status = check_function(view, number)) return status;
  tcc_function_info full = {};
  full.name = view.text(view.functions()[number].name);
  full.num_inputs = view.inputs(number).count;
  full.num_outputs = view.outputs(number).count;
  if (instance) {
    if (int status = check_instance(instance)) return status;
    const BoundFunction& function = instance->functions[number];
    full.uses_gradients = function.uses_gradients;
    full.workspace_bytes = function.code->arena_bytes;
    full.workspace_alignment = instance->target->arena_alignment;
    full.planned_peak_bytes = instance->device_weights_bytes + instance->target->prepared_bytes +
                              state_block_bytes(view.header().state_bytes, view.scalars().count) +
                              (function.uses_gradients ? view.header().gradient_bytes : 0) + function.code->arena_bytes;
    full.num_launches = function.code->launches.count;
  }
  return write_struct(info, full, "function_info");
}

int describe_function_launch(tcc_instance* instance, uint32_t function, uint32_t index, tcc_launch_info* info) {
  if (int status = check_instance(instance)) return status;
  const ProgramView& view = instance->view;
  if (int status = check_function(view, function)) return status;
  const Rows<Launch> launches = view.rows<Launch>(instance->functions[function].code->launches);
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

int describe_launch(tcc_instance* instance, uint32_t index, tcc_launch_info* info) {
  return describe_function_launch(instance, 0, index, info);
}

// --- runs -------------------------------------------------------------------------------------------------------------------------------

/// The arguments of run() and its kin, checked and as the devices take them.
struct Arrays {
  const tcc_tensor* inputs;
  uint32_t num_inputs;
  const tcc_tensor* outputs;
  uint32_t num_outputs;
  void* workspace;
  uint64_t workspace_bytes;
  void* stream;
};

// Where there are several functions the message says which one.
int name_function(const ProgramView& view, uint32_t function, int status) {
  if (view.functions().count == 1) return status;
  char message[1800];
  snprintf(message, sizeof message, "%s", last_message());
  return fail(static_cast<tcc_status>(status), "%.100s: %s", view.text(view.functions()[function].name), message);
}

int check_run(tcc_instance* instance, uint32_t function, const Arrays& given, uint64_t workspace_needed) {
  const Target& target = *instance->target;
  const ProgramView& view = instance->view;
  const TensorRules rules = {instance->device == TCC_DEVICE_CUDA, instance->device_ordinal, instance->state.blocks, target.io_alignment};
  if (int status = check_tensors(view, function, rules, given.inputs, given.num_inputs, given.outputs, given.num_outputs))
    return name_function(view, function, status);
  if (given.workspace && given.workspace_bytes < workspace_needed) {
    return name_function(view, function,
                         fail(TCC_INVALID_ARGUMENT, "workspace has %llu bytes, expected %llu",
                              static_cast<unsigned long long>(given.workspace_bytes), static_cast<unsigned long long>(workspace_needed)));
  }
  if (given.workspace && reinterpret_cast<uintptr_t>(given.workspace) % target.arena_alignment != 0) {
    return name_function(view, function,
                         fail(TCC_INVALID_ARGUMENT, "workspace is at address 0x%llx, expected a multiple of %u",
                              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(given.workspace)), target.arena_alignment));
  }
  return TCC_OK;
}

/// What the caller has stated must be what the function was captured under.
int check_guards(const tcc_instance* instance, uint32_t function) {
  const ProgramView& view = instance->view;
  for (const Guard& guard : view.guards()) {
    if (guard.function != function) continue;
    const double stated = scalar_value(view.scalars()[guard.scalar], instance->state.scalars[guard.scalar]);
    if (stated != stated || stated == guard.value) continue;
    return name_function(view, function,
                         fail(TCC_INVALID_ARGUMENT, "the guard that %.200s fails: %.17g was stated", view.text(guard.text), stated));
  }
  return TCC_OK;
}

int run_function(tcc_instance* instance, uint32_t function, const Arrays& given, uint64_t workspace_needed, tcc_timing* timing,
                 double* launch_us) {
  const double start_us = timing ? now_us() : 0;
  if (int status = check_guards(instance, function)) return status;
  if (int status = check_run(instance, function, given, workspace_needed)) return status;
  if (int status = report_bad_index(instance)) return status;  // of an earlier run, which nobody waited for
  BoundFunction* bound = &instance->functions[function];
  if (bound->uses_gradients) {
    if (int status = allocate_gradients(instance)) return status;
  }
  const RunCall call = {bound, given.inputs, given.outputs, given.workspace, given.stream, wants_zero_gradients(instance, function)};
  bool done = true;
  if (instance->device == TCC_DEVICE_CUDA) {
    if (int status = cuda_run(instance, call, {.timing = timing, .launch_us = launch_us}, &done)) return status;
  } else {
    if (int status = cpu_run(instance, call, launch_us)) return status;
    if (timing) timing->host_us = timing->device_us = now_us() - start_us;
  }
  count_micro_batch(instance, function);
  return done ? report_bad_index(instance) : TCC_OK;
}

int run_and_time(tcc_instance* instance, uint32_t function, const Arrays& given, uint64_t workspace_needed, tcc_timing* timing) {
  if (!timing) return run_function(instance, function, given, workspace_needed, nullptr, nullptr);
  tcc_timing full = {};
  if (int status = run_function(instance, function, given, workspace_needed, &full, nullptr)) return status;
  return write_struct(timing, full, "timing");
}

uint64_t workspace_of(const tcc_instance* instance, uint32_t function) { return instance->functions[function].code->arena_bytes; }

int call(tcc_instance* instance, uint32_t function, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs,
         uint32_t num_outputs, void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  if (int status = check_function(instance->view, function)) return status;
  return run_and_time(instance, function, {inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream},
                      workspace_of(instance, function), timing);
}

int run(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
        void* workspace, uint64_t workspace_bytes, void* stream) {
  return call(instance, 0, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream, nullptr);
}

int run_timed(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
              void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing) {
  if (!timing) return fail(TCC_INVALID_ARGUMENT, "timing is NULL");
  return call(instance, 0, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream, timing);
}

int step(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
         void* workspace, uint64_t workspace_bytes, void* stream, tcc_timing* timing) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  const State& state = instance->state;
  if (state.step == kNoFunction)
    return fail(TCC_INVALID_ARGUMENT, "the library has no function `step`: it was compiled without --mode=train");
  uint64_t needed = workspace_of(instance, state.step);
  if (state.accumulate != kNoFunction && needed < workspace_of(instance, state.accumulate))
    needed = workspace_of(instance, state.accumulate);
  return run_and_time(instance, next_of_step(instance), {inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream},
                      needed, timing);
}

int profile_function(tcc_instance* instance, uint32_t function, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs,
                     uint32_t num_outputs, void* workspace, uint64_t workspace_bytes, void* stream, double* launch_us,
                     uint32_t num_launches) {
  const InUse use(instance);
  if (use.status() != TCC_OK) return use.status();
  if (int status = check_function(instance->view, function)) return status;
  const uint32_t expected = instance->functions[function].code->launches.count;
  if (!launch_us || num_launches != expected) {
    return fail(TCC_INVALID_ARGUMENT, "room for %u launch times is given, the plan has %u", launch_us ? num_launches : 0, expected);
  }
  return run_function(instance, function, {inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream},
                      workspace_of(instance, function), nullptr, launch_us);
}

int profile(tcc_instance* instance, const tcc_tensor* inputs, uint32_t num_inputs, const tcc_tensor* outputs, uint32_t num_outputs,
            void* workspace, uint64_t workspace_bytes, void* stream, double* launch_us, uint32_t num_launches) {
  return profile_function(instance, 0, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, stream, launch_us,
                          num_launches);
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
  const int32_t devices[] = {destination_device, source_device};
  for (int i = 0; i < 2; i++) {
    if (devices[i] < TCC_DEVICE_AUTO || devices[i] > TCC_DEVICE_CUDA)
      return fail(TCC_INVALID_ARGUMENT, "copy: the device of the %s is %d, expected %d (CPU) or %d (CUDA)", i ? "source" : "destination",
                  devices[i], TCC_DEVICE_CPU, TCC_DEVICE_CUDA);
  }
  if (size_bytes == 0) return TCC_OK;
  if (!destination || !source)
    return fail(TCC_INVALID_ARGUMENT, "copy: the %s is NULL, for %llu bytes", destination ? "source" : "destination",
                static_cast<unsigned long long>(size_bytes));
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
  if (instance->device == TCC_DEVICE_CUDA) {
    if (int status = cuda_synchronize(instance, stream)) return status;
  }
  return report_bad_index(instance);
}

constexpr tcc_api api = {
    sizeof(tcc_api),
    TCC_ABI_VERSION,
    last_message,
    model_info,
    describe_input,
    describe_output,
    create,
    destroy,
    instance_info,
    describe_launch,
    run,
    run_timed,
    profile,
    allocate,
    deallocate,
    copy,
    synchronize,
    find_function,
    function_info,
    describe_function_input,
    describe_function_output,
    describe_function_launch,
    call,
    profile_function,
    step,
    describe_scalar,
    set_scalar_by_name,
    get_scalar,
    find_state_index,
    describe_state,
    find_section,
    section_info,
    read_state,
    write_state,
    save_state_to,
    load_state_from,
    reset_whole_state,
};

// The table of an earlier version: what came later is behind the end that it had then.
constexpr tcc_api as_of(uint32_t version, size_t struct_size) {
  tcc_api earlier = api;
  earlier.struct_size = static_cast<uint32_t>(struct_size);
  earlier.abi_version = version;
  earlier.create = create_before_3;
  return earlier;
}

constexpr tcc_api api_of_1 = as_of(1, offsetof(tcc_api, find_function));
constexpr tcc_api api_of_2 = as_of(2, sizeof(tcc_api));  // version 3 brought fields of structs, and a status

}  // namespace
}  // namespace tcc::stub

// Exported; the linker adds <prefix>_query as a second name.
extern "C" __attribute__((visibility("default"))) const tcc_api* tcc_model_query(uint32_t abi_version) {
  switch (abi_version) {
    case TCC_ABI_VERSION: return &tcc::stub::api;
    case 2: return &tcc::stub::api_of_2;
    case 1: return &tcc::stub::api_of_1;
    default: return nullptr;
  }
}

// Finds the device, picks the code that fits it, and puts code and weights there.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <atomic>

#include "runtime/stub/cpu_features.h"
#include "runtime/stub/cuda_device.h"
#include "runtime/stub/message.h"
#include "runtime/stub/weights.h"
#include "tcc/runtime/checksum.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

constexpr uint32_t kNoImage = ~uint32_t{0};
constexpr int kMostLoaders = 8;

struct Chip {
  CUdevice device = 0;
  int capability = 0;
  char name[96] = {};
};

bool find_chip(const CudaDriver& driver, CUdevice device, Chip* chip) {
  int major = 0, minor = 0;
  chip->device = device;
  if (driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS) {
    return false;
  }
  chip->capability = major * 10 + minor;
  if (driver.cuDeviceGetName(chip->name, sizeof chip->name - 1, device) != CUDA_SUCCESS)
    snprintf(chip->name, sizeof chip->name, "CUDA device");
  return true;
}

// How well an image fits a chip; 0: not at all. Machine code for the very chip, then PTX that uses all of the chip, then machine code
// for an earlier chip of the same generation, then the newest portable PTX.
int fitness(const Image& image, int capability) {
  const int arch = static_cast<int>(image.arch);
  if (image.kind == ImageKind::cubin) {
    if (arch == capability) return 4000;
    return !image.arch_specific && arch / 10 == capability / 10 && arch < capability ? 2000 + arch : 0;
  }
  if (image.arch_specific) return arch == capability ? 3000 : 0;
  return arch <= capability ? 1000 + arch : 0;
}

uint32_t best_image(const ProgramView& view, const Target& target, const Kernel& kernel, int capability) {
  const Rows<Image> images = view.rows<Image>(target.images);
  const Rows<uint32_t> choices = view.rows<uint32_t>(target.image_choices);
  uint32_t best = kNoImage;
  int best_fitness = 0;
  for (uint32_t c = kernel.images.first; c < kernel.images.first + kernel.images.count; c++) {
    const int fit = fitness(images[choices[c]], capability);
    if (fit > best_fitness) {
      best = choices[c];
      best_fitness = fit;
    }
  }
  return best;
}

// --- code, loaded on several threads: the driver compiles PTX, which takes far longer than anything else here -----------------------

int load_module(tcc_instance* instance, uint32_t i) {
  CudaState* state = instance->cuda;
  const Image& image = instance->view.rows<Image>(instance->target->images)[i];
  // A driver does not survive everything that it is given.
  if (checksum(tcc_payload.images + image.offset, image.size_bytes) != image.checksum) {
    return fail(TCC_DAMAGED_LIBRARY,
                "the code for sm_%u%s inside this library is damaged: its checksum is another; compile the model again", image.arch,
                image.arch_specific ? "a" : "");
  }
  char log[1024] = {};
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  const CUresult error = state->driver->cuModuleLoadDataEx(&state->modules[i], tcc_payload.images + image.offset, 2, options, values);
  if (error == CUDA_SUCCESS) return TCC_OK;
  state->modules[i] = nullptr;
  const Rows<Kernel> kernels = instance->view.rows<Kernel>(instance->target->kernels);
  uint32_t k = 0;
  while (state->image_of[k] != i) k++;
  char what[1400];
  snprintf(what, sizeof what, "%s for sm_%u%s with kernel `%.200s`%s%s", image.kind == ImageKind::ptx ? "PTX" : "machine code", image.arch,
           image.arch_specific ? "a" : "", instance->view.text(kernels[k].name), log[0] ? ", log: " : "", log);
  return cuda_fail(*state->driver, error, "cuModuleLoadDataEx", what);
}

int find_function(tcc_instance* instance, uint32_t k) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  const Kernel& kernel = instance->view.rows<Kernel>(instance->target->kernels)[k];
  const char* name = instance->view.text(kernel.name);
  char what[400];
  snprintf(what, sizeof what, "kernel `%.200s`", name);
  CUfunction& function = state->kernels[k];
  if (CUresult error = driver.cuModuleGetFunction(&function, state->modules[state->image_of[k]], name)) {
    return cuda_fail(driver, error, "cuModuleGetFunction", what);
  }
  if (kernel.shared_bytes > 0) {
    if (CUresult error =
            driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(kernel.shared_bytes))) {
      int most_shared = 0;
      driver.cuDeviceGetAttribute(&most_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, state->device);
      snprintf(what, sizeof what, "kernel `%.200s`, which needs %u bytes of shared memory (the device has %d per block)", name,
               kernel.shared_bytes, most_shared);
      return cuda_fail(driver, error, "cuFuncSetAttribute", what);
    }
  }
  // A driver that loads lazily compiles only now; so this, too, is the work of the loading threads.
  int most_threads = 0, registers = 0;
  if (CUresult error = driver.cuFuncGetAttribute(&most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)) {
    return cuda_fail(driver, error, "cuFuncGetAttribute", what);
  }
  if (static_cast<uint32_t>(most_threads) < kernel.threads) {
    driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    return fail(TCC_DRIVER_ERROR, "kernel `%.200s` is launched with %u threads per block, the device takes %d at its %d registers", name,
                kernel.threads, most_threads, registers);
  }
  return TCC_OK;
}

struct Loader {
  tcc_instance* instance;
  const uint32_t* wanted;  // indices of images
  uint32_t num_wanted;
  std::atomic<uint32_t> next{0};
  std::atomic<int> status{TCC_OK};  // of the first failure
  char message[2048] = {};          // of the same, written by the thread that set `status`
};

int load_image(tcc_instance* instance, uint32_t image) {
  if (int status = load_module(instance, image)) return status;
  for (uint32_t k = 0; k < instance->target->kernels.count; k++) {
    if (instance->cuda->image_of[k] != image) continue;
    if (int status = find_function(instance, k)) return status;
  }
  return TCC_OK;
}

void load_images(Loader* loader) {
  CudaState* state = loader->instance->cuda;
  CurrentContext current(*state->driver, state->context);
  for (uint32_t i; (i = loader->next.fetch_add(1)) < loader->num_wanted && loader->status.load() == TCC_OK;) {
    const int status = current.result() == CUDA_SUCCESS
                           ? load_image(loader->instance, loader->wanted[i])
                           : cuda_fail(*state->driver, current.result(), "cuCtxPushCurrent", "the instance's context");
    int ok = TCC_OK;
    if (status != TCC_OK && loader->status.compare_exchange_strong(ok, status))
      snprintf(loader->message, sizeof loader->message, "%s", last_message());
  }
}

void* loader_main(void* loader) {
  load_images(static_cast<Loader*>(loader));
  return nullptr;
}

int load_code(tcc_instance* instance) {
  CudaState* state = instance->cuda;
  const Target& target = *instance->target;
  const uint32_t num_kernels = target.kernels.count, num_images = target.images.count;
  state->modules = instance->memory.allocate_array<CUmodule>(num_images);
  state->kernels = instance->memory.allocate_array<CUfunction>(num_kernels);
  uint32_t* wanted = instance->memory.allocate_array<uint32_t>(num_images);
  bool* is_wanted = instance->memory.allocate_array<bool>(num_images);
  if (!state->modules || !state->kernels || !wanted || !is_wanted) return fail(TCC_OUT_OF_MEMORY, "no memory for %u kernels", num_kernels);

  Loader loader{instance, wanted, 0};
  for (uint32_t k = 0; k < num_kernels; k++) is_wanted[state->image_of[k]] = true;
  for (uint32_t i = 0; i < num_images; i++) {
    if (is_wanted[i]) wanted[loader.num_wanted++] = i;
  }
  int num_threads = usable_cpus();
  if (num_threads > kMostLoaders) num_threads = kMostLoaders;
  if (static_cast<uint32_t>(num_threads) > loader.num_wanted) num_threads = static_cast<int>(loader.num_wanted);
  pthread_t threads[kMostLoaders];
  int started = 0;
  // Without a further thread this one does all of the work.
  while (started < num_threads - 1 && pthread_create(&threads[started], nullptr, loader_main, &loader) == 0) started++;
  load_images(&loader);
  for (int i = 0; i < started; i++) pthread_join(threads[i], nullptr);
  const int status = loader.status.load();
  return status == TCC_OK ? TCC_OK : fail(static_cast<tcc_status>(status), "%s", loader.message);
}

// --- weights and tensors --------------------------------------------------------------------------------------------------------------

// Copies the weights that some code uses to the device, into one allocation.
int load_weights(tcc_instance* instance, Rows<FunctionCode> codes, PackedWeights* packed, CUdeviceptr* memory) {
  const CudaDriver& driver = *instance->cuda->driver;
  const Rows<program::Tensor> weights = instance->view.weights();
  if (int status = pack_weights(instance, codes, packed)) return status;
  if (packed->size_bytes == 0) return TCC_OK;
  char what[128];
  snprintf(what, sizeof what, "%llu bytes of weights", static_cast<unsigned long long>(packed->size_bytes));
  if (CUresult error = driver.cuMemAlloc(memory, packed->size_bytes)) {
    *memory = 0;
    return cuda_fail(driver, error, "cuMemAlloc", what);
  }
  for (uint32_t w = 0; w < weights.count; w++) {
    if (!packed->stored[w]) continue;
    if (CUresult error = driver.cuMemcpyHtoD(*memory + packed->offsets[w], instance->weights + weights[w].offset, weights[w].size_bytes)) {
      snprintf(what, sizeof what, "weight `%.80s`", instance->view.text(weights[w].name));
      return cuda_fail(driver, error, "cuMemcpyHtoD", what);
    }
  }
  return TCC_OK;
}

// One device copy for the inputs of all functions that have the same name and size, and for the outputs likewise.
int share_staging(tcc_instance* instance) {
  CudaState* state = instance->cuda;
  const ProgramView& view = instance->view;
  const Rows<program::Tensor> tensors = view.tensors();
  state->staging = instance->memory.allocate_array<CUdeviceptr>(tensors.count);
  state->staging_of = instance->memory.allocate_array<uint32_t>(tensors.count);
  bool* is_input = instance->memory.allocate_array<bool>(tensors.count);
  if (!state->staging || !state->staging_of || !is_input) return fail(TCC_OUT_OF_MEMORY, "no memory for a CUDA instance");
  for (const Function& function : view.functions()) {
    for (uint32_t i = 0; i < function.inputs.count; i++) is_input[function.inputs.first + i] = true;
  }
  for (const Function& function : view.functions()) {
    const Span spans[] = {function.inputs, function.outputs};
    for (const Span& span : spans) {
      for (uint32_t t = span.first; t < span.first + span.count; t++) {
        state->staging_of[t] = t;
        // Only tensors of earlier functions: two of one function are there at the same time.
        const uint32_t earlier = function.inputs.first < function.outputs.first ? function.inputs.first : function.outputs.first;
        for (uint32_t u = 0; u < earlier; u++) {
          if (is_input[t] == is_input[u] && tensors[t].size_bytes == tensors[u].size_bytes &&
              strcmp(view.text(tensors[t].name), view.text(tensors[u].name)) == 0) {
            state->staging_of[t] = state->staging_of[u];
            break;
          }
        }
      }
    }
  }
  return TCC_OK;
}

// Room for the tensor maps of a function's launches, which the addresses of a run fill in.
int place_maps(tcc_instance* instance, const BoundFunction& function) {
  const Rows<Launch> launches = instance->view.rows<Launch>(function.code->launches);
  const auto num_maps = [&](const Launch& launch) { return instance->view.tensor_maps(*instance->target, launch).count; };
  uint32_t count = 0;
  for (const Launch& launch : launches) count += num_maps(launch);
  if (count == 0) return TCC_OK;
  // The driver wants them at multiples of 64 bytes.
  char* memory = instance->memory.allocate_array<char>((count + 1) * sizeof(CUtensorMap));
  if (!memory) return fail(TCC_OUT_OF_MEMORY, "no memory for %u tensor maps", count);
  memory += (alignof(CUtensorMap) - reinterpret_cast<uintptr_t>(memory) % alignof(CUtensorMap)) % alignof(CUtensorMap);
  CUtensorMap* next = reinterpret_cast<CUtensorMap*>(memory);
  for (uint32_t l = 0; l < launches.count; l++) {
    for (uint32_t m = 0; m < num_maps(launches[l]); m++) function.arguments.map_pointers_of(l)[m] = next++;
  }
  return TCC_OK;
}

int prepare_arguments(tcc_instance* instance, BoundFunction* function, const uint64_t* weight_offsets) {
  const Arguments::Code code{*function->code, function->num_inputs, function->num_outputs};
  if (int status = function->arguments.prepare(instance->view, *instance->target, code, weight_offsets, &instance->memory)) return status;
  return place_maps(instance, *function);
}

// Makes of weights what is made of them once. Those that nothing else reads are on the device only meanwhile.
int prepare(tcc_instance* instance) {
  BoundFunction preparation;
  preparation.code = instance->view.preparation(*instance->target);
  if (!preparation.code) return TCC_OK;
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  const uint64_t bytes = instance->target->prepared_bytes;
  char what[128];
  snprintf(what, sizeof what, "%llu bytes for what is made of the weights", static_cast<unsigned long long>(bytes));
  if (CUresult error = driver.cuMemAlloc(&state->prepared, bytes)) {
    state->prepared = 0;
    return cuda_fail(driver, error, "cuMemAlloc", what);
  }
  instance->prepared = reinterpret_cast<char*>(state->prepared);
  PackedWeights packed;
  CUdeviceptr weights = 0;
  int status = load_weights(instance, {preparation.code, 1}, &packed, &weights);
  if (status == TCC_OK) status = prepare_arguments(instance, &preparation, packed.offsets);
  if (status == TCC_OK) status = cuda_run_preparation(instance, &preparation, weights);
  if (weights) driver.cuMemFree(weights);
  return status;
}

int prepare_functions(tcc_instance* instance, const tcc_create_options& options, const uint64_t* weight_offsets) {
  CudaState* state = instance->cuda;
  const uint32_t num_functions = instance->view.functions().count;
  state->functions = instance->memory.allocate_array<CudaFunction>(num_functions);
  state->retired = instance->memory.allocate_array<CUdeviceptr>(num_functions);
  if (!state->functions || !state->retired) return fail(TCC_OUT_OF_MEMORY, "no memory for a CUDA instance");
  for (uint32_t f = 0; f < num_functions; f++) {
    CudaFunction& function = state->functions[f];
    const Rows<Launch> launches = instance->view.rows<Launch>(instance->functions[f].code->launches);
    function.nodes = instance->memory.allocate_array<CUgraphNode>(launches.count);
    function.stale = instance->memory.allocate_array<bool>(launches.count);
    if (!function.nodes || !function.stale) return fail(TCC_OUT_OF_MEMORY, "no memory for a CUDA instance");
    // A graph's copy node takes up to 2^31 - 1 bytes in a row; a plan with larger ones is launched step by step.
    function.use_graph = !options.no_cuda_graph;
    for (const Launch& launch : launches) {
      if (launch.kind != LaunchKind::kernel && launch.size_bytes > 0x7fffffff) function.use_graph = false;
    }
    if (int status = prepare_arguments(instance, &instance->functions[f], weight_offsets)) return status;
  }
  return TCC_OK;
}

// Memory of the host that kernels write to, only when an index is bad.
int make_bad_indices(tcc_instance* instance) {
  if (instance->num_checks == 0) return TCC_OK;
  const CudaDriver& driver = *instance->cuda->driver;
  void* memory = nullptr;
  const size_t bytes = instance->num_checks * sizeof(int64_t);
  if (CUresult error = driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP))
    return cuda_fail(driver, error, "cuMemHostAlloc", "the checks of indices");
  instance->bad_indices = static_cast<int64_t*>(memory);
  memset(memory, 0, bytes);
  CUdeviceptr address = 0;
  if (CUresult error = driver.cuMemHostGetDevicePointer(&address, memory, 0))
    return cuda_fail(driver, error, "cuMemHostGetDevicePointer", "the checks of indices");
  instance->bad_indices_of_device = reinterpret_cast<int64_t*>(address);
  return TCC_OK;
}

int enter_context(tcc_instance* instance, const tcc_create_options& options, Chip* chip) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  if (options.cuda_context) {
    state->context = static_cast<CUcontext>(options.cuda_context);
    CurrentContext current(driver, state->context);
    CUresult error = current.result();
    if (error == CUDA_SUCCESS) error = driver.cuCtxGetDevice(&state->device);
    if (error != CUDA_SUCCESS) return cuda_fail(driver, error, "cuCtxGetDevice", "the given context");
    // The ordinal of the context's device, which tensors are checked against.
    int count = 0;
    driver.cuDeviceGetCount(&count);
    for (int ordinal = 0; ordinal < count; ordinal++) {
      CUdevice device;
      if (driver.cuDeviceGet(&device, ordinal) == CUDA_SUCCESS && device == state->device) instance->device_ordinal = ordinal;
    }
  } else {
    instance->device_ordinal = options.device_ordinal;
    if (CUresult error = driver.cuDeviceGet(&state->device, options.device_ordinal))
      return cuda_fail(driver, error, "cuDeviceGet", "the device asked for");
    if (CUresult error = driver.cuDevicePrimaryCtxRetain(&state->context, state->device)) {
      state->context = nullptr;
      return cuda_fail(driver, error, "cuDevicePrimaryCtxRetain", "the device asked for");
    }
    state->primary_context = true;
  }
  if (!find_chip(driver, state->device, chip))
    return fail(TCC_DRIVER_ERROR, "the CUDA driver does not tell the compute capability of its device");
  state->capability = chip->capability;
  return TCC_OK;
}

}  // namespace

bool cuda_usable(const ProgramView& view, const Target& target, const tcc_create_options& options, char* reason, size_t reason_bytes) {
  const char* why;
  const CudaDriver* driver = cuda_driver(&why);
  if (!driver) {
    snprintf(reason, reason_bytes, "%s", why);
    return false;
  }
  int count = 0;
  driver->cuDeviceGetCount(&count);
  CUdevice device;
  Chip chip;
  if (options.cuda_context) {
    CurrentContext current(*driver, static_cast<CUcontext>(options.cuda_context));
    if (current.result() != CUDA_SUCCESS || driver->cuCtxGetDevice(&device) != CUDA_SUCCESS || !find_chip(*driver, device, &chip))
      return true;  // create tells what does not fit
  } else if (options.device_ordinal < 0 || options.device_ordinal >= count ||
             driver->cuDeviceGet(&device, options.device_ordinal) != CUDA_SUCCESS || !find_chip(*driver, device, &chip)) {
    snprintf(reason, reason_bytes, "there is no CUDA device %d, the driver has %d", options.device_ordinal, count);
    return false;
  }
  for (const Kernel& kernel : view.rows<Kernel>(target.kernels)) {
    if (kernel.tensor_maps.count > 0 && !driver->cuTensorMapEncodeTiled) {
      snprintf(reason, reason_bytes, "the CUDA driver is older than 12.0, it has no tensor maps: kernel `%.60s`", view.text(kernel.name));
      return false;
    }
    if (best_image(view, target, kernel, chip.capability) == kNoImage) {
      snprintf(reason, reason_bytes, "%s has compute capability %d.%d, for which the library has no code: kernel `%.60s`; see -march",
               chip.name, chip.capability / 10, chip.capability % 10, view.text(kernel.name));
      return false;
    }
  }
  return true;
}

int cuda_create(tcc_instance* instance, const tcc_create_options& options) {
  const Target& target = *instance->target;
  void* memory = instance->memory.allocate(sizeof(CudaState));
  if (!memory) return fail(TCC_OUT_OF_MEMORY, "no memory for a CUDA instance");
  CudaState* state = instance->cuda = static_cast<CudaState*>(memory);
  *state = CudaState{};
  const char* why;
  state->driver = cuda_driver(&why);
  if (!state->driver) return fail(TCC_NO_DEVICE, "%s", why);
  Chip chip;
  if (int status = enter_context(instance, options, &chip)) return status;
  CurrentContext current(*state->driver, state->context);
  if (current.result() != CUDA_SUCCESS) return cuda_fail(*state->driver, current.result(), "cuCtxPushCurrent", "the instance's context");

  const Rows<Kernel> kernels = instance->view.rows<Kernel>(target.kernels);
  state->image_of = instance->memory.allocate_array<uint32_t>(kernels.count);
  if (!state->image_of) return fail(TCC_OUT_OF_MEMORY, "no memory for a CUDA instance");
  for (uint32_t k = 0; k < kernels.count; k++) {
    state->image_of[k] = best_image(instance->view, target, kernels[k], state->capability);
    if (state->image_of[k] == kNoImage) {
      return fail(TCC_NO_DEVICE, "%s has compute capability %d.%d, for which the library has no code: kernel `%s`; see -march", chip.name,
                  state->capability / 10, state->capability % 10, instance->view.text(kernels[k].name));
    }
  }
  if (int status = load_code(instance)) return status;
  if (int status = make_bad_indices(instance)) return status;
  PackedWeights weights;
  if (int status = load_weights(instance, instance->view.rows<FunctionCode>(target.functions), &weights, &state->weights)) return status;
  instance->device_weights_bytes = weights.size_bytes;
  if (int status = share_staging(instance)) return status;
  if (int status = prepare_functions(instance, options, weights.offsets)) return status;
  if (int status = prepare(instance)) return status;
  snprintf(instance->device_name, sizeof instance->device_name, "%s (CUDA device %d, compute capability %d.%d)", chip.name,
           instance->device_ordinal, state->capability / 10, state->capability % 10);
  return TCC_OK;
}

void cuda_destroy(tcc_instance* instance) {
  CudaState* state = instance->cuda;
  if (!state || !state->driver) return;
  const CudaDriver& driver = *state->driver;
  if (state->context) {
    CurrentContext current(driver, state->context);
    if (current.result() == CUDA_SUCCESS) {
      driver.cuCtxSynchronize();  // runs may still be using what is freed below
      for (uint32_t f = 0; state->functions && f < instance->view.functions().count; f++) {
        if (state->functions[f].exec) driver.cuGraphExecDestroy(state->functions[f].exec);
        if (state->functions[f].graph) driver.cuGraphDestroy(state->functions[f].graph);
      }
      if (state->timer_start) driver.cuEventDestroy(state->timer_start);
      if (state->timer_stop) driver.cuEventDestroy(state->timer_stop);
      for (uint32_t i = 0; state->staging && i < instance->view.tensors().count; i++) {
        if (state->staging[i]) driver.cuMemFree(state->staging[i]);
      }
      for (uint32_t i = 0; i < state->num_retired; i++) driver.cuMemFree(state->retired[i]);
      if (state->workspace) driver.cuMemFree(state->workspace);
      if (state->weights) driver.cuMemFree(state->weights);
      if (state->prepared) driver.cuMemFree(state->prepared);
      if (instance->bad_indices) driver.cuMemFreeHost(instance->bad_indices);
      for (char* block : instance->state.blocks) {
        if (block) driver.cuMemFree(reinterpret_cast<uintptr_t>(block));
      }
      for (uint32_t i = 0; state->modules && i < instance->target->images.count; i++) {
        if (state->modules[i]) driver.cuModuleUnload(state->modules[i]);
      }
    }
  }
  if (state->primary_context) driver.cuDevicePrimaryCtxRelease(state->device);
}

}  // namespace tcc::stub

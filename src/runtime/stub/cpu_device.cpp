#include "runtime/stub/cpu_device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/stub/cpu_features.h"
#include "runtime/stub/message.h"
#include "runtime/stub/shared_blocks.h"
#include "runtime/stub/weights.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

// A launch is worth a second thread when each gets this much to do; handing a chunk over takes about half a us.
constexpr double kChunkNs = 2500;
// More chunks than threads even out threads that are slower or come late.
constexpr int64_t kChunksPerThread = 4;
constexpr uint64_t kCopyItemBytes = 64 << 10;
constexpr double kCopyBytesPerNs = 8;
// The runs that are measured: not the first, which finds memory that was never touched.
constexpr int kFirstMeasuredRun = 1, kLastMeasuredRun = 3;

uint64_t constant(void* const* buffers, int i) { return reinterpret_cast<uintptr_t>(buffers[i]); }

// Copy and fill as kernels over 64 KB items. Arguments: see Arguments::prepare().
void copy_items(void* const* buffers, int64_t begin, int64_t end) {
  const uint64_t size = constant(buffers, 2);
  const uint64_t first = static_cast<uint64_t>(begin) * kCopyItemBytes;
  uint64_t last = static_cast<uint64_t>(end) * kCopyItemBytes;
  if (last > size) last = size;
  memmove(static_cast<char*>(buffers[1]) + first, static_cast<const char*>(buffers[0]) + first, last - first);
}

void fill_items(void* const* buffers, int64_t begin, int64_t end) {
  const uint64_t size = constant(buffers, 1);
  const uint32_t pattern = static_cast<uint32_t>(constant(buffers, 2));
  const uint64_t width = constant(buffers, 3);
  const uint64_t first = static_cast<uint64_t>(begin) * kCopyItemBytes;
  uint64_t last = static_cast<uint64_t>(end) * kCopyItemBytes;
  if (last > size) last = size;
  char* at = static_cast<char*>(buffers[0]) + first;
  if (width == 1 || pattern == 0) {
    memset(at, static_cast<int>(pattern & 0xff), last - first);
  } else {
    for (uint64_t i = 0; i < last - first; i += width) memcpy(at + i, &pattern, width);
  }
}

int64_t grid_of(const Launch& launch) {
  return static_cast<int64_t>(launch.kind == LaunchKind::kernel ? launch.grid : (launch.size_bytes + kCopyItemBytes - 1) / kCopyItemBytes);
}

// Into how many parts a launch is cut that takes `cost_ns` on one thread.
uint32_t chunks_for(double cost_ns, int64_t grid, int num_threads) {
  const int64_t threads = num_threads;
  int64_t chunks = static_cast<int64_t>(cost_ns / kChunkNs);
  if (chunks > threads * kChunksPerThread) chunks = threads * kChunksPerThread;
  // Not one chunk more than a round of threads: a launch of 5 chunks on 4 threads takes two rounds.
  if (chunks > threads && chunks < 2 * threads) chunks = threads;
  if (chunks > grid) chunks = grid;
  return num_threads == 1 || chunks < 2 ? 1 : static_cast<uint32_t>(chunks);
}

double estimated_ns(const Launch& launch) {
  return launch.kind == LaunchKind::kernel ? static_cast<double>(launch.cost_ns) : static_cast<double>(launch.size_bytes) / kCopyBytesPerNs;
}

bool any_parallel(const BoundFunction& function) {
  for (uint32_t l = 0; l < function.code->launches.count; l++) {
    if (function.chunks[l] > 1) return true;
  }
  return false;
}

// Takes the place of the plan's estimates by what the first runs measured; see Note [Calibration].
void calibrate(tcc_instance* instance, BoundFunction* function) {
  const Rows<Launch> launches = instance->view.rows<Launch>(function->code->launches);
  const int num_threads = instance->pool.num_threads();
  for (uint32_t l = 0; l < launches.count; l++) {
    const uint32_t chunks = function->chunks[l];
    const double participants = chunks < static_cast<uint32_t>(num_threads) ? chunks : num_threads;
    function->chunks[l] = chunks_for(function->fastest_us[l] * 1e3 * participants, grid_of(launches[l]), num_threads);
  }
}

int choose_functions(tcc_instance* instance, CpuLevel* level) {
  const Target& target = *instance->target;
  const Rows<CpuLevel> levels = instance->view.rows<CpuLevel>(target.levels);
  const CpuLevel have = cpu_level();
  int best = -1;
  for (uint32_t i = 0; i < levels.count; i++) {
    if (levels[i] <= have) best = static_cast<int>(i);  // lowest first
  }
  if (best < 0) {
    return fail(TCC_NO_DEVICE, "this CPU is x86-64-v%u, the library needs at least x86-64-v%u: compile the model with --cpu=x86-64-v%u",
                static_cast<unsigned>(have), levels.count ? static_cast<unsigned>(levels[0]) : 0, static_cast<unsigned>(have));
  }
  *level = levels[static_cast<uint32_t>(best)];
  instance->kernels = tcc_payload.functions + static_cast<uint32_t>(best) * target.kernels.count;
  return TCC_OK;
}

struct Preparation {
  tcc_instance* instance;
  const uint64_t* weight_offsets;
};

int run_preparation(void* user, char* data) {
  const Preparation& preparation = *static_cast<const Preparation*>(user);
  tcc_instance* instance = preparation.instance;
  const ProgramView& view = instance->view;
  const FunctionCode& code = *view.preparation(*instance->target);
  Arguments arguments;
  if (int status = arguments.prepare(view, *instance->target, {code, 0, 0}, preparation.weight_offsets, &instance->memory)) return status;
  arguments.bases()[Arguments::kWeights] = const_cast<char*>(instance->weights);
  arguments.bases()[Arguments::kPrepared] = data;
  arguments.bind();
  const Rows<Launch> launches = view.rows<Launch>(code.launches);
  instance->pool.wake();
  for (uint32_t l = 0; l < launches.count; l++) {
    const int64_t grid = grid_of(launches[l]);
    const uint32_t chunks = chunks_for(estimated_ns(launches[l]), grid, instance->pool.num_threads());
    if (grid > 0) instance->pool.run(instance->kernels[launches[l].kernel], arguments.of(l), grid, chunks);
  }
  return TCC_OK;
}

// Makes of the weights what is made of them once. Instances share it as they share the weights, unless the caller wants to have its memory.
int prepare(tcc_instance* instance, const uint64_t* weight_offsets, const tcc_create_options& options) {
  if (!instance->view.preparation(*instance->target)) return TCC_OK;
  Preparation preparation = {instance, weight_offsets};
  const uint64_t bytes = instance->target->prepared_bytes;
  if (options.allocate) {
    instance->prepared = static_cast<char*>(instance->memory.allocate_large(bytes));
    if (instance->prepared) return run_preparation(&preparation, instance->prepared);
    return fail(TCC_OUT_OF_MEMORY, "no memory for what is made of the weights: %llu bytes", static_cast<unsigned long long>(bytes));
  }
  if (int status = share_block(instance->weights, bytes, {run_preparation, &preparation}, &instance->shared)) return status;
  instance->prepared = instance->shared->data;
  return TCC_OK;
}

}  // namespace

double now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

int cpu_create(tcc_instance* instance, const tcc_create_options& options) {
  const Target& target = *instance->target;
  const ProgramView& view = instance->view;
  CpuLevel level = CpuLevel::v1;
  if (int status = choose_functions(instance, &level)) return status;

  const Rows<program::Tensor> weights = view.weights();
  uint64_t* weight_offsets = instance->memory.allocate_array<uint64_t>(weights.count);
  const int cpus = usable_cpus();
  const int num_threads = instance->num_threads = options.num_threads > 0 ? options.num_threads : cpus;
  instance->workers = instance->memory.allocate_array<pthread_t>(static_cast<size_t>(num_threads));
  PackedWeights packed;  // for its size: on the CPU weights are used where they are mapped
  if (int status = pack_weights(instance, view.rows<FunctionCode>(target.functions), &packed)) return status;
  instance->device_weights_bytes = packed.size_bytes;
  if (!weight_offsets || !instance->workers) return fail(TCC_OUT_OF_MEMORY, "no memory for a CPU instance");
  for (uint32_t w = 0; w < weights.count; w++) weight_offsets[w] = weights[w].offset;

  bool divisible = false;
  for (uint32_t f = 0; f < view.functions().count; f++) {
    BoundFunction& function = instance->functions[f];
    const Rows<Launch> launches = view.rows<Launch>(function.code->launches);
    function.chunks = instance->memory.allocate_array<uint32_t>(launches.count);
    function.fastest_us = instance->memory.allocate_array<double>(launches.count);
    if (!function.chunks || !function.fastest_us) return fail(TCC_OUT_OF_MEMORY, "no memory for a CPU instance");
    const Arguments::Code code{*function.code, function.num_inputs, function.num_outputs};
    if (int status = function.arguments.prepare(view, target, code, weight_offsets, &instance->memory)) return status;
    for (uint32_t l = 0; l < launches.count; l++) {
      const int64_t grid = grid_of(launches[l]);
      function.chunks[l] = chunks_for(estimated_ns(launches[l]), grid, num_threads);
      divisible |= grid > 1;
    }
    function.runs_in_parallel = any_parallel(function);
  }
  if (const FunctionCode* preparation = view.preparation(target)) {
    for (const Launch& launch : view.rows<Launch>(preparation->launches)) divisible |= grid_of(launch) > 1;
  }
  if (!instance->pool.start(divisible ? num_threads : 1, num_threads <= cpus, instance->workers)) {
    return fail(TCC_OUT_OF_MEMORY, "the system gives no %d threads: create the instance with fewer", num_threads);
  }
  snprintf(instance->device_name, sizeof instance->device_name, "CPU, x86-64-v%u, %d thread%s", static_cast<unsigned>(level), num_threads,
           num_threads == 1 ? "" : "s");
  return prepare(instance, weight_offsets, options);
}

void cpu_destroy(tcc_instance* instance) {
  instance->pool.stop();
  if (instance->shared) give_back(instance->shared);
}

int cpu_run(tcc_instance* instance, const RunCall& call, double* launch_us) {
  const ProgramView& view = instance->view;
  BoundFunction& function = *call.function;
  const uint32_t num_inputs = function.num_inputs, num_outputs = function.num_outputs;
  const uint64_t arena_bytes = function.code->arena_bytes;
  void* workspace = call.workspace;
  if (!workspace && arena_bytes > 0) {
    if (instance->own_workspace_bytes < arena_bytes) {
      instance->memory.release(instance->own_workspace);
      instance->own_workspace_bytes = 0;
      instance->own_workspace = instance->memory.allocate_large(arena_bytes);
      if (!instance->own_workspace) {
        return fail(TCC_OUT_OF_MEMORY, "no memory for the workspace of `%s`: %llu bytes", view.text(view.header().model_name),
                    static_cast<unsigned long long>(arena_bytes));
      }
      instance->own_workspace_bytes = arena_bytes;
    }
    workspace = instance->own_workspace;
  }
  if (call.zero_gradients) memset(instance->state.blocks[1], 0, view.header().gradient_bytes);
  Arguments& arguments = function.arguments;
  char** bases = arguments.bases();
  bases[Arguments::kConstant] = nullptr;
  bases[Arguments::kWeights] = const_cast<char*>(instance->weights);
  bases[Arguments::kPrepared] = instance->prepared;
  bases[Arguments::kWorkspace] = static_cast<char*>(workspace);
  bases[Arguments::kChecks] = reinterpret_cast<char*>(instance->bad_indices_of_device + function.first_check);
  for (uint32_t block = 0; block < kNumStateBlocks; block++) bases[Arguments::kState + block] = instance->state.blocks[block];
  for (uint32_t i = 0; i < num_inputs; i++) bases[Arguments::kFirstTensor + i] = static_cast<char*>(call.inputs[i].data);
  for (uint32_t o = 0; o < num_outputs; o++) bases[Arguments::kFirstTensor + num_inputs + o] = static_cast<char*>(call.outputs[o].data);
  arguments.bind();

  const int run = function.num_runs;
  const bool measured = run >= kFirstMeasuredRun && run <= kLastMeasuredRun && instance->pool.num_threads() > 1;
  const Rows<Launch> launches = view.rows<Launch>(function.code->launches);
  if (function.runs_in_parallel) instance->pool.wake();
  for (uint32_t l = 0; l < launches.count; l++) {
    const Launch& launch = launches[l];
    const int64_t grid = grid_of(launch);
    const double start = launch_us || measured ? now_us() : 0;
    if (grid > 0) {
      const CpuFunction kernel = launch.kind == LaunchKind::kernel ? instance->kernels[launch.kernel]
                                 : launch.kind == LaunchKind::copy ? copy_items
                                                                   : fill_items;
      instance->pool.run(kernel, arguments.of(l), grid, function.chunks[l]);
    }
    if (launch_us) launch_us[l] = now_us() - start;
    if (measured) {
      const double took = now_us() - start;
      if (run == kFirstMeasuredRun || took < function.fastest_us[l]) function.fastest_us[l] = took;
    }
  }
  if (run <= kLastMeasuredRun) function.num_runs++;
  if (measured && run == kLastMeasuredRun) {
    calibrate(instance, &function);
    function.runs_in_parallel = any_parallel(function);
  }
  return TCC_OK;
}

// Note [Calibration]
// Whether a launch is worth more than one thread depends on how long it takes here, on this CPU with these caches. The plan's estimate
// decides in the first runs; then the fastest of three measured runs does: the time on the caller alone, or, for a launch that several
// threads share, their time together. Results do not depend on it: items of a grid are independent.

}  // namespace tcc::stub

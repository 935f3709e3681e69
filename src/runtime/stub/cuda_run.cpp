// One run on a CUDA device: host tensors to the device, the launches, and back.
//
// The launches are a CUDA graph, built on the first run and replayed: a chain, since the plan reuses memory in launch order. When
// addresses change between runs only the nodes that hold them are patched. A stream that is capturing gets the launches themselves.
#include <stdio.h>

#include <initializer_list>

#include "runtime/stub/cpu_device.h"
#include "runtime/stub/cuda_device.h"
#include "runtime/stub/message.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

// "kernel `k3` (`fc1/Gemm + relu`)": what a driver error was about.
struct LaunchText {
  char text[400];
  LaunchText(const ProgramView& view, const Target& target, const Launch& launch) {
    const char* name = launch.kind == LaunchKind::kernel ? view.text(view.rows<Kernel>(target.kernels)[launch.kernel].name)
                       : launch.kind == LaunchKind::copy ? "copy"
                                                         : "fill";
    snprintf(text, sizeof text, "kernel `%.80s` (`%.200s`), grid %llu", name, view.text(launch.label),
             static_cast<unsigned long long>(launch.grid));
  }
};

CUdeviceptr device_address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

bool launches_nothing(const Launch& launch) { return launch.kind == LaunchKind::kernel ? launch.grid == 0 : launch.size_bytes == 0; }

// --- allocation on first use ------------------------------------------------------------------------------------------------------------

int allocate_once(const CudaDriver& driver, CUdeviceptr* memory, uint64_t bytes, const char* what) {
  if (*memory || bytes == 0) return TCC_OK;
  // A capture anywhere in this thread forbids allocation, which has nothing to do with it, unless told otherwise.
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  const CUresult error = driver.cuMemAlloc(memory, bytes);
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (error == CUDA_SUCCESS) return TCC_OK;
  *memory = 0;
  char text[256];
  snprintf(text, sizeof text, "%llu bytes for %s", static_cast<unsigned long long>(bytes), what);
  return cuda_fail(driver, error, "cuMemAlloc", text);
}

bool on_host(const tcc_tensor& tensor) { return tensor.device != TCC_DEVICE_CUDA; }

// --- launches one by one ------------------------------------------------------------------------------------------------------------------

int launch_one(tcc_instance* instance, const BoundFunction& function, uint32_t l, CUstream stream) {
  const CudaDriver& driver = *instance->cuda->driver;
  const Target& target = *instance->target;
  const Launch& launch = instance->view.rows<Launch>(function.code->launches)[l];
  if (launches_nothing(launch)) return TCC_OK;
  void** arguments = function.arguments.of(l);
  CUresult error = CUDA_SUCCESS;
  const char* call = "";
  if (launch.kind == LaunchKind::kernel) {
    const Kernel& kernel = instance->view.rows<Kernel>(target.kernels)[launch.kernel];
    call = "cuLaunchKernel";
    error = driver.cuLaunchKernel(instance->cuda->kernels[launch.kernel], static_cast<unsigned>(launch.grid), 1, 1, kernel.threads, 1, 1,
                                  kernel.shared_bytes, stream, function.arguments.pointers_of(l), nullptr);
  } else if (launch.kind == LaunchKind::copy) {
    call = "cuMemcpyDtoDAsync";
    error = driver.cuMemcpyDtoDAsync(device_address(arguments[1]), device_address(arguments[0]), launch.size_bytes, stream);
  } else {
    const CUdeviceptr to = device_address(arguments[0]);
    call = "cuMemsetAsync";
    error = launch.pattern_bytes == 4 ? driver.cuMemsetD32Async(to, launch.pattern, launch.size_bytes / 4, stream)
            : launch.pattern_bytes == 2
                ? driver.cuMemsetD16Async(to, static_cast<unsigned short>(launch.pattern), launch.size_bytes / 2, stream)
                : driver.cuMemsetD8Async(to, static_cast<unsigned char>(launch.pattern), launch.size_bytes, stream);
  }
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, call, LaunchText(instance->view, target, launch).text);
}

int launch_all(tcc_instance* instance, const BoundFunction& function, CUstream stream) {
  for (uint32_t l = 0; l < function.code->launches.count; l++) {
    if (int status = launch_one(instance, function, l, stream)) return status;
  }
  return TCC_OK;
}

// --- tensor maps: the addresses of their arrays are part of them ------------------------------------------------------------------------

// The copy engine moves bytes: of 8-bit dtypes it knows no other.
int map_dtype(uint32_t dtype) {
  switch (dtype) {
    case TCC_F32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case TCC_F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TCC_BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

int encode_maps(tcc_instance* instance, const BoundFunction& function, uint32_t l) {
  const Launch& launch = instance->view.rows<Launch>(function.code->launches)[l];
  if (launches_nothing(launch)) return TCC_OK;
  const Target& target = *instance->target;
  const Span span = instance->view.tensor_maps(target, launch);
  const CudaDriver& driver = *instance->cuda->driver;
  for (uint32_t m = 0; m < span.count; m++) {
    const TensorMap& map = instance->view.rows<TensorMap>(target.tensor_maps)[span.first + m];
    const int swizzle = map.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                        : map.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                        : map.swizzle_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                  : CU_TENSOR_MAP_SWIZZLE_NONE;
    unsigned long long extents[5], strides[4];
    for (uint32_t axis = 0; axis < map.num_axes; axis++) extents[axis] = map.extents[axis];
    for (uint32_t axis = 0; axis + 1 < map.num_axes; axis++) strides[axis] = map.strides[axis];
    if (CUresult error = driver.cuTensorMapEncodeTiled(static_cast<CUtensorMap*>(function.arguments.map_pointers_of(l)[m]),
                                                       map_dtype(map.dtype), map.num_axes, function.arguments.of(l)[map.buffer], extents,
                                                       strides, map.box, map.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
      return cuda_fail(driver, error, "cuTensorMapEncodeTiled", LaunchText(instance->view, target, launch).text);
  }
  return TCC_OK;
}

// --- the graph --------------------------------------------------------------------------------------------------------------------------

CUDA_KERNEL_NODE_PARAMS kernel_node(tcc_instance* instance, const BoundFunction& function, const Launch& launch, uint32_t l) {
  const Kernel& kernel = instance->view.rows<Kernel>(instance->target->kernels)[launch.kernel];
  return {instance->cuda->kernels[launch.kernel],
          static_cast<unsigned>(launch.grid),
          1,
          1,
          kernel.threads,
          1,
          1,
          kernel.shared_bytes,
          function.arguments.pointers_of(l),
          nullptr};
}

CUDA_MEMCPY3D copy_node(const BoundFunction& function, const Launch& launch, uint32_t l) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = device_address(function.arguments.of(l)[0]);
  copy.dstDevice = device_address(function.arguments.of(l)[1]);
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = launch.size_bytes;
  copy.Height = copy.Depth = copy.srcHeight = copy.dstHeight = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fill_node(const BoundFunction& function, const Launch& launch, uint32_t l) {
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = device_address(function.arguments.of(l)[0]);
  fill.value = launch.pattern;
  fill.elementSize = launch.pattern_bytes;
  fill.width = launch.size_bytes / launch.pattern_bytes;
  fill.height = 1;
  return fill;
}

// "function `step`": what a driver error was about.
struct FunctionText {
  char text[120];
  FunctionText(const tcc_instance* instance, const BoundFunction& function) {
    snprintf(text, sizeof text, "function `%.100s`", instance->view.text(instance->view.functions()[function.number].name));
  }
};

int build_graph(tcc_instance* instance, const BoundFunction& function, CUstream stream) {
  CudaState* state = instance->cuda;
  CudaFunction* graph = &state->functions[function.number];
  const CudaDriver& driver = *state->driver;
  const Target& target = *instance->target;
  const Rows<Launch> launches = instance->view.rows<Launch>(function.code->launches);
  const FunctionText what(instance, function);
  if (CUresult error = driver.cuGraphCreate(&graph->graph, 0)) return cuda_fail(driver, error, "cuGraphCreate", what.text);
  const CUgraphNode* last = nullptr;
  for (uint32_t l = 0; l < launches.count; l++) {
    const Launch& launch = launches[l];
    if (launches_nothing(launch)) continue;
    CUgraphNode* node = &graph->nodes[l];
    const size_t num_dependencies = last ? 1 : 0;
    CUresult error;
    const char* call;
    if (launch.kind == LaunchKind::kernel) {
      const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(instance, function, launch, l);
      call = "cuGraphAddKernelNode";
      error = driver.cuGraphAddKernelNode(node, graph->graph, last, num_dependencies, &parameters);
    } else if (launch.kind == LaunchKind::copy) {
      const CUDA_MEMCPY3D parameters = copy_node(function, launch, l);
      call = "cuGraphAddMemcpyNode";
      error = driver.cuGraphAddMemcpyNode(node, graph->graph, last, num_dependencies, &parameters, state->context);
    } else {
      const CUDA_MEMSET_NODE_PARAMS parameters = fill_node(function, launch, l);
      call = "cuGraphAddMemsetNode";
      error = driver.cuGraphAddMemsetNode(node, graph->graph, last, num_dependencies, &parameters, state->context);
    }
    if (error != CUDA_SUCCESS) return cuda_fail(driver, error, call, LaunchText(instance->view, target, launch).text);
    graph->stale[l] = false;
    last = node;
  }
  if (CUresult error = driver.cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0)) {
    graph->exec = nullptr;
    return cuda_fail(driver, error, "cuGraphInstantiateWithFlags", what.text);
  }
  if (CUresult error = driver.cuGraphUpload(graph->exec, stream)) return cuda_fail(driver, error, "cuGraphUpload", what.text);
  return TCC_OK;
}

int patch_graph(tcc_instance* instance, const BoundFunction& function) {
  CudaState* state = instance->cuda;
  CudaFunction* graph = &state->functions[function.number];
  const CudaDriver& driver = *state->driver;
  const Target& target = *instance->target;
  const Rows<Launch> launches = instance->view.rows<Launch>(function.code->launches);
  for (uint32_t l = 0; l < launches.count; l++) {
    if (!graph->stale[l]) continue;
    const Launch& launch = launches[l];
    CUresult error = CUDA_SUCCESS;
    const char* call = "";
    if (launches_nothing(launch)) {
      // has no node
    } else if (launch.kind == LaunchKind::kernel) {
      const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(instance, function, launch, l);
      call = "cuGraphExecKernelNodeSetParams";
      error = driver.cuGraphExecKernelNodeSetParams(graph->exec, graph->nodes[l], &parameters);
    } else if (launch.kind == LaunchKind::copy) {
      const CUDA_MEMCPY3D parameters = copy_node(function, launch, l);
      call = "cuGraphExecMemcpyNodeSetParams";
      error = driver.cuGraphExecMemcpyNodeSetParams(graph->exec, graph->nodes[l], &parameters, state->context);
    } else {
      const CUDA_MEMSET_NODE_PARAMS parameters = fill_node(function, launch, l);
      call = "cuGraphExecMemsetNodeSetParams";
      error = driver.cuGraphExecMemsetNodeSetParams(graph->exec, graph->nodes[l], &parameters, state->context);
    }
    if (error != CUDA_SUCCESS) return cuda_fail(driver, error, call, LaunchText(instance->view, target, launch).text);
    graph->stale[l] = false;
  }
  return TCC_OK;
}

// A graph that failed half-way is thrown away, so that the next run begins anew.
void drop_graph(const CudaDriver& driver, CudaFunction* graph) {
  if (graph->exec) driver.cuGraphExecDestroy(graph->exec);
  if (graph->graph) driver.cuGraphDestroy(graph->graph);
  graph->exec = nullptr;
  graph->graph = nullptr;
}

int launch_graph(tcc_instance* instance, const BoundFunction& function, CUstream stream) {
  const CudaDriver& driver = *instance->cuda->driver;
  CudaFunction* graph = &instance->cuda->functions[function.number];
  const int status = graph->exec ? patch_graph(instance, function) : build_graph(instance, function, stream);
  if (status != TCC_OK) {
    drop_graph(driver, graph);
    return status;
  }
  if (CUresult error = driver.cuGraphLaunch(graph->exec, stream))
    return cuda_fail(driver, error, "cuGraphLaunch", FunctionText(instance, function).text);
  return TCC_OK;
}

// --- timing ---------------------------------------------------------------------------------------------------------------------------

int make_timers(CudaState* state) {
  for (CUevent* event : {&state->timer_start, &state->timer_stop}) {
    if (*event) continue;
    if (CUresult error = state->driver->cuEventCreate(event, 0)) {
      *event = nullptr;
      return cuda_fail(*state->driver, error, "cuEventCreate", "the timer");
    }
  }
  return TCC_OK;
}

int read_timers(CudaState* state, double* us) {
  const CudaDriver& driver = *state->driver;
  float milliseconds = 0;
  if (CUresult error = driver.cuEventSynchronize(state->timer_stop))
    return cuda_fail(driver, error, "cuEventSynchronize", "the timed work");
  if (CUresult error = driver.cuEventElapsedTime(&milliseconds, state->timer_start, state->timer_stop)) {
    return cuda_fail(driver, error, "cuEventElapsedTime", "the timed work");
  }
  *us = static_cast<double>(milliseconds) * 1e3;
  return TCC_OK;
}

int record(CudaState* state, CUevent event, CUstream stream) {
  const CUresult error = state->driver->cuEventRecord(event, stream);
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(*state->driver, error, "cuEventRecord", "the timer");
}

int launch_and_time_each(tcc_instance* instance, const BoundFunction& function, CUstream stream, double* launch_us) {
  CudaState* state = instance->cuda;
  if (int status = make_timers(state)) return status;
  for (uint32_t l = 0; l < function.code->launches.count; l++) {
    if (int status = record(state, state->timer_start, stream)) return status;
    if (int status = launch_one(instance, function, l, stream)) return status;
    if (int status = record(state, state->timer_stop, stream)) return status;
    if (int status = read_timers(state, &launch_us[l])) return status;
  }
  return TCC_OK;
}

// --- copies of host tensors ---------------------------------------------------------------------------------------------------------

// The device's copy of a host tensor, by its row in the program's tensors.
CUdeviceptr* staging(CudaState* state, uint32_t tensor) { return &state->staging[state->staging_of[tensor]]; }

int copy_inputs(tcc_instance* instance, const RunCall& call, CUstream stream) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  const Span span = instance->view.functions()[call.function->number].inputs;
  const Rows<program::Tensor> inputs = instance->view.tensors().part(span);
  for (uint32_t i = 0; i < inputs.count; i++) {
    if (!on_host(call.inputs[i]) || inputs[i].size_bytes == 0) continue;
    const CUdeviceptr to = *staging(state, span.first + i);
    if (CUresult error = driver.cuMemcpyHtoDAsync(to, call.inputs[i].data, inputs[i].size_bytes, stream)) {
      char what[160];
      snprintf(what, sizeof what, "input `%.120s`", instance->view.text(inputs[i].name));
      return cuda_fail(driver, error, "cuMemcpyHtoDAsync", what);
    }
  }
  return TCC_OK;
}

int copy_outputs(tcc_instance* instance, const RunCall& call, CUstream stream) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  const Span span = instance->view.functions()[call.function->number].outputs;
  const Rows<program::Tensor> outputs = instance->view.tensors().part(span);
  for (uint32_t o = 0; o < outputs.count; o++) {
    if (!on_host(call.outputs[o]) || outputs[o].size_bytes == 0) continue;
    const CUdeviceptr from = *staging(state, span.first + o);
    if (CUresult error = driver.cuMemcpyDtoHAsync(call.outputs[o].data, from, outputs[o].size_bytes, stream)) {
      char what[160];
      snprintf(what, sizeof what, "output `%.120s`", instance->view.text(outputs[o].name));
      return cuda_fail(driver, error, "cuMemcpyDtoHAsync", what);
    }
  }
  return TCC_OK;
}

// --- addresses --------------------------------------------------------------------------------------------------------------------------

// The instance's own workspace serves all functions; when one comes that needs more, a larger one takes its place. Graphs that the caller
// captured with the old one may still run: then it stays.
int own_workspace(tcc_instance* instance, uint64_t bytes, bool capturing) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  if (state->workspace_bytes < bytes) {
    CUdeviceptr old = state->workspace;
    const bool old_captured = state->workspace_captured;
    if (old && !old_captured && !capturing) {
      driver.cuCtxSynchronize();  // an earlier run may still be using it
      driver.cuMemFree(old);
      old = state->workspace = state->workspace_bytes = 0;
    }
    CUdeviceptr larger = 0;
    if (int status = allocate_once(driver, &larger, bytes, "the workspace")) return status;
    if (old) state->retired[state->num_retired++] = old;
    state->workspace = larger;
    state->workspace_bytes = bytes;
    state->workspace_captured = false;
  }
  state->workspace_captured |= capturing;
  return TCC_OK;
}

// Fills in the addresses for this run, allocating what is not there yet.
int place_buffers(tcc_instance* instance, const RunCall& call, bool capturing, bool* any_host) {
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  char** bases = call.function->arguments.bases();
  bases[Arguments::kConstant] = nullptr;
  bases[Arguments::kWeights] = reinterpret_cast<char*>(state->weights);
  bases[Arguments::kPrepared] = instance->prepared;
  bases[Arguments::kChecks] = reinterpret_cast<char*>(instance->bad_indices_of_device + call.function->first_check);
  for (uint32_t block = 0; block < kNumStateBlocks; block++) bases[Arguments::kState + block] = instance->state.blocks[block];
  const Function& function = instance->view.functions()[call.function->number];
  const Rows<program::Tensor> inputs = instance->view.tensors().part(function.inputs);
  const Rows<program::Tensor> outputs = instance->view.tensors().part(function.outputs);
  for (uint32_t t = 0; t < inputs.count + outputs.count; t++) {
    const bool is_input = t < inputs.count;
    const tcc_tensor& tensor = is_input ? call.inputs[t] : call.outputs[t - inputs.count];
    const program::Tensor& expected = is_input ? inputs[t] : outputs[t - inputs.count];
    if (on_host(tensor)) {
      *any_host = true;
      CUdeviceptr* memory = staging(state, is_input ? function.inputs.first + t : function.outputs.first + t - inputs.count);
      if (int status = allocate_once(driver, memory, expected.size_bytes, instance->view.text(expected.name))) return status;
      bases[Arguments::kFirstTensor + t] = reinterpret_cast<char*>(*memory);
    } else {
      bases[Arguments::kFirstTensor + t] = static_cast<char*>(tensor.data);
    }
  }
  if (call.workspace) {
    bases[Arguments::kWorkspace] = static_cast<char*>(call.workspace);
  } else {
    const uint64_t bytes = call.function->code->arena_bytes;
    if (int status = own_workspace(instance, bytes, capturing)) return status;
    // A function without intermediate values is not to be patched when others make the workspace grow.
    bases[Arguments::kWorkspace] = bytes ? reinterpret_cast<char*>(state->workspace) : nullptr;
  }
  return TCC_OK;
}

// --- state ------------------------------------------------------------------------------------------------------------------------------

CUresult fill_async(const CudaDriver& driver, CUdeviceptr to, uint64_t pattern, uint32_t pattern_bytes, uint64_t bytes, CUstream stream) {
  switch (pattern_bytes) {
    case 1: return driver.cuMemsetD8Async(to, static_cast<unsigned char>(pattern), bytes, stream);
    case 2: return driver.cuMemsetD16Async(to, static_cast<unsigned short>(pattern), bytes / 2, stream);
    default: return driver.cuMemsetD32Async(to, static_cast<unsigned>(pattern), bytes / 4, stream);
  }
}

// Scalars that the device has other values of. What is captured brings its values along, whatever the device has when it is replayed;
// later runs cannot know that, and bring theirs.
int write_scalars(tcc_instance* instance, bool capturing, CUstream stream) {
  const CudaDriver& driver = *instance->cuda->driver;
  const Rows<Scalar> scalars = instance->view.scalars();
  for (uint32_t i = 0; i < scalars.count; i++) {
    if (!instance->state.stale_scalars[i] && !capturing) continue;
    const CUdeviceptr at =
        device_address(instance->state.blocks[0]) + scalars_offset(instance->view.header().state_bytes) + i * kScalarBytes;
    const uint64_t bits = instance->state.scalars[i];
    // Both words, whatever the dtype's size: there is room.
    for (uint32_t word = 0; word < 2; word++) {
      if (CUresult error = driver.cuMemsetD32Async(at + 4 * word, static_cast<unsigned>(bits >> (32 * word)), 1, stream)) {
        char what[160];
        snprintf(what, sizeof what, "scalar `%.120s`", instance->view.text(scalars[i].name));
        return cuda_fail(driver, error, "cuMemsetD32Async", what);
      }
    }
    instance->state.stale_scalars[i] = capturing;
  }
  return TCC_OK;
}

int prepare_state(tcc_instance* instance, const RunCall& call, bool capturing, CUstream stream) {
  if (int status = write_scalars(instance, capturing, stream)) return status;
  if (!call.zero_gradients) return TCC_OK;
  const CudaDriver& driver = *instance->cuda->driver;
  const CUresult error =
      driver.cuMemsetD8Async(device_address(instance->state.blocks[1]), 0, instance->view.header().gradient_bytes, stream);
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuMemsetD8Async", "the gradients");
}

}  // namespace

int cuda_run(tcc_instance* instance, const RunCall& call, const CudaMeasure& measure, bool* waited) {
  const double start_us = measure.timing ? now_us() : 0;
  CudaState* state = instance->cuda;
  const CudaDriver& driver = *state->driver;
  const CUstream stream = static_cast<CUstream>(call.stream);
  BoundFunction& function = *call.function;
  CudaFunction& graph = state->functions[function.number];
  CurrentContext current(driver, state->context);
  if (current.result() != CUDA_SUCCESS) return cuda_fail(driver, current.result(), "cuCtxPushCurrent", "the instance's context");

  int capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (CUresult error = driver.cuStreamIsCapturing(stream, &capture))
    return cuda_fail(driver, error, "cuStreamIsCapturing", "the given stream");
  const bool capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  bool any_host = false;
  if (int status = place_buffers(instance, call, capturing, &any_host)) return status;
  if (capturing) {
    if (any_host)
      return fail(TCC_INVALID_ARGUMENT, "the stream is capturing, which allows no wait: all inputs and outputs must be in device memory");
    if (measure.timing || measure.launch_us) return fail(TCC_INVALID_ARGUMENT, "the stream is capturing: a run cannot be timed there");
  }
  if (function.arguments.bind()) {
    for (uint32_t l = 0; l < function.code->launches.count; l++) {
      if (!function.arguments.moved(l)) continue;
      graph.stale[l] = true;
      if (int status = encode_maps(instance, function, l)) return status;
    }
  }

  if (measure.timing) {
    if (int status = make_timers(state)) return status;
    if (int status = record(state, state->timer_start, stream)) return status;
  }
  if (int status = prepare_state(instance, call, capturing, stream)) return status;
  if (int status = copy_inputs(instance, call, stream)) return status;
  int status;
  if (measure.launch_us) {
    status = launch_and_time_each(instance, function, stream, measure.launch_us);
  } else if (graph.use_graph && !capturing) {
    status = launch_graph(instance, function, stream);
  } else {
    status = launch_all(instance, function, stream);
  }
  if (status != TCC_OK) return status;
  if (int copied = copy_outputs(instance, call, stream)) return copied;
  if (measure.timing) {
    if (int recorded = record(state, state->timer_stop, stream)) return recorded;
    measure.timing->host_us = now_us() - start_us;
    if (int read = read_timers(state, &measure.timing->device_us)) return read;
  }
  if (any_host || measure.timing || measure.launch_us) {
    if (CUresult error = driver.cuStreamSynchronize(stream)) return cuda_fail(driver, error, "cuStreamSynchronize", "a run of the model");
  }
  *waited = any_host || measure.timing || measure.launch_us;
  return TCC_OK;
}

int cuda_run_preparation(tcc_instance* instance, BoundFunction* preparation, CUdeviceptr weights) {
  const CudaDriver& driver = *instance->cuda->driver;
  preparation->arguments.bases()[Arguments::kWeights] = reinterpret_cast<char*>(weights);
  preparation->arguments.bases()[Arguments::kPrepared] = instance->prepared;
  preparation->arguments.bind();
  for (uint32_t l = 0; l < preparation->code->launches.count; l++) {
    if (int status = encode_maps(instance, *preparation, l)) return status;
  }
  if (int status = launch_all(instance, *preparation, nullptr)) return status;
  // Runs may be on streams that don't wait for this one.
  const CUresult error = driver.cuStreamSynchronize(nullptr);
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuStreamSynchronize", "what is made of the weights");
}

int cuda_allocate(tcc_instance* instance, uint64_t bytes, void** memory) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  CUdeviceptr address = 0;
  if (int status = allocate_once(driver, &address, bytes ? bytes : 1, "the caller")) return status;
  *memory = reinterpret_cast<void*>(address);
  return TCC_OK;
}

int cuda_deallocate(tcc_instance* instance, void* memory) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  const CUresult error = driver.cuMemFree(device_address(memory));
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuMemFree", "memory of the caller");
}

int cuda_copy(tcc_instance* instance, void* destination, bool to_device, const void* source, bool from_device, uint64_t bytes) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  if (bytes == 0) return TCC_OK;
  const char* call = to_device && from_device ? "cuMemcpyDtoD" : to_device ? "cuMemcpyHtoD" : "cuMemcpyDtoH";
  const CUresult error = to_device && from_device ? driver.cuMemcpyDtoD(device_address(destination), device_address(source), bytes)
                         : to_device              ? driver.cuMemcpyHtoD(device_address(destination), source, bytes)
                                                  : driver.cuMemcpyDtoH(destination, device_address(source), bytes);
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, call, "memory of the caller");
}

int cuda_synchronize(tcc_instance* instance, void* stream) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  const CUresult error = driver.cuStreamSynchronize(static_cast<CUstream>(stream));
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuStreamSynchronize", "the given stream");
}

int cuda_allocate_state(tcc_instance* instance, uint32_t block, uint64_t bytes) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  CUdeviceptr address = 0;
  if (int status = allocate_once(driver, &address, bytes, block == 0 ? "the state" : "the gradients")) return status;
  instance->state.blocks[block] = reinterpret_cast<char*>(address);
  return TCC_OK;
}

int cuda_fill(tcc_instance* instance, void* memory, uint64_t pattern, uint32_t pattern_bytes, uint64_t bytes) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  if (bytes == 0) return TCC_OK;
  const CUresult error = fill_async(driver, device_address(memory), pattern, pattern_bytes, bytes, nullptr);
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuMemsetAsync", "the state");
}

int cuda_wait_for_all(tcc_instance* instance) {
  const CudaDriver& driver = *instance->cuda->driver;
  CurrentContext current(driver, instance->cuda->context);
  const CUresult error = driver.cuCtxSynchronize();
  return error == CUDA_SUCCESS ? TCC_OK : cuda_fail(driver, error, "cuCtxSynchronize", "the instance's context");
}

}  // namespace tcc::stub

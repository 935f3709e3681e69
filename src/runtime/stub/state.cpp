#include "runtime/stub/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stub/cuda_device.h"
#include "runtime/stub/message.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

constexpr uint64_t kPieceElements = 64 << 10;  // of a conversion or a pattern on its way to a CUDA device

bool on_cuda(const tcc_instance* instance) { return instance->device == TCC_DEVICE_CUDA; }

int allocate_block(tcc_instance* instance, uint32_t block, uint64_t bytes) {
  if (bytes == 0 || instance->state.blocks[block]) return TCC_OK;
  if (on_cuda(instance)) return cuda_allocate_state(instance, block, bytes);
  char* memory = static_cast<char*>(instance->memory.allocate_large(bytes));
  if (!memory) return fail(TCC_OUT_OF_MEMORY, "no memory for the state: %llu bytes", static_cast<unsigned long long>(bytes));
  instance->state.blocks[block] = memory;
  return TCC_OK;
}

int copy_to_device(tcc_instance* instance, char* to, const void* from, uint64_t bytes) {
  if (on_cuda(instance)) return cuda_copy(instance, to, true, from, false, bytes);
  memcpy(to, from, bytes);
  return TCC_OK;
}

// Pattern widths above 4 are written through the host when the halves differ: the driver fills with 4 bytes at most.
int fill(tcc_instance* instance, char* to, uint64_t pattern, uint32_t pattern_bytes, uint64_t bytes) {
  if (pattern == 0) pattern_bytes = 1;
  if (pattern_bytes == 8 && static_cast<uint32_t>(pattern) == pattern >> 32) pattern_bytes = 4;
  if (on_cuda(instance) && pattern_bytes <= 4) return cuda_fill(instance, to, pattern, pattern_bytes, bytes);
  if (!on_cuda(instance) && pattern_bytes == 1) {
    memset(to, static_cast<int>(pattern & 0xff), bytes);
    return TCC_OK;
  }
  const uint64_t piece_bytes = bytes < kPieceElements * pattern_bytes ? bytes : kPieceElements * pattern_bytes;
  char* piece = on_cuda(instance) ? static_cast<char*>(malloc(piece_bytes)) : to;
  if (!piece) return fail(TCC_OUT_OF_MEMORY, "no memory for the first contents of the state");
  const uint64_t prepared = on_cuda(instance) ? piece_bytes : bytes;
  for (uint64_t i = 0; i < prepared; i += pattern_bytes) memcpy(piece + i, &pattern, pattern_bytes);
  int status = TCC_OK;
  if (on_cuda(instance)) {
    for (uint64_t at = 0; at < bytes && status == TCC_OK; at += piece_bytes)
      status = copy_to_device(instance, to + at, piece, bytes - at < piece_bytes ? bytes - at : piece_bytes);
    free(piece);
  }
  return status;
}

char* address(const tcc_instance* instance, const StateTensor& tensor) {
  return instance->state.blocks[block_of(tensor.role)] + tensor.offset;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint32_t f16_to_f32_bits(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
  if (exponent != 0) return sign | (exponent + 112) << 23 | fraction << 13;
  return sign | bits_of(static_cast<float>(fraction) * 0x1p-24f);  // subnormal: exact
}

// `data`: 16-bit floats, one for each f32 of the tensor.
int write_converted(tcc_instance* instance, const StateTensor& tensor, uint32_t dtype, const void* data) {
  const uint64_t count = tensor.size_bytes / 4;
  const uint64_t piece = count < kPieceElements ? count : kPieceElements;
  uint32_t* converted = static_cast<uint32_t*>(malloc(piece ? piece * 4 : 1));
  if (!converted) return fail(TCC_OUT_OF_MEMORY, "no memory to convert `%.200s`", instance->view.text(tensor.name));
  int status = TCC_OK;
  for (uint64_t at = 0; at < count && status == TCC_OK; at += piece) {
    const uint64_t n = count - at < piece ? count - at : piece;
    for (uint64_t i = 0; i < n; i++) {
      uint16_t half;
      memcpy(&half, static_cast<const char*>(data) + 2 * (at + i), sizeof half);
      converted[i] = dtype == TCC_BF16 ? static_cast<uint32_t>(half) << 16 : f16_to_f32_bits(half);
    }
    status = copy_to_device(instance, address(instance, tensor) + 4 * at, converted, 4 * n);
  }
  free(converted);
  return status;
}

// `zeroed`: the block is zeros already.
int write_initial(tcc_instance* instance, const StateTensor& tensor, bool zeroed) {
  if (tensor.size_bytes == 0) return TCC_OK;
  if (tensor.initial != kNoWeight) {
    const program::Tensor& initial = instance->view.weights()[tensor.initial];
    if (initial.dtype != tensor.dtype) return write_converted(instance, tensor, initial.dtype, instance->weights + initial.offset);
    return copy_to_device(instance, address(instance, tensor), instance->weights + initial.offset, tensor.size_bytes);
  }
  if (tensor.pattern == 0 && zeroed) return TCC_OK;
  return fill(instance, address(instance, tensor), tensor.pattern, tensor.pattern_bytes, tensor.size_bytes);
}

}  // namespace

int wait_for_state(tcc_instance* instance) { return on_cuda(instance) ? cuda_wait_for_all(instance) : TCC_OK; }

int allocate_gradients(tcc_instance* instance) { return allocate_block(instance, 1, instance->view.header().gradient_bytes); }

int need_gradients(tcc_instance* instance) {
  if (instance->view.header().gradient_bytes == 0 || instance->state.gradients_zeroed) return TCC_OK;
  if (int status = allocate_gradients(instance)) return status;
  if (int status = clear_gradients(instance)) return status;
  return wait_for_state(instance);
}

int create_state(tcc_instance* instance) {
  const ProgramView& view = instance->view;
  const Rows<Scalar> scalars = view.scalars();
  State& state = instance->state;
  state.scalars = instance->memory.allocate_array<uint64_t>(scalars.count);
  state.stale_scalars = instance->memory.allocate_array<bool>(scalars.count);
  if (!state.scalars || !state.stale_scalars) return fail(TCC_OUT_OF_MEMORY, "no memory for an instance");
  for (uint32_t f = 0; f < view.functions().count; f++) {
    const char* name = view.text(view.functions()[f].name);
    if (strcmp(name, "step") == 0) state.step = f;
    if (strcmp(name, "accumulate") == 0) state.accumulate = f;
    if (strcmp(name, "backward") == 0) state.backward = f;
  }
  if (int status = allocate_block(instance, 0, state_block_bytes(view.header().state_bytes, scalars.count))) return status;
  if (int status = reset_state(instance)) return status;
  for (uint32_t i = 0; i < scalars.count; i++) {
    state.scalars[i] = scalars[i].default_bits;
    char* at = state.blocks[0] + scalars_offset(view.header().state_bytes) + i * kScalarBytes;
    if (int status = copy_to_device(instance, at, &state.scalars[i], sizeof state.scalars[i])) return status;
  }
  return TCC_OK;
}

int clear_gradients(tcc_instance* instance) {
  State& state = instance->state;
  state.micro_batch = 0;
  if (!state.blocks[1]) return TCC_OK;
  state.gradients_zeroed = state.gradients_clean = true;
  return fill(instance, state.blocks[1], 0, 1, instance->view.header().gradient_bytes);
}

int reset_state(tcc_instance* instance) {
  const uint64_t bytes = instance->view.header().state_bytes;
  if (int status = wait_for_state(instance)) return status;
  if (bytes > 0) {
    // All of it, so that the gaps between tensors are zeros too.
    if (int status = fill(instance, instance->state.blocks[0], 0, 1, bytes)) return status;
  }
  for (const StateTensor& tensor : instance->view.state()) {
    if (block_of(tensor.role) != 0) continue;
    if (int status = write_initial(instance, tensor, true)) return status;
  }
  if (int status = clear_gradients(instance)) return status;
  return wait_for_state(instance);  // the next run may be on a stream that knows nothing of this
}

const StateTensor* find_state(const ProgramView& view, const char* name) {
  if (!name) {
    fail(TCC_INVALID_ARGUMENT, "the name of the state tensor is NULL");
    return nullptr;
  }
  for (const StateTensor& tensor : view.state()) {
    if (strcmp(view.text(tensor.name), name) == 0) return &tensor;
  }
  if (view.state().count == 0) {
    fail(TCC_INVALID_ARGUMENT, "state tensor `%.400s` is asked for, but the library keeps no state: it was compiled without --mode=train",
         name);
  } else {
    fail(TCC_INVALID_ARGUMENT, "there is no state tensor `%.400s`", name);
  }
  return nullptr;
}

const StateTensor* find_master(const ProgramView& view, const StateTensor& parameter) {
  if (parameter.role != StateRole::parameter || (parameter.dtype != TCC_F16 && parameter.dtype != TCC_BF16)) return nullptr;
  constexpr char kPrefix[] = "optimizer.master.";
  constexpr size_t kPrefixBytes = sizeof kPrefix - 1;
  for (const StateTensor& tensor : view.state()) {
    if (tensor.role != StateRole::optimizer || tensor.dtype != TCC_F32 || tensor.name.size != kPrefixBytes + parameter.name.size) continue;
    const char* name = view.text(tensor.name);
    if (memcmp(name, kPrefix, kPrefixBytes) == 0 && memcmp(name + kPrefixBytes, view.text(parameter.name), parameter.name.size) == 0) {
      return tensor.size_bytes == 2 * parameter.size_bytes ? &tensor : nullptr;
    }
  }
  return nullptr;
}

int write_tensor(tcc_instance* instance, const StateTensor& tensor, const void* data) {
  if (tensor.role == StateRole::gradient) {
    if (int status = need_gradients(instance)) return status;
    instance->state.gradients_clean = false;
  }
  return tensor.size_bytes ? copy_to_device(instance, address(instance, tensor), data, tensor.size_bytes) : TCC_OK;
}

int read_bytes(tcc_instance* instance, const StateTensor& tensor, uint64_t offset, void* data, uint64_t bytes) {
  if (tensor.role == StateRole::gradient) {
    if (int status = need_gradients(instance)) return status;
  }
  if (bytes == 0) return TCC_OK;
  const char* from = address(instance, tensor) + offset;
  if (on_cuda(instance)) return cuda_copy(instance, data, false, from, true, bytes);
  memcpy(data, from, bytes);
  return TCC_OK;
}

int write_master(tcc_instance* instance, const StateTensor& parameter, const StateTensor& master, const void* data) {
  return write_converted(instance, master, parameter.dtype, data);
}

int reset_optimizer(tcc_instance* instance) {
  for (const StateTensor& tensor : instance->view.state()) {
    if (tensor.role != StateRole::optimizer) continue;
    if (int status = write_initial(instance, tensor, false)) return status;
  }
  return TCC_OK;
}

// --- scalars ----------------------------------------------------------------------------------------------------------------------------

int find_scalar(const ProgramView& view, const char* name) {
  if (!name) {
    fail(TCC_INVALID_ARGUMENT, "the name of the scalar is NULL");
    return -1;
  }
  const Rows<Scalar> scalars = view.scalars();
  for (uint32_t i = 0; i < scalars.count; i++) {
    if (strcmp(view.text(scalars[i].name), name) == 0) return static_cast<int>(i);
  }
  char known[512] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < scalars.count && at < sizeof known - 64; i++)
    at += static_cast<size_t>(snprintf(known + at, sizeof known - at, "%s`%.40s`", i ? ", " : "", view.text(scalars[i].name)));
  fail(TCC_INVALID_ARGUMENT, "there is no scalar `%.200s`, the library has %s", name, scalars.count ? known : "none");
  return -1;
}

double scalar_value(const Scalar& scalar, uint64_t bits) {
  switch (scalar.dtype) {
    case TCC_F32: {
      float value;
      memcpy(&value, &bits, sizeof value);
      return static_cast<double>(value);
    }
    case TCC_F64: {
      double value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
    case TCC_I32: return static_cast<double>(static_cast<int32_t>(bits));
    default: return static_cast<double>(static_cast<int64_t>(bits));
  }
}

int set_scalar(tcc_instance* instance, const char* name, double value) {
  const int i = find_scalar(instance->view, name);
  if (i < 0) return TCC_INVALID_ARGUMENT;
  const Scalar& scalar = instance->view.scalars()[static_cast<uint32_t>(i)];
  uint64_t bits = 0;
  if (scalar.dtype == TCC_F32) {
    const float narrow = static_cast<float>(value);
    memcpy(&bits, &narrow, sizeof narrow);
  } else if (scalar.dtype == TCC_F64) {
    memcpy(&bits, &value, sizeof value);
  } else {
    const double bound = scalar.dtype == TCC_I32 ? 0x1p31 : 0x1p53;  // beyond 2^53 a double skips integers
    const bool in_range = value >= -bound && value < bound;
    const int64_t whole = in_range ? static_cast<int64_t>(value) : 0;
    if (!in_range || static_cast<double>(whole) != value)
      return fail(TCC_INVALID_ARGUMENT, "scalar `%s` is an integer, %.17g is none that it can hold", name, value);
    bits = scalar.dtype == TCC_I32 ? static_cast<uint32_t>(whole) : static_cast<uint64_t>(whole);
  }
  State& state = instance->state;
  if (state.scalars[i] == bits) return TCC_OK;
  state.scalars[i] = bits;
  if (on_cuda(instance)) {
    state.stale_scalars[i] = true;  // written on the stream of the next run
  } else {
    memcpy(state.blocks[0] + scalars_offset(instance->view.header().state_bytes) + static_cast<uint64_t>(i) * kScalarBytes, &bits,
           sizeof bits);
  }
  return TCC_OK;
}

// --- micro-batches ------------------------------------------------------------------------------------------------------------------------

uint32_t next_of_step(const tcc_instance* instance) {
  const State& state = instance->state;
  return state.accumulate != kNoFunction && state.micro_batch + 1 < instance->view.header().accumulate ? state.accumulate : state.step;
}

bool wants_zero_gradients(const tcc_instance* instance, uint32_t function) {
  const State& state = instance->state;
  if (!instance->functions[function].uses_gradients || instance->view.header().gradient_bytes == 0) return false;
  if (!state.gradients_zeroed) return true;
  const bool adds = function == state.accumulate || (function == state.step && state.accumulate != kNoFunction);
  return adds && state.micro_batch == 0 && (!state.gradients_clean || state.gradients_shared);
}

void count_micro_batch(tcc_instance* instance, uint32_t function) {
  State& state = instance->state;
  state.gradients_zeroed |= instance->functions[function].uses_gradients;
  if (function == state.accumulate) {
    state.micro_batch++;
    state.gradients_clean = false;
  } else if (function == state.step && state.accumulate != kNoFunction) {
    state.micro_batch = 0;
    state.gradients_clean = true;  // it zeroes them at its end
  } else if (function == state.backward) {
    state.micro_batch = 0;
    state.gradients_clean = false;
  }
}

}  // namespace tcc::stub

#include "runtime/stub/check_tensors.h"

#include "runtime/stub/message.h"

namespace tcc::stub {
namespace {

const char* dtype_name(int32_t dtype) {
  static const char* const names[] = {"f32", "f64", "f16",  "bf16",     "i8",         "i16",    "i32",        "i64", "u8", "u16",
                                      "u32", "u64", "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "i4",  "u4"};
  return dtype >= 0 && dtype <= TCC_U4 ? names[dtype] : "an unknown dtype";
}

uint64_t element_bytes(uint32_t dtype) {
  switch (dtype) {
    case TCC_F64:
    case TCC_I64:
    case TCC_U64: return 8;
    case TCC_F32:
    case TCC_I32:
    case TCC_U32: return 4;
    case TCC_F16:
    case TCC_BF16:
    case TCC_I16:
    case TCC_U16: return 2;
    default: return 1;
  }
}

int check_tensor(const ProgramView& view, const TensorRules& rules, const char* role, const program::Tensor& expected,
                 const tcc_tensor& got) {
  const char* name = view.text(expected.name);
  const int64_t* shape = view.shape(expected);
  const int64_t rank = expected.shape.count;
  if (got.dtype != static_cast<int32_t>(expected.dtype)) {
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: dtype is %s, expected %s", role, name, dtype_name(got.dtype),
                dtype_name(static_cast<int32_t>(expected.dtype)));
  }
  if (got.rank != rank) {
    if (got.rank < 0 || got.rank > 64 || (got.rank > 0 && !got.shape)) {
      return fail(TCC_INVALID_ARGUMENT, "%s `%s`: rank is %d, expected %lld: shape %s", role, name, got.rank, static_cast<long long>(rank),
                  ShapeText(shape, rank).text);
    }
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: rank is %d (shape %s), expected %lld (shape %s)", role, name, got.rank,
                ShapeText(got.shape, got.rank).text, static_cast<long long>(rank), ShapeText(shape, rank).text);
  }
  if (rank > 0 && !got.shape) {
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: shape is NULL, expected %s", role, name, ShapeText(shape, rank).text);
  }
  for (int64_t axis = 0; axis < rank; axis++) {
    if (got.shape[axis] != shape[axis]) {
      return fail(TCC_INVALID_ARGUMENT, "%s `%s`: axis %lld is %lld, expected %lld: shape is %s, expected %s", role, name,
                  static_cast<long long>(axis), static_cast<long long>(got.shape[axis]), static_cast<long long>(shape[axis]),
                  ShapeText(got.shape, rank).text, ShapeText(shape, rank).text);
    }
  }
  if (got.strides && expected.size_bytes > 0) {
    int64_t stride = 1;
    for (int64_t axis = rank - 1; axis >= 0; axis--) {
      if (shape[axis] != 1 && got.strides[axis] != stride) {  // the stride of an axis of one element is never used
        return fail(TCC_INVALID_ARGUMENT,
                    "%s `%s`: stride of axis %lld is %lld, expected %lld: strides are %s, the tensor must be dense and row-major", role,
                    name, static_cast<long long>(axis), static_cast<long long>(got.strides[axis]), static_cast<long long>(stride),
                    ShapeText(got.strides, rank).text);
      }
      stride *= shape[axis];
    }
  }
  const bool on_host = got.device == TCC_DEVICE_CPU || got.device == TCC_DEVICE_AUTO;
  if (!on_host && got.device != TCC_DEVICE_CUDA) {
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: device is %d, expected %d (CPU) or %d (CUDA)", role, name, got.device, TCC_DEVICE_CPU,
                TCC_DEVICE_CUDA);
  }
  if (!on_host && !rules.cuda) {
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: device is CUDA %d, but this instance runs on the CPU and takes host memory", role, name,
                got.device_ordinal);
  }
  if (!on_host && got.device_ordinal != rules.device_ordinal) {
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: device is CUDA %d, expected CUDA %d, where this instance runs", role, name,
                got.device_ordinal, rules.device_ordinal);
  }
  for (const uint64_t reserved : got.reserved) {
    if (reserved != 0)
      return fail(TCC_INVALID_ARGUMENT, "%s `%s`: a reserved field is %#llx, expected 0: set the whole struct to zero before its fields",
                  role, name, static_cast<unsigned long long>(reserved));
  }
  if (expected.size_bytes == 0) return TCC_OK;
  if (!got.data)
    return fail(TCC_INVALID_ARGUMENT, "%s `%s`: data is NULL, expected %llu bytes", role, name,
                static_cast<unsigned long long>(expected.size_bytes));
  if (!(on_host && rules.cuda)) {  // a host tensor of a CUDA instance is copied, which needs no alignment
    uint64_t alignment = rules.alignment ? rules.alignment : element_bytes(expected.dtype);
    if (alignment < expected.alignment) alignment = expected.alignment;
    const uint64_t address = reinterpret_cast<uintptr_t>(got.data);
    if (address % alignment != 0) {
      return fail(TCC_INVALID_ARGUMENT, "%s `%s`: data is at address 0x%llx, expected a multiple of %llu", role, name,
                  static_cast<unsigned long long>(address), static_cast<unsigned long long>(alignment));
    }
  }
  return TCC_OK;
}

// Kernels are compiled on the promise that outputs overlap nothing.
int check_overlap(const ProgramView& view, uint32_t function, const TensorRules& rules, const tcc_tensor* inputs,
                  const tcc_tensor* outputs) {
  const Rows<program::Tensor> in = view.inputs(function), out = view.outputs(function);
  auto overlap = [](const tcc_tensor& a, uint64_t a_bytes, const tcc_tensor& b, uint64_t b_bytes) {
    const uintptr_t x = reinterpret_cast<uintptr_t>(a.data), y = reinterpret_cast<uintptr_t>(b.data);
    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
  };
  const uint64_t block_bytes[] = {view.header().state_bytes, view.header().gradient_bytes};
  for (uint32_t block = 0; block < program::kNumStateBlocks; block++) {
    tcc_tensor state = {};
    state.data = const_cast<char*>(rules.state[block]);
    if (!state.data) continue;
    for (uint32_t t = 0; t < in.count + out.count; t++) {
      const bool is_input = t < in.count;
      const program::Tensor& expected = is_input ? in[t] : out[t - in.count];
      if (overlap(is_input ? inputs[t] : outputs[t - in.count], expected.size_bytes, state, block_bytes[block])) {
        return fail(TCC_INVALID_ARGUMENT, "%s `%s` lies in the instance's state, expected memory of its own", is_input ? "input" : "output",
                    view.text(expected.name));
      }
    }
  }
  for (uint32_t o = 0; o < out.count; o++) {
    for (uint32_t i = 0; i < in.count; i++) {
      if (overlap(outputs[o], out[o].size_bytes, inputs[i], in[i].size_bytes)) {
        return fail(TCC_INVALID_ARGUMENT, "output `%s` overlaps input `%s` in memory, expected memory of its own", view.text(out[o].name),
                    view.text(in[i].name));
      }
    }
    for (uint32_t p = 0; p < o; p++) {
      if (overlap(outputs[o], out[o].size_bytes, outputs[p], out[p].size_bytes)) {
        return fail(TCC_INVALID_ARGUMENT, "output `%s` overlaps output `%s` in memory, expected memory of its own", view.text(out[o].name),
                    view.text(out[p].name));
      }
    }
  }
  return TCC_OK;
}

int check_list(const ProgramView& view, const TensorRules& rules, const char* role, Rows<program::Tensor> expected, const tcc_tensor* got,
               uint32_t num_got) {
  if (num_got != expected.count) {
    // The one that is missing is what the caller wants to know.
    if (num_got < expected.count) {
      return fail(TCC_INVALID_ARGUMENT, "%u %ss given, the model has %u: %s `%s` is missing", num_got, role, expected.count, role,
                  view.text(expected[num_got].name));
    }
    return fail(TCC_INVALID_ARGUMENT, "%u %ss given, the model has %u", num_got, role, expected.count);
  }
  if (num_got > 0 && !got) return fail(TCC_INVALID_ARGUMENT, "the %ss are NULL, the model has %u", role, expected.count);
  for (uint32_t i = 0; i < num_got; i++) {
    if (int status = check_tensor(view, rules, role, expected[i], got[i])) return status;
  }
  return TCC_OK;
}

}  // namespace

int check_tensors(const ProgramView& view, uint32_t function, const TensorRules& rules, const tcc_tensor* inputs, uint32_t num_inputs,
                  const tcc_tensor* outputs, uint32_t num_outputs) {
  if (int status = check_list(view, rules, "input", view.inputs(function), inputs, num_inputs)) return status;
  if (int status = check_list(view, rules, "output", view.outputs(function), outputs, num_outputs)) return status;
  return check_overlap(view, function, rules, inputs, outputs);
}

}  // namespace tcc::stub

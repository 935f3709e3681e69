#include "runtime/toy_trainer.h"

#include <cstring>

namespace tcc::test {

using namespace tcc::link;

// One item each. The flat sections have 64 elements for w (256 bytes) and 128 for b.
const char* const kTrainerKernels = R"(
#include <stdint.h>
#define KERNEL(name, n) const int name##_parameters = n; void tcc_v1_##name(void* const* p, int64_t begin, int64_t end)
KERNEL(infer, 3) {
  const float *x = p[0], *w = p[1]; float* y = p[2];
  for (int i = 0; i < 4; i++) y[i] = w[i] * x[i];
}
static float gradient(const float* x, const float* t, const float* w, float* g, float scale) {
  float loss = 0;
  for (int i = 0; i < 4; i++) {
    float e = w[i] * x[i] - t[i];
    loss += e * e;
    g[i] = scale * g[i] + 2 * e * x[i];
  }
  for (int i = 0; i < 70; i++) g[64 + i] = scale * g[64 + i] + 0.5f;
  return loss;
}
KERNEL(gradients, 5) {
  for (int i = 0; i < 192; i++) ((float*)p[3])[i] = 0;
  *(float*)p[4] = gradient(p[0], p[1], p[2], p[3], 0);
}
KERNEL(addxgradients, 5) {  /* halves of two micro-batches */
  float* g = p[3];
  for (int i = 0; i < 192; i++) g[i] *= 2;
  *(float*)p[4] = gradient(p[0], p[1], p[2], g, 1);
  for (int i = 0; i < 192; i++) g[i] /= 2;
}
KERNEL(apply, 5) {
  const float* g = p[0]; float *w = p[1], *m = p[2]; const float lr = *(const float*)p[3];
  for (int i = 0; i < 192; i++) { m[i] = m[i] / 2 + g[i]; w[i] -= lr * m[i]; }
  *(float*)p[4] += 1;
}
KERNEL(forward, 6) {
  const float *x = p[0], *t = p[1], *w = p[2]; float *e = p[4], *kept = p[5];
  float loss = 0;
  for (int i = 0; i < 4; i++) { e[i] = w[i] * x[i] - t[i]; kept[i] = x[i]; loss += e[i] * e[i]; }
  *(float*)p[3] = loss;
}
KERNEL(backward, 3) {
  const float *e = p[0], *x = p[1]; float* g = p[2];
  for (int i = 0; i < 4; i++) g[i] = 2 * e[i] * x[i];
  for (int i = 0; i < 70; i++) g[64 + i] = 0.5f;
}
)";

namespace {

StateTensor state_tensor(const char* name, Shape shape, double fill = 0, Tensor initial = {}, bool trained = true) {
  StateTensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.fill = fill;
  tensor.initial = std::move(initial);
  tensor.trained = trained;
  return tensor;
}

StateLayout layout() {
  StateLayout state;
  Tensor h(DType::bf16, {3});
  for (int i = 0; i < 3; i++) h.set_double(i, i + 0.5);
  state.append_section("parameters.f32", StateRole::parameter, DType::f32,
                       {state_tensor("w", {4}, 0, floats({1, 2, 3, 4})), state_tensor("b", {70}, 0, {}, false)});
  state.append_section("optimizer.momentum.f32", StateRole::optimizer, DType::f32,
                       {state_tensor("optimizer.momentum.w", {4}), state_tensor("optimizer.momentum.b", {70})});
  state.append_section("parameters.bf16", StateRole::parameter, DType::bf16, {state_tensor("h", {3}, 0, h)});
  state.append_section("optimizer.master.f32", StateRole::optimizer, DType::f32,
                       {state_tensor("optimizer.master.h", {3}, 0, h.cast_to(DType::f32))});
  state.tensors.back().converted_from = "h";
  state.append_section("optimizer.f32", StateRole::optimizer, DType::f32, {state_tensor("optimizer.step", {})});
  state.append_section("statistics.f32", StateRole::statistic, DType::f32, {state_tensor("running", {2}, 1)});
  Tensor seven(DType::i64, {});
  seven.set_int64(0, 7);
  state.append_section("buffers.i64", StateRole::buffer, DType::i64, {state_tensor("calls", {}, 0, seven)});
  state.append_section("gradients.f32", StateRole::gradient, DType::f32, {state_tensor("grad.w", {4}), state_tensor("grad.b", {70})});
  state.append_view("flat", 0);
  return state;
}

// Of each function in turn; the buffers that all of them could name, one after the other.
FunctionCode code(const StateLayout& state, std::vector<BufferDesc> tensors, std::vector<LaunchDesc> launches, uint64_t arena_bytes = 0) {
  const auto at = [&](const char* section) {
    for (const StateSection& s : state.sections) {
      if (s.name == section)
        return BufferDesc{BufferKind::state, s.role == StateRole::gradient, static_cast<uint64_t>(s.offset),
                          static_cast<uint64_t>(s.size_bytes), s.name};
    }
    return BufferDesc{};
  };
  FunctionCode code;
  code.buffers = std::move(tensors);
  const uint32_t first = static_cast<uint32_t>(code.buffers.size());
  code.buffers.push_back(at("parameters.f32"));          // first
  code.buffers.push_back(at("optimizer.momentum.f32"));  // + 1
  code.buffers.push_back({BufferKind::scalar, 0, 0, 4, "lr"});
  code.buffers.push_back(at("optimizer.f32"));  // + 3
  for (LaunchDesc& launch : launches) {
    for (uint32_t& argument : launch.arguments) {
      if (argument >= 100) argument += first - 100;
    }
  }
  code.launches = std::move(launches);
  code.arena_bytes = code.sum_of_buffers = arena_bytes;
  return code;
}

enum : uint32_t { kInfer, kGradients, kAdd, kApply, kForward, kBackward };
enum : uint32_t { w = 100, momentum = 101, lr = 102, step_counter = 103 };

LaunchDesc kernel(uint32_t number, std::vector<uint32_t> arguments, const char* label) {
  return {.kind = LaunchKind::kernel, .kernel = number, .grid = 1, .arguments = std::move(arguments), .label = label};
}

}  // namespace

LinkInput toy_trainer(const TemporaryFolder& folder, int accumulate, bool cuda) {
  LinkInput input;
  ProgramDesc& program = input.program;
  program.model_name = "trainer";
  program.state = layout();
  program.scalars = {{"lr", DType::f32, 0.125}, {"seed", DType::i64, 0}};
  program.accumulate = accumulate;
  const TensorDesc x = {"x", DType::f32, {4}}, target = {"target", DType::f32, {4}}, loss = {"loss", DType::f32, {}},
                   saved = {"saved", DType::u8, {512}, 16};
  program.functions = {{"infer", {x}, {{"y", DType::f32, {4}}}},
                       {"step", {x, target}, {loss}},
                       {"forward", {x, target}, {loss, saved}},
                       {"backward", {x, target, saved}, {}},
                       {"update", {}, {}}};
  if (accumulate > 1) program.functions.push_back({"accumulate", {x, target}, {loss}});

  TargetDesc desc;
  desc.kernels = {{.name = "infer", .num_buffers = 3, .images = {}},         {.name = "gradients", .num_buffers = 5, .images = {}},
                  {.name = "addxgradients", .num_buffers = 5, .images = {}}, {.name = "apply", .num_buffers = 5, .images = {}},
                  {.name = "forward", .num_buffers = 6, .images = {}},       {.name = "backward", .num_buffers = 3, .images = {}}};
  const StateLayout& state = program.state;
  const BufferDesc in_x = {BufferKind::input, 0, 0, 16, "x"}, in_target = {BufferKind::input, 1, 0, 16, "target"},
                   out_loss = {BufferKind::output, 0, 0, 4, "loss"},
                   gradients = {BufferKind::state, 1, 0, static_cast<uint64_t>(state.gradient_bytes), "gradients"},
                   arena = {BufferKind::arena, 0, 0, 768, "grad"};
  desc.functions.push_back(code(state, {in_x, {BufferKind::output, 0, 0, 16, "y"}}, {kernel(kInfer, {0, w, 1}, "infer")}));
  if (accumulate == 1) {
    desc.functions.push_back(
        code(state, {in_x, in_target, out_loss, arena},
             {kernel(kGradients, {0, 1, w, 3, 2}, "loss"), kernel(kApply, {3, w, momentum, lr, step_counter}, "update")}, 768));
  } else {
    LaunchDesc zero = {.kind = LaunchKind::fill, .arguments = {3}, .label = "zero", .size_bytes = 768};
    desc.functions.push_back(
        code(state, {in_x, in_target, out_loss, gradients},
             {kernel(kAdd, {0, 1, w, 3, 2}, "loss"), kernel(kApply, {3, w, momentum, lr, step_counter}, "update"), zero}, 1024));
  }
  desc.functions.push_back(
      code(state, {in_x, in_target, out_loss, {BufferKind::output, 1, 0, 16, "error"}, {BufferKind::output, 1, 256, 16, "x kept"}},
           {kernel(kForward, {0, 1, w, 2, 3, 4}, "forward")}));
  desc.functions.push_back(code(state, {{BufferKind::input, 2, 0, 16, "error"}, {BufferKind::input, 2, 256, 16, "x kept"}, gradients},
                                {kernel(kBackward, {0, 1, 2}, "backward")}));
  desc.functions.push_back(code(state, {gradients}, {kernel(kApply, {0, w, momentum, lr, step_counter}, "update")}));
  if (accumulate > 1)
    desc.functions.push_back(code(state, {in_x, in_target, out_loss, gradients}, {kernel(kAdd, {0, 1, w, 3, 2}, "loss")}, 256));
  desc.levels = {CpuLevel::v1};
  program.targets = {desc};
  input.cpu_objects = {{"trainer.o", compile_c(folder, kTrainerKernels)}};
  if (cuda) {
    desc.kind = TargetKind::cuda;
    desc.levels.clear();
    for (KernelDesc& one : desc.kernels) {
      one.threads = 1;
      one.images = {0};
    }
    program.targets.push_back(desc);
    input.images = {{.kind = ImageKind::ptx, .arch = 80, .arch_specific = false, .bytes = "trainer\n"}};
  }
  return input;
}

Tensor floats(std::vector<float> values, Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  std::memcpy(tensor.mutable_bytes(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.count());
}

float TrainerReference::accumulate(const std::vector<float>& x, const std::vector<float>& target, float scale) {
  float loss = 0;
  for (size_t i = 0; i < 4; i++) {
    const float error = w[i] * x[i] - target[i];
    loss += error * error;
    gradient[i] += scale * 2 * error * x[i];
  }
  gradient_b += scale * 0.5f;
  return loss;
}

void TrainerReference::update() {
  for (size_t i = 0; i < 4; i++) {
    m[i] = m[i] / 2 + gradient[i];
    w[i] -= lr * m[i];
    gradient[i] = 0;
  }
  m_b = m_b / 2 + gradient_b;
  b -= lr * m_b;
  gradient_b = 0;
  steps += 1;
}

}  // namespace tcc::test

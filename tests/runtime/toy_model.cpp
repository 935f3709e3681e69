#include "runtime/toy_model.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

#include "tcc/support/files.h"

namespace tcc::test {

using namespace tcc::link;

TemporaryFolder::TemporaryFolder() {
  char name[] = "/tmp/tcc_test_XXXXXX";
  path_ = mkdtemp(name);
}

TemporaryFolder::~TemporaryFolder() { run_command("rm -rf '" + path_ + "'"); }

std::vector<std::string> TemporaryFolder::files() const {
  std::vector<std::string> names;
  DIR* folder = opendir(path_.c_str());
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

CommandResult run_command(const std::string& command) {
  CommandResult result = {-1, ""};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return result;
  char buffer[4096];
  for (size_t size; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.output.append(buffer, size);
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::string compile_c(const TemporaryFolder& folder, const std::string& source) {
  const std::string c = folder / "kernels.c", o = folder / "kernels.o";
  write_file_atomically(c, source);
  const CommandResult result = run_command("cc -std=c11 -O2 -fPIC -fno-stack-protector -c '" + c + "' -o '" + o + "'");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::string bytes(MappedFile::open(o)->text());
  run_command("rm '" + c + "' '" + o + "'");
  return bytes;
}

// One item is one row.
const char* const kToyKernels = R"(
#include <stdint.h>
const int scale_parameters = 2, add_weight_parameters = 3, checked_scale_parameters = 3;
void tcc_v1_checked__scale(void* const* b, int64_t begin, int64_t end) {
  const float* x = b[0]; float* t = b[1]; int64_t* bad = b[2];
  for (int64_t i = begin * 3; i < end * 3; i++) {
    if (x[i] >= 100 && *bad == 0) *bad = (int64_t)x[i];
    t[i] = 2 * x[i];
  }
}
void tcc_v1_scale(void* const* b, int64_t begin, int64_t end) {
  const float* x = b[0]; float* t = b[1];
  for (int64_t i = begin * 3; i < end * 3; i++) t[i] = 2 * x[i];
}
void tcc_v1_add__weight(void* const* b, int64_t begin, int64_t end) {
  const float* t = b[0]; const float* w = b[1]; float* y = b[2];
  for (int64_t i = begin * 3; i < end * 3; i++) y[i] = t[i] + w[i];
}
)";

namespace {

const char* const kPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p_x, .param .u64 p_t) {
  .reg .u64 %x, %t, %o; .reg .u32 %i; .reg .f32 %f;
  ld.param.u64 %x, [p_x]; ld.param.u64 %t, [p_t];
  mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, 3, 0;
  { .reg .u32 %j; mov.u32 %j, %tid.x; add.u32 %i, %i, %j; }
  mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o; add.u64 %t, %t, %o;
  ld.global.f32 %f, [%x]; add.f32 %f, %f, %f; st.global.f32 [%t], %f;
  ret;
}
.visible .entry add_weight(.param .u64 p_t, .param .u64 p_w, .param .u64 p_y) {
  .reg .u64 %w, %t, %y, %o; .reg .u32 %i; .reg .f32 %f, %g;
  ld.param.u64 %t, [p_t]; ld.param.u64 %w, [p_w]; ld.param.u64 %y, [p_y];
  mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, 3, 0;
  { .reg .u32 %j; mov.u32 %j, %tid.x; add.u32 %i, %i, %j; }
  mul.wide.u32 %o, %i, 4; add.u64 %w, %w, %o; add.u64 %t, %t, %o; add.u64 %y, %y, %o;
  ld.global.f32 %f, [%t]; ld.global.f32 %g, [%w]; add.f32 %f, %f, %g; st.global.f32 [%y], %f;
  ret;
}
)";

TargetDesc toy_target(TargetKind kind) {
  TargetDesc target;
  target.kind = kind;
  FunctionCode code;
  code.buffers = {
      {BufferKind::input, 0, 0, 24, "x"},     {BufferKind::weight, 0, 0, 24, "w"}, {BufferKind::arena, 0, 256, 24, "t"},
      {BufferKind::output, 0, 0, 24, "y"},    {BufferKind::output, 1, 0, 24, "z"}, {BufferKind::output, 2, 0, 16, "u"},
      {BufferKind::alias, 5, 8, 8, "u.tail"},
  };
  target.kernels = {{.name = "scale", .num_buffers = 2, .images = {}}, {.name = "add_weight", .num_buffers = 3, .images = {}}};
  code.arena_bytes = 512;
  code.sum_of_buffers = 512;
  if (kind == TargetKind::cpu) {
    target.levels = {CpuLevel::v1};
  } else {
    for (KernelDesc& kernel : target.kernels) {
      kernel.threads = 3;
      kernel.images = {0};
    }
  }
  code.launches = {
      {.kind = LaunchKind::kernel, .kernel = 0, .grid = 2, .arguments = {0, 2}, .label = "block/Scale"},
      {.kind = LaunchKind::kernel, .kernel = 1, .grid = 2, .arguments = {2, 1, 3}, .label = "block/Add", .cost_ns = 20000},
      {.kind = LaunchKind::copy, .arguments = {0, 4}, .label = "copy of x", .size_bytes = 24},
      {.kind = LaunchKind::fill, .arguments = {5}, .label = "zeros", .size_bytes = 16},
      {.kind = LaunchKind::fill, .arguments = {6}, .label = "sevens", .size_bytes = 8, .pattern = 7, .pattern_bytes = 4},
  };
  target.functions = {code};
  return target;
}

}  // namespace

LinkInput toy_model(const TemporaryFolder& folder, bool cuda) {
  LinkInput input;
  input.program.model_name = "toy";
  input.program.functions = {{.name = "infer",
                              .inputs = {{"x", DType::f32, {2, 3}}},
                              .outputs = {{"y", DType::f32, {2, 3}}, {"z", DType::f32, {2, 3}}, {"block/u:0", DType::i32, {4}}}}};
  input.program.weights = {{"w", DType::f32, {2, 3}}, {"same as w", DType::f32, {6}}, {"none", DType::f32, {0}}};
  Tensor w(DType::f32, {2, 3});
  for (int i = 0; i < 6; i++) w.mutable_data<float>()[i] = static_cast<float>(10 * i);
  input.weights = {w, w.reshaped({6}), Tensor(DType::f32, {0})};
  input.cpu_objects = {{"kernels.o", compile_c(folder, kToyKernels)}};
  input.program.targets = {toy_target(TargetKind::cpu)};
  if (cuda) {
    input.images = {{.kind = ImageKind::ptx, .arch = 80, .arch_specific = false, .bytes = kPtx}};
    input.program.targets.push_back(toy_target(TargetKind::cuda));
  }
  return input;
}

void add_check(LinkInput* input) {
  for (TargetDesc& target : input->program.targets) {
    FunctionCode& code = target.functions[0];
    target.kernels[0].name = "checked_scale";
    target.kernels[0].num_buffers = 3;
    code.buffers.push_back({BufferKind::checks, 1, 0, 8, "checks"});
    code.launches[0].arguments = {0, 2, 7};
    code.checks = {{"nothing", "nowhere", 0, 0}, {"input `x` has the index", "gather `block/Scale`", -100, 99}};
  }
}

void add_preparation(LinkInput* input) {
  Tensor w(DType::f32, {2, 3});
  for (int i = 0; i < 6; i++) w.mutable_data<float>()[i] = static_cast<float>(5 * i);
  input->weights[0] = w;
  input->weights[1] = w.reshaped({6});
  for (TargetDesc& target : input->program.targets) {
    target.functions[0].buffers[1] = {BufferKind::prepared, 0, 256, 24, "w.twice"};
    target.preparation.buffers = {{BufferKind::weight, 0, 0, 24, "w"}, {BufferKind::prepared, 0, 256, 24, "w.twice"}};
    target.preparation.launches = {{.kind = LaunchKind::kernel, .kernel = 0, .grid = 2, .arguments = {0, 1}, .label = "block/Twice"}};
    target.prepared_bytes = 512;
  }
}

Tensor toy_input(float first) {
  Tensor x(DType::f32, {2, 3});
  for (int i = 0; i < 6; i++) x.mutable_data<float>()[i] = first + static_cast<float>(i);
  return x;
}

void expect_toy_outputs(const std::vector<Tensor>& outputs, float first) {
  ASSERT_EQ(outputs.size(), 3u);
  for (int i = 0; i < 6; i++) {
    const float x = first + static_cast<float>(i);
    EXPECT_EQ(outputs[0].data<float>()[i], 2 * x + static_cast<float>(10 * i));
    EXPECT_EQ(outputs[1].data<float>()[i], x);
  }
  const int32_t expected[] = {0, 0, 7, 7};
  for (int i = 0; i < 4; i++) EXPECT_EQ(outputs[2].data<int32_t>()[i], expected[i]);
}

std::string message_of(const std::function<void()>& action, ExitCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace tcc::test

// What verifies can be emitted and does what the interpreter says: random kernels, legal by construction, and the same with one word changed, which the
// verifier has to refuse unless they are legal still. TCC_SEEDS=N,COUNT runs other seeds; a failure prints the kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "device_kernel.h"
#include "host_kernel.h"
#include "random_kernel.h"
#include "tcc/codegen/codegen.h"
#include "tcc/rules/interpret.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {
namespace {

struct Seeds {
  uint64_t first, count;
};
Seeds seeds(uint64_t count) {
  const char* given = std::getenv("TCC_SEEDS");
  Seeds result{1, count};
  if (given) {
    char* end = nullptr;
    result.first = std::strtoull(given, &end, 10);
    if (*end == ',') result.count = std::strtoull(end + 1, nullptr, 10);
  }
  return result;
}

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

/// Sums may be taken in any order, products that feed sums as one fma.
bool is_near(DType dtype, double found, double expected) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return true;
  const double relative = dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2;
  const double absolute = dtype == DType::f64 ? 1e-6 : dtype == DType::f32 ? 2e-3 : 5e-2;
  return std::abs(found - expected) <= absolute + relative * std::abs(expected);
}

void expect_same(const loop::Kernel& kernel, const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                 const std::string& text) {
  for (size_t i = 0; i < found.size(); ++i) {
    const DType dtype = found[i].dtype();
    int64_t wrong = 0, first = -1;
    for (int64_t k = 0; k < found[i].count(); ++k) {
      const bool same = is_float(dtype) ? is_near(dtype, found[i].as_double(k), expected[i].as_double(k))
                                        : found[i].as_int64(k) == expected[i].as_int64(k);
      wrong += !same;
      if (!same && first < 0) first = k;
    }
    ASSERT_EQ(wrong, 0) << "%" << kernel.params[i].buffer->name << ", element " << first << ": found " << found[i].as_double(first)
                        << ", expected " << expected[i].as_double(first) << "\n"
                        << text;
  }
}

/// Parameters of the kernel, and what the interpreter makes of them.
std::vector<Tensor> interpreted(const loop::Kernel& kernel, std::vector<Tensor> params) {
  interpret(kernel, params);
  return params;
}

TEST(RandomKernels, OnTheHost) {
  const Seeds range = seeds(60);
  std::vector<std::string> texts;
  std::vector<loop::Kernel> kernels;
  for (uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    texts.push_back("// seed " + std::to_string(seed) + "\n" + random_cpu_kernel(seed));
    kernels.push_back(loop::parse_kernel(texts.back(), "random"));
    ASSERT_EQ(joined(verify_kernel(kernels.back())), "") << texts.back();
  }
  const HostKernels compiled(kernels, 1);
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::vector<Tensor> found = random_params(kernels[i], i);
    const std::vector<Tensor> expected = interpreted(kernels[i], found);
    const int64_t middle = kernels[i].grid / 2;  // items run in pieces, in any order
    compiled.run(i, found, middle, kernels[i].grid);
    compiled.run(i, found, 0, middle);
    expect_same(kernels[i], found, expected, texts[i]);
  }
}

/// Kernels for CUDA, checked and interpreted; in the PTX each is named after its seed.
struct CudaKernels {
  std::vector<std::string> texts;
  std::vector<loop::Kernel> kernels;
  std::string ptx;
};

CudaKernels cuda_kernels(const Seeds& range) {
  CudaKernels made;
  for (uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    made.texts.push_back("// seed " + std::to_string(seed) + "\n" + random_cuda_kernel(seed));
    made.kernels.push_back(loop::parse_kernel(made.texts.back(), "random"));
    EXPECT_EQ(joined(verify_kernel(made.kernels.back())), "") << made.texts.back();
  }
  if (testing::Test::HasFailure()) return made;
  std::vector<NamedKernel> named;
  for (size_t i = 0; i < made.kernels.size(); ++i) named.push_back({"k" + std::to_string(i), &made.kernels[i]});
  Options options;
  options.target = "sm_80";
  made.ptx = emit_nvptx(named, options).assembly;
  return made;
}

TEST(RandomKernels, AsPtx) {
  const CudaKernels made = cuda_kernels(seeds(30));
  if (HasFailure()) return;
  for (size_t i = 0; i < made.kernels.size(); ++i) {
    try {
      interpreted(made.kernels[i], random_params(made.kernels[i], i));
    } catch (const Error& error) { FAIL() << error.diagnostics()[0].message << "\n" << made.texts[i]; }
  }
  if (!find_ptxas().empty()) assemble_ptx(made.ptx, "sm_80");
}

/// What the verifier takes though a word was changed is emitted, and runs as it is interpreted; what depends on values alone the interpreter may refuse.
TEST(RandomKernels, ChangedInOneWord) {
  const Seeds range = seeds(150);
  int refused = 0, faulty = 0;
  std::vector<std::string> texts;
  std::vector<loop::Kernel> kernels;
  std::vector<std::vector<Tensor>> given, expected;
  for (uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const bool cuda = seed % 2 == 0;
    const std::string text =
        "// seed " + std::to_string(seed) + "\n" + mutated(cuda ? random_cuda_kernel(seed) : random_cpu_kernel(seed), seed);
    loop::Kernel kernel;
    try {
      kernel = loop::parse_kernel(text, "random");
    } catch (const Error&) {
      ++refused;
      continue;
    }
    if (!verify_kernel(kernel).empty()) {
      ++refused;
      continue;
    }
    Options options;
    options.target = kernel.target;
    try {
      if (cuda) emit_nvptx({{"k", &kernel}}, options);
      std::vector<Tensor> params = random_params(kernel, seed);
      std::vector<Tensor> results = interpreted(kernel, params);
      if (cuda) continue;
      given.push_back(std::move(params));
      expected.push_back(std::move(results));
    } catch (const Error& error) {
      ASSERT_EQ(error.diagnostics()[0].message.find("code generation"), std::string::npos) << error.diagnostics()[0].message << "\n"
                                                                                           << text;
      ++faulty;
      continue;
    }
    texts.push_back(text);
    kernels.push_back(std::move(kernel));
  }
  EXPECT_GT(refused, static_cast<int>(range.count) / 10);
  EXPECT_LE(faulty, static_cast<int>(range.count) / 20);
  RecordProperty("refused", refused);
  RecordProperty("faulty", faulty);
  const HostKernels compiled(kernels, 0);
  for (size_t i = 0; i < kernels.size(); ++i) {
    compiled.run(i, given[i], 0, kernels[i].grid);
    expect_same(kernels[i], given[i], expected[i], texts[i]);
  }
}

TEST(RandomKernelsOnCuda, AsInterpreted) {
  if (!DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  const CudaKernels made = cuda_kernels(seeds(400));
  if (HasFailure()) return;
  const DeviceKernels compiled(made.ptx);
  for (size_t i = 0; i < made.kernels.size(); ++i) {
    std::vector<Tensor> found = random_params(made.kernels[i], i);
    const std::vector<Tensor> expected = interpreted(made.kernels[i], found);
    compiled.run("k" + std::to_string(i), made.kernels[i], found);
    expect_same(made.kernels[i], found, expected, made.texts[i]);
  }
}

/// A loop over a tile that is written once for the values of its slowest register digit (code_size.h): registers keep their elements, under a condition, too.
TEST(RandomKernelsOnCuda, RolledTileLoops) {
  if (!DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (const char* where : {"", "where lt(index(%r1 + %q1), 300)"}) {
    const std::string text =
        std::string(R"(kernel #k target sm_80 grid 1 threads 256 shared 0 (%x: f32[128, 256], %z: f32[128, 256]) -> (%y: f32[128, 256]) {
      alloc %a: f32[128, 256] registers tile(reg 0 4 16, reg 1 8 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 0 2 64, warp 1 4 64)
      alloc %b: f32[128, 256] registers tile(reg 0 4 16, reg 1 8 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 0 2 64, warp 1 4 64)
      map %a: %r in 128 bind(tile), %q in 256 bind(tile) { store load %x[%r, %q], %a[%r, %q] store load %z[%r, %q], %b[%r, %q] }
      map %a: %r0 in 128 bind(tile), %q0 in 256 bind(tile) { store 0.5, %y[%r0, %q0] }
      map %a: %r1 in 128 bind(tile), %q1 in 256 bind(tile) )") +
        where + R"( {
        store add(tanh(load %a[%r1, %q1]), sub(exp(load %b[%r1, %q1]), load %a[%r1, %q1])), %y[%r1, %q1]
      }
      map %a: %r2 in 128 bind(tile), %q2 in 256 bind(tile) where lt(index(%r2), 3) { store load %b[%r2, %q2], %y[%r2, %q2] }
    })";
    const loop::Kernel kernel = loop::parse_kernel(text, "test");
    const std::string ptx = emit_nvptx({{"k", &kernel}}, {.target = "sm_80"}).assembly;
    EXPECT_NE(ptx.find(".pragma \"nounroll\""), std::string::npos);
    std::vector<Tensor> found = random_params(kernel, 1);
    const std::vector<Tensor> expected = interpreted(kernel, found);
    DeviceKernels(ptx).run("k", kernel, found);
    expect_same(kernel, found, expected, text);
  }
}

}  // namespace
}  // namespace tcc::codegen

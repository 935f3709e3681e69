#include "driver/generate_code.h"

#include "tcc/support/integer_math.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {

namespace {

// ptxas starts slowly, and a driver loads few images sooner than many: several kernels share one image. A constant, so that bytes
// do not depend on the machine.
constexpr size_t kKernelsPerImage = 8;

std::string symbol(const TargetChoice& choice, const std::string& level, size_t number) {
  return choice.target.is_cpu() ? link::cpu_symbol(kernel_name(number), cpu_level(level)) : kernel_name(number);
}

void for_each(size_t count, const std::function<void(size_t)>& body) {
  parallel_for(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

void generate_cpu(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times,
                  GeneratedCode* code) {
  const Timed timed(times, "generate-cpu-code");
  const size_t count = plan.kernels.size();
  progress.step("generating code for the CPU", static_cast<int64_t>(count * choice.levels.size()));
  code->objects.resize(count * choice.levels.size());
  for_each(code->objects.size(), [&](size_t i) {
    const std::string& level = choice.levels[i / count];
    const size_t number = i % count;
    const codegen::Options options{.optimization = optimization, .want_llvm = false, .want_asm = false, .target = level};
    codegen::Products products = codegen::emit_x86({{symbol(choice, level, number), &plan.kernels[number]}}, options);
    code->objects[i] = {"kernel " + kernel_name(number) + " for " + level, std::move(products.object)};
    progress.advance();
  });
}

void generate_cuda(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times,
                   GeneratedCode* code) {
  const size_t count = plan.kernels.size();
  std::vector<std::string> texts(ceil_div(count, kKernelsPerImage));
  {
    const Timed timed(times, "generate-ptx");
    progress.step("generating PTX", static_cast<int64_t>(texts.size()));
    for_each(texts.size(), [&](size_t image) {
      std::vector<codegen::NamedKernel> kernels;
      for (size_t k = image * kKernelsPerImage; k < std::min(count, (image + 1) * kKernelsPerImage); ++k) {
        kernels.push_back({symbol(choice, "", k), &plan.kernels[k]});
      }
      const codegen::Options options{.optimization = optimization, .want_llvm = false, .want_asm = false, .target = choice.ptx_arch};
      texts[image] = codegen::emit_nvptx(kernels, options).assembly;
      progress.advance();
    });
  }
  code->images_of_kernel.resize(count);
  const auto add = [&](size_t image, link::CudaImage bytes) {
    for (size_t k = image * kKernelsPerImage; k < std::min(count, (image + 1) * kKernelsPerImage); ++k) {
      code->images_of_kernel[k].push_back(static_cast<uint32_t>(code->images.size()));
    }
    code->images.push_back(std::move(bytes));
  };
  if (!choice.cubins.empty()) {
    const Timed timed(times, "assemble-cubins");
    std::vector<std::string> cubins(texts.size() * choice.cubins.size());
    progress.step("assembling cubins", static_cast<int64_t>(cubins.size()));
    for_each(cubins.size(), [&](size_t i) {
      cubins[i] = codegen::assemble_ptx(texts[i % texts.size()], choice.cubins[i / texts.size()]);
      progress.advance();
    });
    for (size_t i = 0; i < cubins.size(); ++i) {
      const CudaArch chip = parse_chip(choice.cubins[i / texts.size()]);
      add(i % texts.size(),
          {.kind = link::ImageKind::cubin, .arch = chip.number, .arch_specific = chip.specific, .bytes = std::move(cubins[i])});
    }
  }
  if (choice.ptx) {
    const CudaArch chip = parse_chip(choice.ptx_arch);
    for (size_t i = 0; i < texts.size(); ++i) {
      add(i, {.kind = link::ImageKind::ptx, .arch = chip.number, .arch_specific = chip.specific, .bytes = std::move(texts[i])});
    }
  }
}

}  // namespace

std::string kernel_name(size_t number) { return "k" + std::to_string(number); }

GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress,
                               TimeReport& times) {
  GeneratedCode code;
  if (choice.target.is_cpu()) generate_cpu(plan, choice, optimization, progress, times, &code);
  else generate_cuda(plan, choice, optimization, progress, times, &code);
  return code;
}

codegen::Products emit_all_kernels(const plan::Plan& plan, const TargetChoice& choice, const std::string& level, int optimization,
                                   bool want_llvm, bool want_asm) {
  std::vector<codegen::NamedKernel> kernels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) kernels.push_back({symbol(choice, level, k), &plan.kernels[k]});
  const codegen::Options options{.optimization = optimization, .want_llvm = want_llvm, .want_asm = want_asm, .target = level};
  return choice.target.is_cpu() ? codegen::emit_x86(kernels, options) : codegen::emit_nvptx(kernels, options);
}

}  // namespace tcc::driver

#include "driver/generate_code.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tcc/support/parallel.h"

namespace tcc::driver {

namespace {

// ptxas takes as long to start as for 150 instructions, and a driver loads few images sooner than many. So kernels share an image, but an image is what one
// thread makes: it has at most half of what the largest kernel has, as sizes are estimates within a factor of two. Nothing here depends on the machine, so that
// the bytes don't.
constexpr size_t kKernelsPerImage = 16;
constexpr int64_t kSmallImage = 4000;  // in the unit of estimate_code_size

std::string symbol(const TargetChoice& choice, const std::string& level, size_t number) {
  return choice.target.is_cpu() ? link::cpu_symbol(kernel_name(number), cpu_level(level)) : entry_name(choice, number);
}

/// Numbers from 0 on, the one with the largest size first.
std::vector<size_t> largest_first(const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  return order;
}

std::vector<int64_t> code_sizes(const plan::Plan& plan) {
  std::vector<int64_t> sizes;
  for (int k = 0; k < plan::num_launched_kernels(plan); ++k)
    sizes.push_back(codegen::estimate_code_size(plan.kernels[static_cast<size_t>(k)]));
  return sizes;
}

/// For each kernel the number of an equal one of `base`.
std::vector<std::optional<size_t>> find_in_base(const plan::Plan& plan, const plan::Plan* base) {
  std::vector<std::optional<size_t>> same(plan.kernels.size());
  if (!base) return same;
  std::map<std::string, size_t> numbers;
  for (size_t k = 0; k < base->kernels.size(); ++k) numbers.emplace(loop::print(base->kernels[k], "k"), k);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto found = numbers.find(loop::print(plan.kernels[k], "k"));
    if (found != numbers.end()) same[k] = found->second;
  }
  return same;
}

/// The kernels of each image, images with more code first; without those that `elsewhere` has. All of an image are for one target.
std::vector<std::vector<size_t>> kernels_of_images(const plan::Plan& plan, const std::vector<std::optional<size_t>>& elsewhere) {
  const std::vector<int64_t> sizes = code_sizes(plan);
  std::vector<std::vector<size_t>> images;
  int64_t size = 0;
  std::vector<size_t> order = largest_first(sizes);
  std::erase_if(order, [&](size_t k) { return elsewhere[k].has_value(); });
  const int64_t most = std::max(kSmallImage, order.empty() ? 0 : sizes[order.front()] / 2);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return plan.kernels[a].target < plan.kernels[b].target; });
  for (const size_t kernel : order) {
    if (images.empty() || plan.kernels[images.back().front()].target != plan.kernels[kernel].target ||
        images.back().size() == kKernelsPerImage || size + sizes[kernel] > most) {
      images.emplace_back();
      size = 0;
    }
    images.back().push_back(kernel);
    size += sizes[kernel];
  }
  // Names in order are easier to find.
  for (std::vector<size_t>& kernels : images) std::sort(kernels.begin(), kernels.end());
  return images;
}

void generate_cpu(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times,
                  GeneratedCode* code) {
  const Timed timed(times, "generate-cpu-code");
  const auto count = static_cast<size_t>(plan::num_launched_kernels(plan));
  progress.step("generating code for the CPU", static_cast<int64_t>(count * choice.levels.size()));
  code->objects.resize(count * choice.levels.size());
  const std::vector<size_t> order = largest_first(code_sizes(plan));
  parallel_each(code->objects.size(), [&](size_t task) {
    const std::string& level = choice.levels[task % choice.levels.size()];
    const size_t number = order[task / choice.levels.size()], i = task % choice.levels.size() * count + number;
    const codegen::Options options{.optimization = optimization, .want_llvm = false, .want_asm = false, .target = level};
    codegen::CompiledModule products = codegen::emit_x86({{symbol(choice, level, number), &plan.kernels[number]}}, options);
    code->objects[i] = {"kernel " + kernel_name(number) + " for " + level, std::move(products.object)};
    progress.advance();
  });
}

void generate_cuda(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times,
                   GeneratedCode* code) {
  const std::vector<std::vector<size_t>> kernels_of = kernels_of_images(plan, code->in_base);
  const auto target_of = [&](size_t image) { return plan.kernels[kernels_of[image].front()].target; };
  std::vector<std::string> texts(kernels_of.size());
  {
    const Timed timed(times, "generate-ptx");
    progress.step("generating PTX", static_cast<int64_t>(texts.size()));
    parallel_each(texts.size(), [&](size_t image) {
      std::vector<codegen::NamedKernel> kernels;
      for (const size_t k : kernels_of[image]) kernels.push_back({symbol(choice, "", k), &plan.kernels[k]});
      const codegen::Options options{.optimization = optimization, .want_llvm = false, .want_asm = false, .target = target_of(image)};
      texts[image] = codegen::emit_nvptx(kernels, options).assembly;
      progress.advance();
    });
  }
  code->images_of_kernel.resize(plan.kernels.size());
  const auto add = [&](size_t image, link::CudaImage bytes) {
    for (const size_t k : kernels_of[image]) code->images_of_kernel[k].push_back(static_cast<uint32_t>(code->images.size()));
    code->images.push_back(std::move(bytes));
  };
  if (!choice.cubins.empty()) {
    const Timed timed(times, "assemble-cubins");
    std::vector<std::string> cubins(texts.size() * choice.cubins.size());
    progress.step("assembling cubins", static_cast<int64_t>(cubins.size()));
    // Now the sizes are known, and they say best how long ptxas takes.
    std::vector<int64_t> sizes(cubins.size());
    for (size_t i = 0; i < cubins.size(); ++i) sizes[i] = static_cast<int64_t>(texts[i % texts.size()].size());
    const std::vector<size_t> order = largest_first(sizes);
    parallel_each(cubins.size(), [&](size_t task) {
      const size_t i = order[task];
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
    for (size_t i = 0; i < texts.size(); ++i) {
      const CudaArch chip = parse_chip(target_of(i));
      add(i, {.kind = link::ImageKind::ptx, .arch = chip.number, .arch_specific = chip.specific, .bytes = std::move(texts[i])});
    }
  }
}

}  // namespace

std::string kernel_name(size_t number) { return "k" + std::to_string(number); }

std::string entry_name(const TargetChoice& choice, size_t number) {
  return kernel_name(number) + (choice.target.base.empty() ? "" : "_" + choice.target.name);
}

GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, const plan::Plan* base, int optimization,
                               Progress& progress, TimeReport& times) {
  GeneratedCode code;
  code.in_base = find_in_base(plan, base);
  if (choice.target.is_cpu()) generate_cpu(plan, choice, optimization, progress, times, &code);
  else generate_cuda(plan, choice, optimization, progress, times, &code);
  return code;
}

codegen::CompiledModule emit_all_kernels(const plan::Plan& plan, const TargetChoice& choice, const std::string& level, int optimization,
                                         bool want_llvm, bool want_asm) {
  std::vector<codegen::NamedKernel> kernels;
  for (size_t k = 0; k < static_cast<size_t>(plan::num_launched_kernels(plan)); ++k)
    kernels.push_back({symbol(choice, level, k), &plan.kernels[k]});
  const codegen::Options options{.optimization = optimization, .want_llvm = want_llvm, .want_asm = want_asm, .target = level};
  return choice.target.is_cpu() ? codegen::emit_x86(kernels, options) : codegen::emit_nvptx(kernels, options);
}

}  // namespace tcc::driver

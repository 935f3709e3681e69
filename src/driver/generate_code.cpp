#include "driver/generate_code.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

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

/// The kernels of each image, images with more code first; without those of the target's base. All of an image are for one target and the same chips.
std::vector<std::vector<size_t>> kernels_of_images(const plan::Plan& plan, const CodeSharing& sharing) {
  const auto goes_with = [&](size_t kernel) { return std::tie(plan.kernels[kernel].target, sharing.cubins[kernel]); };
  const std::vector<int64_t> sizes = code_sizes(plan);
  std::vector<std::vector<size_t>> images;
  int64_t size = 0;
  std::vector<size_t> order = largest_first(sizes);
  std::erase_if(order, [&](size_t k) { return sharing.in_base[k].has_value(); });
  const int64_t most = std::max(kSmallImage, order.empty() ? 0 : sizes[order.front()] / 2);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return goes_with(a) < goes_with(b); });
  for (const size_t kernel : order) {
    if (images.empty() || goes_with(images.back().front()) != goes_with(kernel) || images.back().size() == kKernelsPerImage ||
        size + sizes[kernel] > most) {
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

/// A cubin of an image, while ptxas makes it.
struct Assembly {
  size_t image;
  std::string chip;
  std::string bytes;
};

/// Cubins of those images that are for chips, in the order of the images.
std::vector<Assembly> assemble_cubins(const std::vector<std::string>& texts, const std::vector<std::vector<size_t>>& kernels_of,
                                      const CodeSharing& sharing, Progress& progress, TimeReport& times) {
  std::vector<Assembly> assemblies;
  for (size_t image = 0; image < texts.size(); ++image) {
    for (const std::string& chip : sharing.cubins[kernels_of[image].front()]) assemblies.push_back({image, chip, ""});
  }
  if (assemblies.empty()) return assemblies;
  const Timed timed(times, "assemble-cubins");
  progress.step("assembling cubins", static_cast<int64_t>(assemblies.size()));
  // Now the sizes are known, and they say best how long ptxas takes.
  std::vector<int64_t> sizes;
  for (const Assembly& assembly : assemblies) sizes.push_back(static_cast<int64_t>(texts[assembly.image].size()));
  const std::vector<size_t> order = largest_first(sizes);
  parallel_each(assemblies.size(), [&](size_t task) {
    Assembly& assembly = assemblies[order[task]];
    assembly.bytes = codegen::assemble_ptx(texts[assembly.image], assembly.chip);
    progress.advance();
  });
  return assemblies;
}

void generate_cuda(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times,
                   GeneratedCode* code) {
  const std::vector<std::vector<size_t>> kernels_of = kernels_of_images(plan, code->sharing);
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
  const auto add = [&](size_t image, link::ImageKind kind, const std::string& name, std::string bytes) {
    const CudaArch chip = parse_chip(name);
    for (const size_t k : kernels_of[image]) code->images_of_kernel[k].push_back(static_cast<uint32_t>(code->images.size()));
    code->images.push_back({.kind = kind, .arch = chip.number, .arch_specific = chip.specific, .bytes = std::move(bytes)});
  };
  for (Assembly& assembly : assemble_cubins(texts, kernels_of, code->sharing, progress, times))
    add(assembly.image, link::ImageKind::cubin, assembly.chip, std::move(assembly.bytes));
  if (!choice.ptx) return;
  for (size_t i = 0; i < texts.size(); ++i) add(i, link::ImageKind::ptx, target_of(i), std::move(texts[i]));
}

}  // namespace

std::string kernel_name(size_t number) { return "k" + std::to_string(number); }

std::string entry_name(const TargetChoice& choice, size_t number) {
  return kernel_name(number) + (choice.target.base.empty() ? "" : "_" + choice.target.name);
}

std::vector<std::optional<size_t>> find_in_base(const plan::Plan& plan, const plan::Plan& base) {
  std::map<std::string, size_t> numbers;
  for (size_t k = 0; k < base.kernels.size(); ++k) numbers.emplace(loop::print(base.kernels[k], "k"), k);
  std::vector<std::optional<size_t>> same(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto found = numbers.find(loop::print(plan.kernels[k], "k"));
    if (found != numbers.end()) same[k] = found->second;
  }
  return same;
}

GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, CodeSharing sharing, int optimization,
                               Progress& progress, TimeReport& times) {
  GeneratedCode code;
  code.sharing = std::move(sharing);
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

#include "host_kernel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "guarded.h"
#include "kernel_memory.h"
#include "tcc/codegen/codegen.h"
#include "tcc/loop/row_padding.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc::codegen {

HostKernels::HostKernels(std::vector<loop::Kernel> kernels, int optimization) : kernels_(std::move(kernels)) {
  Options options;
  options.target = kernels_.front().target;
  options.optimization = optimization;
  std::vector<NamedKernel> named;
  for (size_t i = 0; i < kernels_.size(); ++i) named.push_back({"k" + std::to_string(i), &kernels_[i]});
  CompiledModule products = emit_x86(named, options);
  char folder[] = "/tmp/tcc-kernel-XXXXXX";
  check(mkdtemp(folder) != nullptr, "a temporary folder");
  std::string base = folder;
  write_file_atomically(base + "/k.o", products.object);
  // No -lm: a kernel that calls libm must fail to load.
  std::string command = "cc -shared -nostdlib -Wl,-z,defs -o " + base + "/k.so " + base + "/k.o -lc";
  check(std::system(command.c_str()) == 0, "cc links the kernel");
  library_ = dlopen((base + "/k.so").c_str(), RTLD_NOW);
  check(library_ != nullptr, "the kernel loads");
  for (const char* name : {"/k.o", "/k.so"}) unlink((base + name).c_str());
  rmdir(folder);
}

HostKernels::~HostKernels() { dlclose(library_); }

void HostKernels::run(size_t which, std::vector<Tensor>& params, int64_t begin, int64_t end, std::vector<int64_t>* bad_indices) const {
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<void*> pointers;
  const std::vector<loop::Param>& of_kernel = kernels_[which].params;
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor tensor = in_memory(*of_kernel[i].buffer, params[i]);
    const auto size = static_cast<size_t>(tensor.size_bytes()), element = static_cast<size_t>(size_bytes(tensor.dtype()));
    const auto place = (memory.size() + static_cast<size_t>(begin)) % 2 == 0 ? Guarded::Place::after_start : Guarded::Place::before_end;
    memory.push_back(std::make_unique<Guarded>(size, element, place));
    std::memcpy(memory.back()->data(), tensor.bytes(), size);
    pointers.push_back(memory.back()->data());
  }
  std::vector<int64_t> bad(static_cast<size_t>(loop::num_index_checks(kernels_[which].body)));
  if (!bad.empty()) pointers.push_back(bad.data());
  const std::string name = "k" + std::to_string(which);
  const auto function = reinterpret_cast<void (*)(void* const*, int64_t, int64_t)>(dlsym(library_, name.c_str()));
  function(pointers.data(), begin, end);
  if (bad_indices) *bad_indices = bad;
  for (size_t i = 0; i < params.size(); ++i) {
    loop::unpad_rows(*of_kernel[i].buffer, static_cast<const std::byte*>(memory[i]->data()), params[i].mutable_bytes());
  }
}

std::vector<Tensor> random_params(const loop::Kernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> params;
  for (const loop::Param& param : kernel.params) {
    Tensor tensor(param.buffer->dtype, param.buffer->extents);
    if (param.written) {
      std::memset(tensor.mutable_bytes(), 0x7f, static_cast<size_t>(tensor.size_bytes()));
    } else {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        if (is_float(tensor.dtype())) tensor.set_double(i, std::uniform_real_distribution<double>(-2, 2)(random));
        else tensor.set_int64(i, std::uniform_int_distribution<int64_t>(-5, 5)(random));
      }
    }
    params.push_back(std::move(tensor));
  }
  return params;
}

}  // namespace tcc::codegen

#include "models/exported.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tcc/support/npy.h"

namespace tcc::test {

namespace fs = std::filesystem;

namespace {

runtime::Device chosen = runtime::Device::cpu;

bool has_cuda_device() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  return init != nullptr && count_devices != nullptr && init(0) == 0 && count_devices(&count) == 0 && count > 0;
}

}  // namespace

runtime::Device device() { return chosen; }

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--device=cuda") == 0) chosen = runtime::Device::cuda;
  }
  if (chosen == runtime::Device::cuda && !has_cuda_device()) {
    std::puts("skipped: there is no CUDA device here");
    return 77;
  }
  return RUN_ALL_TESTS();
}

driver::Options compile_options() {
  driver::Options options;
  options.cuda = chosen == runtime::Device::cuda;
  options.cpu = !options.cuda;
  options.verify_passes = true;
  return options;
}

ModelData::ModelData(const std::string& model_path) {
  const fs::path folder = fs::path(model_path).parent_path();
  reference = read_npz((folder / "ref.npz").string());
  if (fs::exists(folder / "train.npz")) training = read_npz((folder / "train.npz").string(), true);
}

const Tensor& ModelData::input(const std::string& name, size_t number) const {
  const auto found = reference.find(name);
  return found != reference.end() ? found->second : reference.at("in" + std::to_string(number));
}

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) largest = std::max(largest, std::abs(tensor.as_double(i)));
  return largest;
}

std::string identifier(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
}

}  // namespace tcc::test

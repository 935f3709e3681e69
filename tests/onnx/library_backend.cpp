// The whole compiler: a library is written, loaded and run on the CPU.
#include <unistd.h>

#include <filesystem>

#include "onnx/backend.h"
#include "tcc/driver/pipeline.h"
#include "tcc/runtime/library.h"

namespace tcc::onnx_suite {
namespace {

class LibraryBackend : public Backend {
 public:
  // A process runs one test at a time, so its number makes the name unique.
  LibraryBackend() : path_((std::filesystem::temp_directory_path() / ("tcc_onnx_suite_" + std::to_string(getpid()) + ".so")).string()) {}
  ~LibraryBackend() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  void compile(const std::string& path, const Bindings& bindings) override {
    driver::Options options;
    options.cuda = false;
    options.threads = 1;
    options.progress = driver::ProgressStyle::off;
    options.bindings = bindings;
    driver::compile_to_library(path, options, path_);
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) override {
    runtime::InstanceOptions options;
    options.device = runtime::Device::cpu;
    options.num_threads = 1;
    runtime::Instance instance(runtime::Library::open(path_), options);
    return instance.run(inputs);
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Backend> make_library_backend() { return std::make_unique<LibraryBackend>(); }

}  // namespace tcc::onnx_suite

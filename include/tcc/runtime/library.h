// A library made by tcc, loaded into this process: what `tcc run`, `tcc bench`, `tcc verify` and the tests use.
// A thin C++ wrapper over the C interface (tcc/runtime/runtime.h).
//
//   auto library = runtime::Library::open("mlp.so");
//   runtime::Instance instance(library, {.device = runtime::Device::automatic});
//   std::vector<Tensor> y = instance.run({x});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tcc/runtime/runtime.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc::runtime {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t size_bytes = 0;
};

enum class Device { automatic = TCC_DEVICE_AUTO, cpu = TCC_DEVICE_CPU, cuda = TCC_DEVICE_CUDA };

/// The shared object. Errors: environment when the file is missing, is no library, or is none of ours.
class Library {
 public:
  static std::shared_ptr<const Library> open(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return path_; }
  const std::string& model_name() const { return model_name_; }
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  bool has_cpu() const { return info_.has_cpu; }
  bool has_cuda() const { return info_.has_cuda; }
  const tcc_model_info& info() const { return info_; }
  const tcc_api& api() const { return *api_; }

 private:
  Library() = default;
  std::string path_, model_name_;
  void* handle_ = nullptr;
  const tcc_api* api_ = nullptr;
  tcc_model_info info_ = {};
  std::vector<TensorInfo> inputs_, outputs_;
};

struct InstanceOptions {
  Device device = Device::automatic;
  int device_ordinal = 0;
  int num_threads = 0;  ///< CPU; 0: what this process may use
  bool cuda_graph = true;
  std::string weights_path;                     ///< for a library without its weights
  std::function<void(const std::string&)> log;  ///< which device was chosen, and why
};

struct Timing {
  double host_us = 0;    ///< inside run() on this thread
  double device_us = 0;  ///< on the device's own clock; on the CPU equal to host_us
};

struct LaunchTime {
  std::string label, kernel;
  uint64_t grid = 0;
  double time_us = 0;
};

/// A model ready to run on one device. Errors: usage for tensors that do not fit (the message names the input, the axis, what came and
/// what was expected), environment for devices, drivers and memory.
class Instance {
 public:
  Instance(std::shared_ptr<const Library> library, const InstanceOptions& options = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Library& library() const { return *library_; }
  const tcc_instance_info& info() const { return info_; }
  bool on_cuda() const { return info_.device == TCC_DEVICE_CUDA; }
  std::string device_name() const { return info_.device_name; }
  std::string device_reason() const { return info_.device_reason; }
  uint64_t peak_bytes() const { return info_.workspace_bytes; }

  /// Host tensors in, host tensors out; on CUDA the copies are made too.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  /// For timing: puts the inputs where the device reads them once, and allocates the outputs there. run_prepared() then runs without any
  /// copy and waits; prepared_outputs() copies the outputs back.
  void prepare(const std::vector<Tensor>& inputs);
  Timing run_prepared();
  std::vector<Tensor> prepared_outputs();
  /// Enqueues `runs` runs back to back and waits once; the time of all of them together.
  Timing run_prepared_many(int runs);
  /// One prepared run with a clock around each launch.
  std::vector<LaunchTime> profile_prepared();

 private:
  struct Prepared;
  void check(int status) const;
  std::shared_ptr<const Library> library_;
  tcc_instance* instance_ = nullptr;
  tcc_instance_info info_ = {};
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tcc::runtime

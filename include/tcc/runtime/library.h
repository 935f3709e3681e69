// A library made by tcc, loaded into this process: what `tcc run`, `tcc bench`, `tcc verify` and the tests use.
// A thin C++ wrapper over the C interface (tcc/runtime/runtime.h).
//
//   auto library = runtime::Library::open("mlp.so");
//   runtime::Instance instance(library, {.device = runtime::Device::automatic});
//   std::vector<Tensor> y = instance.run({x});                  // the first function: `infer`
//   std::vector<Tensor> loss = instance.step({x, target});      // of a library for training
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/graph/state.h"
#include "tcc/runtime/runtime.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/int_range.h"
#include "tcc/support/tensor.h"

namespace tcc::runtime {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t size_bytes = 0;
  std::optional<IntRange> range;  ///< of an input: which elements are valid as indices, classes or lengths, where that is known
};

struct FunctionInfo {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
};

struct StateInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  StateRole role = StateRole::parameter;
  int section = 0;
  int64_t offset = 0;  ///< in bytes, in its section
  int64_t size_bytes = 0;
  bool trained = true;
};

struct SectionInfo {
  std::string name;
  DType dtype = DType::f32;
  StateRole role = StateRole::parameter;
  int64_t size_bytes = 0;
};

struct ScalarInfo {
  std::string name;
  DType dtype = DType::f32;
  double value = 0;  ///< until it is set
};

enum class Device { automatic = TCC_DEVICE_AUTO, cpu = TCC_DEVICE_CPU, cuda = TCC_DEVICE_CUDA };

/// The shared object. Errors: environment when the file is missing, is not a library, is not one of ours, or is damaged.
class Library : public std::enable_shared_from_this<Library> {
 public:
  /// What is held against the checksums that tcc wrote: all but the weights; or the same, and a library without them is refused, for which
  /// InstanceOptions::check_weights does the rest.
  enum class Check { usual, whole };
  static std::shared_ptr<const Library> open(const std::string& path, Check how = Check::usual);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return path_; }
  const std::string& model_name() const { return model_name_; }
  /// Of the first function, which is what Instance::run(inputs) runs.
  const std::vector<TensorInfo>& inputs() const { return functions_[0].inputs; }
  const std::vector<TensorInfo>& outputs() const { return functions_[0].outputs; }
  const std::vector<FunctionInfo>& functions() const { return functions_; }
  /// Its number, or -1.
  int find_function(std::string_view name) const;
  /// Error (usage) that names the functions there are.
  int function(std::string_view name) const;
  bool trains() const { return find_function("step") >= 0; }
  int accumulate() const { return static_cast<int>(info_.accumulate); }  ///< steps that make one update
  const std::vector<StateInfo>& state() const { return state_; }
  const StateInfo* find_state(std::string_view name) const;  ///< null when there is none
  const std::vector<SectionInfo>& sections() const { return sections_; }
  const std::vector<ScalarInfo>& scalars() const { return scalars_; }
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
  std::vector<FunctionInfo> functions_;
  std::vector<StateInfo> state_;
  std::vector<SectionInfo> sections_;
  std::vector<ScalarInfo> scalars_;
};

/// Whether a run ended because an index was out of range. What the state holds may be one: the place in a cache that is full.
bool is_index_error(const Error& error);

struct InstanceOptions {
  Device device = Device::automatic;
  int device_ordinal = 0;
  int num_threads = 0;  ///< CPU; 0: what this process may use
  bool cuda_graph = true;
  bool index_check = true;                      ///< an index out of range is an Error (usage)
  std::string weights_path;                     ///< for a library without its weights
  bool check_weights = false;                   ///< reads all of them, against the checksum that tcc wrote
  std::function<void(const std::string&)> log;  ///< which device was chosen, and why; what a state file lacks
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
/// what was expected), environment for devices, drivers, memory and files.
class Instance {
 public:
  Instance(std::shared_ptr<const Library> library, const InstanceOptions& options = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Library& library() const { return *library_; }
  tcc_instance* handle() const { return instance_; }
  const tcc_instance_info& info() const { return info_; }
  bool on_cuda() const { return info_.device == TCC_DEVICE_CUDA; }
  std::string device_name() const { return info_.device_name; }
  std::string device_reason() const { return info_.device_reason; }
  uint64_t peak_bytes() const { return info_.workspace_bytes; }
  tcc_function_info function_info(int function) const;

  /// Host tensors in, host tensors out; on CUDA the copies are made too.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) { return run(0, inputs); }
  std::vector<Tensor> run(int function, const std::vector<Tensor>& inputs);
  std::vector<Tensor> run(std::string_view function, const std::vector<Tensor>& inputs);
  /// One training step; with accumulation, one micro-batch of it.
  std::vector<Tensor> step(const std::vector<Tensor>& inputs);

  void set_scalar(std::string_view name, double value);
  double get_scalar(std::string_view name) const;
  Tensor read_state(std::string_view name) const;
  void write_state(std::string_view name, const Tensor& tensor);
  void* section_data(int section);  ///< in the device's memory
  void save_state(const std::string& path);
  void load_state(const std::string& path, bool parameters_only = false);
  void reset_state();

  /// For timing: puts the inputs where the device reads them once, and allocates the outputs there. run_prepared() then runs without any
  /// copy and waits; prepared_outputs() copies the outputs back. `function`: kStep makes each run a step().
  static constexpr int kStep = -1;
  void prepare(const std::vector<Tensor>& inputs, int function = 0);
  Timing run_prepared();
  std::vector<Tensor> prepared_outputs();
  /// Enqueues `runs` runs back to back and waits once; the time of all of them together.
  Timing run_prepared_many(int runs);
  /// One prepared run (of the function `step` for kStep) with a clock around each launch.
  std::vector<LaunchTime> profile_prepared();

 private:
  struct Prepared;
  void check(int status) const;
  int prepared_call(tcc_timing* timing);
  void free_prepared();
  std::shared_ptr<const Library> library_;
  tcc_instance* instance_ = nullptr;
  tcc_instance_info info_ = {};
  std::function<void(const std::string&)> log_;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tcc::runtime
